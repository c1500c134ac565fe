"""What the demo prints at its end; every figure comes from the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from probe.insight import words
from probe.insight.compare import Comparison
from probe.insight.throughput import CANNOT_TELL, FASTER, NO_DIFFERENCE, SLOWER
from probe.report import RunReport, comparison, report
from probe.store.queries import Store, StoreError

_NOT_MEASURED = "not measured"

# What a comparison with the winner says of a strategy that is less simple.
_BESIDE_WINNER = {
    FASTER: "is faster still",
    SLOWER: "is slower than that",
    NO_DIFFERENCE: "makes no difference to that",
    CANNOT_TELL: "cannot be told from that",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """One strategy's run, compared with the first."""

    found: RunReport
    against_first: Comparison | None

    @property
    def title(self) -> str:
        return self.found.run.strategy or self.found.run.label

    @property
    def ratio(self) -> float:
        """What to rank by; a run without a ratio comes last."""
        against = self.against_first
        return against.throughput_ratio or 0 if against else 0


def print_table(file: Path, experiment: str, because: Mapping[str, str], console: Console) -> None:
    """Print a table of the strategies of one experiment and say which wins, by how much and why.

    Args:
        file: The recording.
        experiment: Whose runs to show; the first one is what the others are compared with.
        because: What each strategy does about waiting, by its title.
        console: Where to print.

    Raises:
        StoreError: The file has no such recording.
    """
    with Store(file) as store:
        runs = [run for run in reversed(store.runs()) if run.experiment == experiment]
        if not runs:
            raise StoreError(f"nothing of {experiment} was recorded in {file}")
        first, *others = runs
        rows = [_Row(report(store, first), None)]
        rows += [_Row(report(store, run), comparison(store, first, run)) for run in others]
        console.print(_table(rows))
        for sentence in _conclusion(store, rows, because):
            console.print(sentence, highlight=False)
        console.print(f"Recorded in {file}", highlight=False, soft_wrap=True)


def _table(rows: list[_Row]) -> Table:
    table = Table()
    table.add_column("strategy")
    for heading in ("steps", "samples/s", "waits for data (95 %)", "× plain (95 %)"):
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(row.title, *_figures(row), row.found.verdict.class_)
    return table


def _figures(row: _Row) -> tuple[str, ...]:
    consumer = row.found.consumer
    if consumer is None:
        return ("0", *[_NOT_MEASURED] * 3)
    rate, share = consumer.samples_per_s, consumer.stall_share
    return (
        words.count(consumer.steps),
        _NOT_MEASURED if rate is None else words.count(rate),
        _NOT_MEASURED
        if share is None
        else _with_interval(
            words.percent(share),
            consumer.stall_share_ci and words.percent_range(*consumer.stall_share_ci),
        ),
        "1" if row.against_first is None else _times(row.against_first),
    )


def _times(found: Comparison) -> str:
    if found.throughput_ratio is None:
        return _NOT_MEASURED
    interval = found.throughput_ci
    return _with_interval(
        f"{words.times(found.throughput_ratio)} ×",
        interval and "–".join(words.times(bound) for bound in interval),
    )


def _with_interval(value: str, interval: str | None) -> str:
    return f"{value} ({interval or 'too few steps'})"


def _conclusion(store: Store, rows: list[_Row], because: Mapping[str, str]) -> list[str]:
    first, *others = rows
    best = max(others, key=lambda row: row.ratio)
    # The simplest one that the best is not shown to beat; `others` has the simplest first.
    winner = next(row for row in others if row is best or not _beats(store, best, row))
    found = winner.against_first
    assert found is not None
    if found.verdict != FASTER:
        return [f"No strategy is shown to beat {first.title}. {found.sentence}"]
    before, after = found.baseline_ms["wait"], found.candidate_ms["wait"]
    assert before is not None
    assert after is not None
    outcome = "wins" if winner is best else "is enough, as nothing is shown to beat it"
    sentences = [
        f"[bold]{winner.title} {outcome}[/]: {_times(found)} the samples/s of {first.title},"
        f" because {because[winner.title]}: a step waits {words.ms(after)} ms for data instead of"
        f" {words.ms(before)} ms."
    ]
    for row in others[others.index(winner) + 1 :]:
        extra = comparison(store, winner.found.run, row.found.run)
        sentences.append(f"{row.title} {_BESIDE_WINNER[extra.verdict]}: {_times(extra)}.")
    return sentences


def _beats(store: Store, row: _Row, other: _Row) -> bool:
    return comparison(store, other.found.run, row.found.run).verdict == FASTER
