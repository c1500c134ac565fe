"""What the commands print: sentences and tables of what the report found.

A recording may come from somebody else, so none of its text is trusted: control characters are
taken out, and nothing in it is read as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from probe import tables
from probe.forecast import Forecast
from probe.insight import words
from probe.insight.board import Board
from probe.insight.causes import Cause
from probe.insight.compare import Comparison
from probe.insight.conditions import Outcome
from probe.insight.summary import PHASES, LoaderSummary, Times
from probe.report import RunReport
from probe.store.queries import Loader

_MISSING = "–"
# A pipe has no width; narrower, tables would cut names off.
_PIPE_WIDTH = 120


def plain(text: str) -> str:
    """Make text safe to print on one line: whatever is not printable becomes a space."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def runs(rows: list[dict[str, Any]]) -> None:
    """Print the runs of a recording; `rows` as from `runs_table`."""
    if not rows:
        _line("No runs are recorded in this file.")
        return
    table = _table("id", "name", "strategy", "status", "steps", "samples/s", "stall", "GPU")
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        cells = (
            str(row["id"]),
            row["name"] or row["uid"][:8],
            row["strategy"] or _MISSING,
            row["status"],
            words.count(row["steps"]),
            _count(row["samples_per_s"]),
            _percent(row["stall_share"]),
            _percent(row["gpu_utilization"]),
            " · ".join(part for part in (row["class"], row["cause"]) if part),
        )
        _add(table, cells)
    _print(table)
    _line(f"{_MISSING} was not measured. `probe show RUN` says why a run waits.")


def show(found: RunReport) -> None:
    """Print the report on a run."""
    run = found.run
    _line(" · ".join(part for part in (run.label, run.strategy, run.status, run.device) if part))
    _line(found.verdict.sentence)
    for evidence in found.verdict.evidence:
        _line(f"  {evidence}")
    for rank, cause in enumerate(found.verdict.causes, 1):
        _cause(rank, cause)
    for loader, summary in zip(found.rows, found.loaders, strict=True):
        _loader(loader, summary)
    _line("")
    if found.queue is not None and (line := found.queue.sentence):
        _line(line)
    for stage in found.stages:
        _line(stage.sentence)
    for pair in found.overlaps:
        _line(pair.sentence)
    utilization = found.gpu_utilization
    _line(
        "GPU utilization: not measured."
        if utilization is None
        else f"GPU utilization: {words.percent(utilization)} on average, coarse: the share of time"
        " that at least one kernel ran."
    )
    cost = found.overhead_share
    _line(
        f"Recording cost: {'not measured' if cost is None else f'{words.percent(cost)} of the run'}"
        f"; {words.count(run.dropped)} steps dropped."
    )


def _cause(rank: int, cause: Cause) -> None:
    _line("")
    _line(
        f"{rank}. {cause.title}: {words.percent(cause.share)} of the stall,"
        f" confidence {cause.confidence}"
    )
    _line(f"   {cause.evidence}")
    _line(f"   {cause.advice}")


def comparison(found: Comparison, outcomes: Sequence[Outcome] = ()) -> None:
    """Print what changed between two runs, and what became of the conditions that were asked."""
    _line(found.sentence)
    for outcome in outcomes:
        _line(outcome.sentence)
    for warning in found.warnings:
        _line(f"  Note: {warning}")
    _line("")
    _sheet(tables.changes(found))
    _sheet(tables.figures(found))
    if found.differs:
        _line("Differs:")
        for name, before, after in tables.differences(found).rows:
            _line(f"  {name}: {before} → {after}")
    else:
        _line("No recorded setting differs.")
    if found.alike:
        _line(f"Same: {', '.join(found.alike)}.")


def board(found: Board) -> None:
    """Print several strategies against a baseline."""
    _line(found.sentence)
    _line("")
    _sheet(tables.board(found))
    if found.ceiling is not None:
        _line(f"Ceiling, batches from memory: {words.rate(found.ceiling)} {found.unit}.")
    for note in found.notes:
        _line(f"Note: {note}")


def forecast(forecast: Forecast) -> None:
    """Print what other settings are predicted to give, and how good such predictions were."""
    found = forecast.predicted
    _line(found.sentence)
    for assumption in found.assumptions:
        _line(f"  Note: {assumption}")
    _line("")
    heads = ("workers", "prefetch_factor", "samples/s", "95 %", "stall", "measured")
    table = _table(*heads, numbers_from=0)
    table.add_column("")
    for point in found.points:
        interval = point.samples_per_s_ci
        measured = [run for run in forecast.measured if run.has_setting(point)]
        cells = (
            str(point.num_workers),
            _MISSING if point.prefetch_factor is None else str(point.prefetch_factor),
            words.rate(point.samples_per_s),
            _MISSING if interval is None else "–".join(map(words.rate, interval)),
            words.percent(point.stall_share),
            ", ".join(words.rate(run.samples_per_s) for run in measured) or _MISSING,
            "smallest that is enough" if point == found.recommended else "",
        )
        _add(table, cells)
    _print(table)
    ceiling = found.ceiling
    _line(
        f"Recorded: {words.rate(found.recorded_samples_per_s)} samples/s. Ceiling, a loop that"
        f" never waits: {'none' if ceiling is None else f'{words.rate(ceiling)} samples/s'}."
    )
    _line(forecast.calibration.sentence)


def _loader(loader: Loader, summary: LoaderSummary) -> None:
    _line("")
    rate, start = summary.samples_per_s, summary.epoch_start_ms
    known = (
        f"{summary.name} ({summary.role}): {words.count(summary.steps)} steps",
        "samples/s not measured" if rate is None else f"{words.count(rate)} samples/s",
        None if start is None else f"epoch start {words.ms(start)} ms",
        " › ".join(loader.chain),
        None if loader.num_workers is None else f"num_workers={loader.num_workers}",
        None if loader.batch_size is None else f"batch_size={loader.batch_size}",
    )
    _line(" · ".join(part for part in known if part))
    table = _table("ms", "mean", "p50", "p95", "p99", "max", "total", numbers_from=1)
    for phase in (*PHASES, "step"):
        times: Times = getattr(summary, f"{phase}_ms")
        values = (times.mean, times.p50, times.p95, times.p99, times.max, times.total)
        _add(table, (phase, *(_ms(value) for value in values)))
    _print(table)


def _sheet(found: tables.Table) -> None:
    table = _table(*found.head, numbers_from=found.numbers_from)
    for row in found.rows:
        _add(table, row)
    _print(table)


def _table(*headers: str, numbers_from: int = 4) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, header in enumerate(headers):
        right = i >= numbers_from
        table.add_column(Text(plain(header)), justify="right" if right else "left", no_wrap=right)
    return table


def _add(table: Table, cells: Iterable[str]) -> None:
    table.add_row(*(Text(plain(cell)) for cell in cells))


def _line(text: str) -> None:
    # A wrapped sentence cannot be searched for in a pipe.
    _print(Text(text[: len(text) - len(text.lstrip())] + plain(text)), soft_wrap=not _terminal())


def _print(what: Table | Text, soft_wrap: bool = False) -> None:
    console = Console(highlight=False, width=None if _terminal() else _PIPE_WIDTH)
    console.print(what, soft_wrap=soft_wrap)


def _terminal() -> bool:
    return sys.stdout.isatty()


def _ms(value: float | None) -> str:
    return _MISSING if value is None else words.ms(value)


def _percent(value: float | None) -> str:
    return _MISSING if value is None else words.percent(value)


def _count(value: float | None) -> str:
    return _MISSING if value is None else words.count(value)
