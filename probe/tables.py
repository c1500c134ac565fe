"""Comparisons and boards as sentences and tables of text: for terminal, Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from probe.insight import words
from probe.insight.board import Board, Entry
from probe.insight.compare import Comparison
from probe.insight.figures import Figures
from probe.insight.summary import PHASES
from probe.insight.throughput import Interval

MISSING = "–"


@dataclass(frozen=True, slots=True)
class Table:
    """A heading for each column, and rows of cells; from column `numbers_from` on, numbers."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers_from: int = 1


def changes(found: Comparison) -> Table:
    """Set the mean step of both runs side by side, phase by phase."""
    rows = []
    for phase in (*PHASES, "step"):
        delta = found.step_ms_delta if phase == "step" else found.phases_ms_delta[phase]
        interval = found.step_ms_ci if phase == "step" else found.phases_ms_ci[phase]
        rows.append(
            (
                phase,
                _ms(found.baseline_ms[phase]),
                _ms(found.candidate_ms[phase]),
                MISSING if delta is None else words.signed_ms(delta),
                MISSING
                if interval is None
                else f"{words.signed_ms(interval[0])} to {words.signed_ms(interval[1])}",
            )
        )
    return Table(("ms a step", found.baseline, found.candidate, "change", "95 %"), rows)


def figures(found: Comparison) -> Table:
    """Set what else was measured of both runs side by side."""
    sides = found.baseline_figures, found.candidate_figures
    rows: list[tuple[str, ...]] = [
        ("samples/s", *(_rate(side.samples_per_s) for side in sides)),
        ("stall share", *(_stall(side) for side in sides)),
    ]
    for name in ("wait", "step"):
        for percentile in ("p50", "p95", "p99"):
            values = [getattr(getattr(side, f"{name}_ms"), percentile) for side in sides]
            rows.append((f"{name} {percentile}, ms", *map(_ms, values)))
    rows.append(("start of an epoch, ms", *(_ms(side.epoch_start_ms) for side in sides)))
    if (reach := found.time_to_samples) is not None:
        seconds = (reach.baseline_s, reach.candidate_s)
        rows.append((f"time to {words.count(reach.samples)} samples, s", *map(_ms, seconds)))
    rows.append(("GPU utilization (coarse)", *(_percent(side.gpu_utilization) for side in sides)))
    return Table(("", found.baseline, found.candidate), rows)


def differences(found: Comparison) -> Table:
    """List the settings that differ."""
    rows = [(each.setting, setting(each.a), setting(each.b)) for each in found.differs]
    return Table(("setting", found.baseline, found.candidate), rows, numbers_from=3)


def board(found: Board) -> Table:
    """Show a row a strategy; the first is the baseline."""
    head = ("strategy", found.unit, "repeats", "× baseline", "95 %", "verdict")
    more = ("stall", "of ceiling", "io-only", "overlap")
    return Table((*head, *more), [_entry(entry) for entry in found.entries])


def setting(value: object) -> str:
    """Write the value of a setting."""
    if value is None:
        return "not recorded"
    return " › ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _entry(entry: Entry) -> tuple[str, ...]:
    return (
        entry.name,
        _rate(entry.samples_per_s),
        _repeats(entry.repeats),
        MISSING if entry.ratio is None else words.times(entry.ratio),
        _times_range(entry.ratio_ci),
        entry.verdict,
        _percent(entry.stall_share),
        _percent(entry.of_ceiling),
        _rate(entry.io_only),
        _percent(entry.overlap),
    )


def _repeats(repeats: Sequence[float]) -> str:
    if len(repeats) < 2:
        return str(len(repeats))
    return f"{len(repeats)}: {words.rate(min(repeats))}–{words.rate(max(repeats))}"


def _stall(side: Figures) -> str:
    if side.stall_share is None or side.stall_share_ci is None:
        return _percent(side.stall_share)
    return f"{words.percent(side.stall_share)} ({words.percent_range(*side.stall_share_ci)})"


def _times_range(interval: Interval | None) -> str:
    return MISSING if interval is None else words.times_range(*interval)


def _ms(value: float | None) -> str:
    return MISSING if value is None else words.ms(value)


def _rate(value: float | None) -> str:
    return MISSING if value is None else words.rate(value)


def _percent(value: float | None) -> str:
    return MISSING if value is None else words.percent(value)
