"""What the commands print: sentences and tables of what the report found.

A recording may come from somebody else, so none of its text is trusted: control characters are
taken out, and nothing in it is read as markup.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from probe.insight import words
from probe.insight.compare import Comparison
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
            row["class"],
        )
        _add(table, cells)
    _print(table)
    _line(f"{_MISSING} was not measured. `probe show RUN` says why a run waits.")


def show(found: RunReport, loaders: list[Loader]) -> None:
    """Print the report on a run; `loaders` are its loaders, in the report's order."""
    run = found.run
    _line(" · ".join(part for part in (run.label, run.strategy, run.status, run.device) if part))
    _line(found.verdict.sentence)
    for evidence in found.verdict.evidence:
        _line(f"  {evidence}")
    for loader, summary in zip(loaders, found.loaders, strict=True):
        _loader(loader, summary)
    _line("")
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


def comparison(found: Comparison) -> None:
    """Print what changed between two runs."""
    _line(found.sentence)
    for warning in found.warnings:
        _line(f"  Note: {warning}")
    _line("")
    table = _table("ms a step", found.baseline, found.candidate, "change", "95 %", numbers_from=1)
    for phase in (*PHASES, "step"):
        delta = found.step_ms_delta if phase == "step" else found.phases_ms_delta[phase]
        interval = found.step_ms_ci if phase == "step" else found.phases_ms_ci[phase]
        cells = (
            phase,
            _ms(found.baseline_ms[phase]),
            _ms(found.candidate_ms[phase]),
            _MISSING if delta is None else words.signed_ms(delta),
            _MISSING
            if interval is None
            else f"{words.signed_ms(interval[0])} to {words.signed_ms(interval[1])}",
        )
        _add(table, cells)
    _print(table)
    if not found.differs:
        _line("No recorded setting differs.")
        return
    _line("Differs:")
    for difference in found.differs:
        _line(f"  {difference.setting}: {_setting(difference.a)} → {_setting(difference.b)}")


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


def _setting(value: object) -> str:
    if value is None:
        return "not recorded"
    return " › ".join(str(item) for item in value) if isinstance(value, list) else str(value)
