"""The command `probe compare`: compares, prints in the form that was asked for, and decides."""

from __future__ import annotations

from collections.abc import Sequence

from probe import markdown, printing, strict_json
from probe.insight.compare import compare
from probe.insight.conditions import Outcome, decide, parse
from probe.report import board, side
from probe.store.queries import Run, Store

FAILED, PASSED, CANNOT_TELL = 1, 0, 3


def compare_two(store: Store, a: Run, b: Run, fail_if: Sequence[str], how: str) -> int:
    """Compare two runs and print it; return the exit status.

    Args:
        store: The recording.
        a: The baseline.
        b: The candidate.
        fail_if: Conditions, as for `parse`.
        how: `text`, `json` or `markdown`.

    Raises:
        ValueError: A condition cannot be read; one sentence.
        StoreError: A run has no consumer loader.
    """
    conditions = [parse(text) for text in fail_if]
    before, after = side(store, a), side(store, b)
    found = compare(before, after)
    outcomes = [decide(condition, found, before, after) for condition in conditions]
    if how == "json":
        print(strict_json.dumps({**found.to_json(), "conditions": [o.to_json() for o in outcomes]}))
    elif how == "markdown":
        print(markdown.comparison(found, outcomes))
    else:
        printing.comparison(found, outcomes)
    return _status(outcomes)


def compare_many(store: Store, runs: Sequence[Run], how: str) -> int:
    """Set several runs against the first and print it; return the exit status.

    Raises:
        StoreError: A run has no consumer loader, or all are of one strategy.
    """
    found = board(store, runs)
    if how == "json":
        print(strict_json.dumps(found.to_json()))
    elif how == "markdown":
        print(markdown.board(found))
    else:
        printing.board(found)
    return PASSED


def _status(outcomes: Sequence[Outcome]) -> int:
    found = {outcome.holds for outcome in outcomes}
    if True in found:
        return FAILED
    return CANNOT_TELL if None in found else PASSED
