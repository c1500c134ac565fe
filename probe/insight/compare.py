"""Did the change help? Run A against run B, with intervals and with every millisecond accounted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe.insight import crowding, model_step, words
from probe.insight.bootstrap import MIN_STEPS, bounds, ratio
from probe.insight.figures import Figures, Reach, figures, reach
from probe.insight.settings import (
    Difference,
    Side,
    alike,
    caveats,
    differences,
    obstacle,
    other_work,
)
from probe.insight.summary import PHASES, WARM_UP_STEPS
from probe.insight.throughput import (
    CANNOT_TELL,
    FASTER,
    NO_DIFFERENCE,
    Interval,
    counted_by,
    largest_difference,
    per_second,
    quotient,
    rate,
    steady_part,
    steps_missing,
    verdict_of,
)

# Below this, what differs from one start of a run to the next may be the whole effect.
_SMALL = 0.10
# Floats that are multiples of this many ms (just under a nanosecond) add up without rounding, in
# any order and in any language, so the parts of a difference equal the whole when users check it.
_MS_GRID = 2.0**-20

_NAMES = (*PHASES, "step")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed from the baseline to the candidate; see `compare` for what counts.

    `throughput_ratio` is candidate ÷ baseline. The `_ms` values are means per step; a difference
    is candidate − baseline, and `phases_ms_delta` adds up to `step_ms_delta` exactly. The keys of
    the dictionaries are `wait`, `copy`, `compute` and `other`, and in `baseline_ms` and
    `candidate_ms` also their sum, `step`. None stands where there are too few steps to say, nothing
    to count by, or steps that are not the same work.

    `more_steps` is how many more steps of either run would decide, where that can be waited for.
    `bound` is the ratio that no input fix of the baseline can exceed, step ÷ (step − stall), and
    `share_of_bound` what part of it was reached. `alike` names what is the same in both runs.
    """

    baseline: str
    candidate: str
    throughput_ratio: float | None
    throughput_ci: Interval | None
    verdict: str
    sentence: str
    more_steps: int | None
    bound: float | None
    share_of_bound: float | None
    step_ms_delta: float | None
    step_ms_ci: Interval | None
    phases_ms_delta: dict[str, float | None]
    phases_ms_ci: dict[str, Interval | None]
    baseline_ms: dict[str, float | None]
    candidate_ms: dict[str, float | None]
    baseline_figures: Figures
    candidate_figures: Figures
    time_to_samples: Reach | None
    differs: list[Difference]
    alike: list[str]
    warnings: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what `probe compare --json` prints."""
        return asdict(self)


def compare(a: Side, b: Side) -> Comparison:
    """Compare a candidate `b` with a baseline `a`.

    Only steady steps count: neither warm-up nor the first step of an epoch. Throughput is samples
    per second of their wall time; if samples are not known and the batch size is the same, steps
    per second. Each 95 % interval comes from a block bootstrap of either run by itself. That of the
    ratio is widened by what the speed drifted during a run, and by what other programs that took
    the cores may explain. None knows how one start of a run differs from the next.

    The verdict is `no difference` if the interval of the ratio lies within 2 % of 1, else `faster`
    or `slower` if it leaves out 1, else `cannot tell`. It is also `cannot tell` when batch size or
    hardware differs, or when either run has fewer than 20 steady steps. With another batch size
    samples/s are still compared, and no difference in ms a step is given.

    Args:
        a: The baseline.
        b: The candidate.
    """
    names = _names(a, b)
    whole = a, b
    warnings = caveats(a, b)
    a, b = steady_part(a), steady_part(b)
    means = _means(a), _means(b)
    changes = _changes(a, b, means)
    value, interval, remark = _throughput(a, b)
    warnings += [said for said in (remark, crowding.remark(names, a.crowd, b.crowd)) if said]
    bound = None if other_work(a, b) else _bound(a)
    because, same = None, alike(*whole)
    before, grown = means[0]["compute"], changes.delta["compute"]
    if before is not None and grown is not None:
        if model_step.changed(before, changes.interval["compute"]):
            because = model_step.reason(a, b, grown) if grown > 0 else None
            warnings.append(_model_changed(before, grown, because))
        elif model_step.unchanged(before, changes.interval["compute"]):
            same.append("model step")

    verdict, missing = verdict_of(interval), None
    if few := _too_few(names, whole, (a, b)):
        verdict, sentence = CANNOT_TELL, few
    elif unlike := obstacle(a, b):
        verdict, sentence = CANNOT_TELL, _unlike(unlike, names, value, interval)
    elif value is None or interval is None:
        verdict, sentence = CANNOT_TELL, "Cannot tell: there is nothing to count throughput by."
    elif verdict == CANNOT_TELL:
        fewest = min(len(a.steps), len(b.steps))
        missing = steps_missing(value, interval, fewest)
        sentence = _undecided(interval, fewest, missing)
    else:
        unit = "steps/s" if remark else "samples/s"
        sentence = _found(names, value, interval, unit)
        if verdict == NO_DIFFERENCE:
            most = words.percent(largest_difference(interval))
            sentence = f"{sentence}: no difference larger than {most}."
        else:
            sentence = f"{sentence}{_of_bound(verdict, value, bound)}. {changes.sentence(because)}"
        if verdict != NO_DIFFERENCE and abs(value - 1) < _SMALL:
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
        more_steps=missing,
        bound=bound,
        share_of_bound=value / bound if value is not None and bound is not None else None,
        step_ms_delta=changes.delta["step"],
        step_ms_ci=changes.interval["step"],
        phases_ms_delta={phase: changes.delta[phase] for phase in PHASES},
        phases_ms_ci={phase: changes.interval[phase] for phase in PHASES},
        baseline_ms=means[0],
        candidate_ms=means[1],
        baseline_figures=figures(whole[0]),
        candidate_figures=figures(whole[1]),
        time_to_samples=reach(*whole),
        differs=differences(a, b),
        alike=same,
        warnings=warnings,
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """What happened to a mean step, by phase and for the whole `step`, in ms."""

    delta: dict[str, float | None]
    interval: dict[str, Interval | None]

    def sentence(self, because: str | None) -> str:
        step = self.delta["step"]
        assert step is not None  # an interval of the ratio needs steps on both sides
        saved = f"{'Saved' if step < 0 else 'Lost'} {words.ms(abs(step))} ms a step"
        parts = [
            f"{phase} {words.signed_ms(delta)}"
            + (f" ({because})" if because and phase == "compute" else "")
            for phase in PHASES
            if (delta := self.delta[phase]) is not None
        ]
        return f"{saved}: {', '.join(parts)}."


def _changes(a: Side, b: Side, means: tuple[dict[str, float | None], ...]) -> _Changes:
    if other_work(a, b):
        return _Changes(dict.fromkeys(_NAMES), dict.fromkeys(_NAMES))
    return _Changes(
        {name: _minus(means[1][name], means[0][name]) for name in _NAMES},
        {name: _delta_interval(a, b, name) for name in _NAMES},
    )


def _names(a: Side, b: Side) -> tuple[str, str]:
    if a.run.label != b.run.label:
        return a.run.label, b.run.label
    return f"{a.run.label} (run {a.run.id})", f"{b.run.label} (run {b.run.id})"


def _means(side: Side) -> dict[str, float | None]:
    if not len(side.steps):
        return dict.fromkeys(_NAMES)
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
    blocks = min(left.blocks, right.blocks)
    return bounds(right.value - left.value, right.draws - left.draws, blocks)


def _throughput(a: Side, b: Side) -> tuple[float | None, Interval | None, str | None]:
    """Return the ratio, its interval, and what to say if it is not of samples/s."""
    units, remark = counted_by((a, b))
    if units is None:
        return None, None, remark
    left, right = rate(a, units[0], seed=0), rate(b, units[1], seed=1)
    if left is not None and right is not None and left.value:
        value, interval = quotient(left, right)
        return value, crowding.allowing_for(crowding.explained(a.crowd, b.crowd), interval), remark
    before, after = per_second(a, units[0]), per_second(b, units[1])
    return (None if before is None or after is None else after / before), None, remark


def _bound(before: Side) -> float | None:
    """Return step ÷ (step − stall) over steady steps; None where there is nothing but stall."""
    step, stall = int(before.steps.step_ns.sum()), int(before.steps.stall_ns.sum())
    return step / (step - stall) if step > stall else None


def _too_few(
    names: tuple[str, str], recorded: tuple[Side, Side], counted: tuple[Side, Side]
) -> str | None:
    for name, whole, steady in zip(names, recorded, counted, strict=True):
        if len(steady.steps) < MIN_STEPS:
            return (
                f"Cannot tell: {name} has {words.count(len(whole.steps))} steps, of which"
                f" {words.count(len(steady.steps))} count (not the {WARM_UP_STEPS} of warm-up, not"
                f" the first of an epoch); it takes {MIN_STEPS}."
            )
    return None


def _found(names: tuple[str, str], value: float, interval: Interval, unit: str) -> str:
    found = f"{words.times(value)} × {unit} (95 %: {words.times_range(*interval)})"
    return f"{names[1]} against {names[0]}: {found}"


def _of_bound(verdict: str, value: float, bound: float | None) -> str:
    if verdict != FASTER or bound is None:
        return ""
    if value > bound:
        return ", more than any input fix could give: the rest of the step changed as well"
    return f", {words.percent(value / bound)} of what was possible"


def _unlike(
    unlike: str, names: tuple[str, str], value: float | None, interval: Interval | None
) -> str:
    if value is None or interval is None:
        return f"Cannot tell: {unlike}."
    found = _found(names, value, interval, "samples/s")
    return f"Cannot tell what the change did to a step: {unlike}. In samples/s, {found}."


def _undecided(interval: Interval, counted: int, missing: int | None) -> str:
    low, high = (words.signed_percent(bound - 1) for bound in interval)
    more = (
        "The difference is too close to the limit for more steps to decide."
        if missing is None
        else f"About {words.about(missing)} more steps would decide."
    )
    return f"Cannot tell yet: {words.count(counted)} steps, difference {low} to {high}. {more}"


def _model_changed(before: float, delta: float, because: str | None) -> str:
    share = f" ({words.signed_percent(delta / before)})" if before else ""
    said = f"compute {words.ms(before)} → {words.ms(before + delta)} ms{share}"
    why = f": {because}" if because else ", by more than noise"
    return f"The model's own part of a step changed: {said}{why}."
