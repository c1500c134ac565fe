"""Did the change help? Run A against run B, with intervals and with every millisecond accounted."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe.insight import words
from probe.insight.bootstrap import MIN_STEPS, Ratio, bounds, ratio
from probe.insight.settings import Difference, Side, caveats, differences, obstacle
from probe.insight.summary import PHASES, WARM_UP_STEPS, only, steady

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference"
CANNOT_TELL = "cannot tell"

# Two runs whose throughput is this close are the same for every practical purpose.
_ALIKE = 0.02
# Below this, what differs from one start of a run to the next may be the whole effect.
_SMALL = 0.10
# With a hundred times the steps an interval is a tenth as wide; nobody waits for that.
_PATIENCE = 100
# Floats that are multiples of this many ms (just under a nanosecond) add up without rounding, in
# any order and in any language, so the parts of a difference equal the whole when users check it.
_MS_GRID = 2.0**-20

Interval = tuple[float, float]
Values = NDArray[np.float64] | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from the baseline to the candidate; see `compare` for what counts.

    `throughput_ratio` is candidate ÷ baseline. The `_ms` values are means per step; a difference
    is candidate − baseline, and `phases_ms_delta` adds up to `step_ms_delta` exactly. The keys of
    the dictionaries are `wait`, `copy`, `compute` and `other`, and in `baseline_ms` and
    `candidate_ms` also their sum, `step`. None stands where there are too few steps to say, or
    nothing to count by.
    """

    baseline: str
    candidate: str
    throughput_ratio: float | None
    throughput_ci: Interval | None
    verdict: str
    sentence: str
    step_ms_delta: float | None
    step_ms_ci: Interval | None
    phases_ms_delta: dict[str, float | None]
    phases_ms_ci: dict[str, Interval | None]
    baseline_ms: dict[str, float | None]
    candidate_ms: dict[str, float | None]
    differs: list[Difference]
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what `probe compare --json` prints."""
        return asdict(self)


def compare(a: Side, b: Side) -> Comparison:
    """Compare a candidate `b` with a baseline `a`.

    Only steady steps count: neither warm-up nor the first step of an epoch. Throughput is samples
    per second of their wall time; if samples are not known and the batch size is the same, steps
    per second. Each 95 % interval comes from a block bootstrap of either run by itself: it knows
    how much steps vary, not how much one start of a run varies from the next.

    The verdict is `no difference` if the interval of the ratio lies within 2 % of 1, else `faster`
    or `slower` if it leaves out 1, else `cannot tell`. It is also `cannot tell` when batch size or
    hardware differs, or when either run has fewer than 20 steady steps.

    Args:
        a: The baseline.
        b: The candidate.
    """
    names = _names(a, b)
    recorded = len(a.steps), len(b.steps)
    warnings = caveats(a, b)
    differs = differences(a, b)
    a = replace(a, steps=only(a.steps, steady(a.steps)))
    b = replace(b, steps=only(b.steps, steady(b.steps)))

    means = _means(a), _means(b)
    deltas = {name: _minus(means[1][name], means[0][name]) for name in means[0]}
    step_delta = deltas.pop("step")
    value, interval = None, None
    counted, remark = _counted_by(a, b)
    if remark:
        warnings.append(remark)
    if counted:
        value, interval = _throughput(a, b, *counted)

    verdict = _verdict(interval)
    if few := _too_few(names, recorded, (len(a.steps), len(b.steps))):
        verdict, sentence = CANNOT_TELL, few
    elif unlike := obstacle(a, b):
        verdict, sentence = CANNOT_TELL, f"Cannot tell: {unlike}."
    elif value is None or interval is None:
        verdict, sentence = CANNOT_TELL, "Cannot tell: there is nothing to count throughput by."
    else:
        fewest = min(len(a.steps), len(b.steps))
        unit = "steps/s" if remark else "samples/s"
        sentence = _sentence(names, verdict, value, interval, unit, step_delta, deltas, fewest)
        if verdict in (FASTER, SLOWER) and abs(value - 1) < _SMALL:
            warnings.append(
                "One start of a run can differ from the next by a few percent: repeat both runs"
                " before relying on a difference this small."
            )
    return Comparison(
        baseline=names[0],
        candidate=names[1],
        throughput_ratio=value,
        throughput_ci=interval,
        verdict=verdict,
        sentence=sentence,
        step_ms_delta=step_delta,
        step_ms_ci=_delta_interval(a, b, "step"),
        phases_ms_delta=deltas,
        phases_ms_ci={phase: _delta_interval(a, b, phase) for phase in PHASES},
        baseline_ms=means[0],
        candidate_ms=means[1],
        differs=differs,
        warnings=warnings,
    )


def _names(a: Side, b: Side) -> tuple[str, str]:
    if a.run.label != b.run.label:
        return a.run.label, b.run.label
    return f"{a.run.label} (run {a.run.id})", f"{b.run.label} (run {b.run.id})"


def _means(side: Side) -> dict[str, float | None]:
    if not len(side.steps):
        return dict.fromkeys((*PHASES, "step"))
    means = {phase: round(_ms(side, phase).mean() / _MS_GRID) * _MS_GRID for phase in PHASES}
    return {**means, "step": sum(means.values())}


def _ms(side: Side, phase: str) -> NDArray[np.float64]:
    values: NDArray[np.int64] = getattr(side.steps, f"{phase}_ns")
    return values / 1e6


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def _delta_interval(a: Side, b: Side, phase: str) -> Interval | None:
    left = ratio(_ms(a, phase), np.ones(len(a.steps)), seed=0)
    right = ratio(_ms(b, phase), np.ones(len(b.steps)), seed=1)
    if left is None or right is None:
        return None
    return bounds(right.value - left.value, right.draws - left.draws, _blocks(left, right))


def _counted_by(a: Side, b: Side) -> tuple[tuple[Values, Values] | None, str | None]:
    """Return what each step of both runs counts for, and what to say if that is not samples."""
    samples = a.steps.samples, b.steps.samples
    if not any(np.isnan(column).any() for column in samples):
        return samples, None
    size = a.loader.batch_size
    if size is not None and size == b.loader.batch_size:
        return (np.ones(len(a.steps)), np.ones(len(b.steps))), (
            "Not every batch could be counted: the ratio is of steps/s instead of samples/s, both"
            f" with batches of {size}."
        )
    return None, "Not every batch could be counted, and the batch sizes are not known to be equal."


def _throughput(
    a: Side, b: Side, units_a: Values, units_b: Values
) -> tuple[float | None, Interval | None]:
    wall_a, wall_b = a.steps.step_ns, b.steps.step_ns
    if not (units_a.sum() and wall_a.sum() and wall_b.sum()):
        return None, None
    value = float((units_b.sum() / wall_b.sum()) / (units_a.sum() / wall_a.sum()))
    left, right = ratio(units_a, wall_a, seed=0), ratio(units_b, wall_b, seed=1)
    if left is None or right is None:
        return value, None
    return value, bounds(value, right.draws / left.draws, _blocks(left, right))


def _blocks(left: Ratio, right: Ratio) -> float:
    return min(left.blocks, right.blocks)


def _verdict(interval: Interval | None) -> str:
    if interval is None:
        return CANNOT_TELL
    low, high = interval
    if low >= 1 - _ALIKE and high <= 1 + _ALIKE:
        return NO_DIFFERENCE
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else CANNOT_TELL


def _too_few(
    names: tuple[str, str], recorded: tuple[int, int], counted: tuple[int, int]
) -> str | None:
    for name, all_steps, steady_steps in zip(names, recorded, counted, strict=True):
        if steady_steps < MIN_STEPS:
            return (
                f"Cannot tell: {name} has {words.count(all_steps)} steps, of which"
                f" {words.count(steady_steps)} count (not the {WARM_UP_STEPS} of warm-up, not the"
                f" first of an epoch); it takes {MIN_STEPS}."
            )
    return None


def _sentence(
    names: tuple[str, str],
    verdict: str,
    value: float,
    interval: Interval,
    unit: str,
    step_delta: float | None,
    deltas: dict[str, float | None],
    fewest: int,
) -> str:
    if verdict == CANNOT_TELL:
        low, high = (words.signed_percent(bound - 1) for bound in interval)
        steps = f"{words.count(fewest)} steps, difference {low} to {high}"
        return f"Cannot tell yet: {steps}. {_steps_to_decide(value, interval, fewest)}"
    low, high = (words.times(bound) for bound in interval)
    found = f"{names[1]} against {names[0]}: {words.times(value)} × {unit} (95 %: {low}–{high})"
    if verdict == NO_DIFFERENCE:
        return f"{found}, no difference that matters."
    assert step_delta is not None  # an interval of the ratio needs steps on both sides
    changes = ", ".join(
        f"{phase} {words.signed_ms(delta)}" for phase, delta in deltas.items() if delta is not None
    )
    saved = f"{'Saved' if step_delta < 0 else 'Lost'} {words.ms(abs(step_delta))} ms a step"
    return f"{found}. {saved}: {changes}."


def _steps_to_decide(value: float, interval: Interval, counted: int) -> str:
    """Estimate when the interval leaves out 1, or fits into what counts as no difference."""
    distance = abs(value - 1)
    reach = value - interval[0] if value > 1 else interval[1] - value
    half = max(value - interval[0], interval[1] - value)
    needed = min(
        (reach / distance) ** 2 if distance else math.inf,
        (half / (_ALIKE - distance)) ** 2 if distance < _ALIKE else math.inf,
    )
    if needed > _PATIENCE:
        return "The difference is too close to the limit for more steps to decide."
    return f"About {words.about(counted * needed)} steps would decide."
