"""Arrays for charts: what a screen can show of what was recorded, and nothing that it hides.

A screen has about a thousand pixels and a run has millions of steps, so neighbours are summed up.
Sums, means and maxima of a bucket are exact; nothing is interpolated or smoothed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from probe.insight.summary import PHASES, steady
from probe.store.queries import Run, Steps

MOST_BUCKETS = 600
_NS_PER_MS = 1e6
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True)
class Buckets:
    """Neighbouring steps summed up, oldest first; every array has shape (buckets,).

    The four phases are means per step in ms and add up to the mean step of the bucket, so a bar
    of `width_s` seconds has the area that the steps took. `longest_ms` is the longest single step.
    """

    start_s: NDArray[np.float64]
    width_s: NDArray[np.float64]
    steps: NDArray[np.int64]
    wait_ms: NDArray[np.float64]
    copy_ms: NDArray[np.float64]
    compute_ms: NDArray[np.float64]
    other_ms: NDArray[np.float64]
    longest_ms: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True, slots=True)
class Samples:
    """A quantity sampled over time: mean per bucket, NaN where nothing was measured."""

    time_s: NDArray[np.float64]
    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """An empirical distribution: `share` of the values (0–1] are at most `ms`, both ascending."""

    ms: NDArray[np.float64]
    share: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SteadySteps:
    """Mean step in ms of neighbouring steady steps; `step` numbers the first of each, from 0."""

    step: NDArray[np.int64]
    ms: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Staircase:
    """The change of each phase and where it begins, on the way from one total to another."""

    changes: dict[str, float]
    begins: list[float]
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of a loader.

    `start_up_ms` is the wait of its first step, which holds the start of the workers; None when
    the recording begins inside the epoch. Rate and share count every step of the epoch.
    """

    epoch: int
    start_up_ms: float | None
    steps: int
    samples_per_s: float | None
    stall_share: float | None


def bucketed(steps: Steps, most: int = MOST_BUCKETS) -> Buckets:
    """Sum up runs of neighbouring steps, equally many in each bucket but perhaps the last.

    Args:
        steps: The steps of one loader.
        most: How many buckets to return at most.
    """
    size = max(1, -(-len(steps) // most))
    first = np.arange(0, len(steps), size)
    last = np.minimum(first + size, len(steps)) - 1
    count = last - first + 1
    start = steps.start_ns[first]
    end = (steps.start_ns + steps.step_ns)[last]

    def mean_ms(values_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        if not len(first):
            return np.zeros(0)
        return np.add.reduceat(values_ns, first) / count / _NS_PER_MS

    longest = np.maximum.reduceat(steps.step_ns, first) if len(first) else np.zeros(0)
    return Buckets(
        start_s=start / _NS_PER_S,
        width_s=(end - start) / _NS_PER_S,
        steps=count,
        wait_ms=mean_ms(steps.wait_ns),
        copy_ms=mean_ms(steps.copy_ns),
        compute_ms=mean_ms(steps.compute_ns),
        other_ms=mean_ms(steps.other_ns),
        longest_ms=longest / _NS_PER_MS,
    )


def axis_top_ms(buckets: Buckets) -> float:
    """Choose where the axis of the steps ends, so that a rare long step does not flatten the rest.

    Returns:
        A little above the longest step, but at most three times what 95 % of the buckets reach; 1
        without steps.
    """
    if not len(buckets):
        return 1.0
    height = np.sum([getattr(buckets, f"{phase}_ms") for phase in PHASES], axis=0)
    return float(min(1.05 * buckets.longest_ms.max(), 3 * np.percentile(height, 95))) or 1.0


def sampled(
    time_ns: NDArray[np.int64], value: NDArray[np.float64], most: int = MOST_BUCKETS
) -> Samples | None:
    """Average neighbouring samples, leaving out what was not measured.

    Args:
        time_ns: When each sample was taken, since the run's start, ascending.
        value: The samples; NaN where there is none.
        most: How many points to return at most.

    Returns:
        The means, or None when nothing at all was measured.
    """
    measured = ~np.isnan(value)
    if not measured.any():
        return None
    size = max(1, -(-len(value) // most))
    first = np.arange(0, len(value), size)
    count = np.add.reduceat(measured.astype(np.int64), first)
    total = np.add.reduceat(np.where(measured, value, 0.0), first)
    mean = np.divide(total, count, out=np.full(len(first), np.nan), where=count > 0)
    return Samples(time_ns[first] / _NS_PER_S, mean)


def distribution(values_ns: NDArray[np.int64], most: int = MOST_BUCKETS) -> Distribution:
    """Give the empirical distribution of durations, thinned to `most` of the observed values.

    The smallest and the largest value are always among them, and every share is exact.

    Args:
        values_ns: Durations in any order, shape (n,).
        most: How many points to return at most, at least 2.
    """
    ordered = np.sort(values_ns)
    n = len(ordered)
    kept = np.unique(ordered[np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)])
    return Distribution(kept / _NS_PER_MS, np.searchsorted(ordered, kept, side="right") / max(n, 1))


def from_steady_state(steps: Steps, most: int = MOST_BUCKETS) -> SteadySteps:
    """Number the steady steps from 0, so that two runs can be laid over each other.

    Args:
        steps: The steps of one loader.
        most: How many points to return at most.
    """
    counted = steps.step_ns[steady(steps)]
    size = max(1, -(-len(counted) // most))
    first = np.arange(0, len(counted), size)
    total = np.add.reduceat(counted, first) if len(first) else np.zeros(0)
    return SteadySteps(first, total / np.diff(np.append(first, len(counted))) / _NS_PER_MS)


def waits(steps: Steps) -> NDArray[np.int64]:
    """Return the waits that percentiles describe, in ns: all but the first step of each epoch."""
    return steps.wait_ns[~steps.epoch_start]


def durations(steps: Steps) -> NDArray[np.int64]:
    """Return the steps that percentiles describe, in ns: all but the first of each epoch."""
    return steps.step_ns[~steps.epoch_start]


def median_step(steps: Steps) -> dict[str, float] | None:
    """Tell how the median step spends its time, in ms a phase.

    The medians of the phases do not add up to the median step, and a single step is noise. So the
    phases are averaged over the middle tenth of the steady steps, ordered by duration; their sum is
    the mean duration of those steps.

    Args:
        steps: The steps of one loader.

    Returns:
        A value for each of `PHASES`, or None without a steady step.
    """
    counted = np.flatnonzero(steady(steps))
    if not len(counted):
        return None
    by_duration = counted[np.argsort(steps.step_ns[counted], kind="stable")]
    n = len(by_duration)
    middle = by_duration[n * 45 // 100 : max(n * 55 // 100, n * 45 // 100 + 1)]
    return {
        phase: float(getattr(steps, f"{phase}_ns")[middle].mean()) / _NS_PER_MS for phase in PHASES
    }


def shares(parts: dict[str, float]) -> dict[str, float]:
    """Divide each part by the sum of all, so that the shares add up to 1."""
    total = sum(parts.values())
    return {name: value / total if total else 0.0 for name, value in parts.items()}


def by_epoch(steps: Steps) -> list[Epoch]:
    """Sum up each epoch of a loader, oldest first."""
    found = []
    for epoch in np.unique(steps.epoch):
        inside = steps.epoch == epoch
        wall_ns = int(steps.step_ns[inside].sum())
        samples = steps.samples[inside]
        start_up = steps.wait_ns[inside & steps.epoch_start]
        found.append(
            Epoch(
                epoch=int(epoch),
                start_up_ms=float(start_up[0]) / _NS_PER_MS if len(start_up) else None,
                steps=int(inside.sum()),
                samples_per_s=(
                    float(samples.sum()) / (wall_ns / _NS_PER_S)
                    if wall_ns and not np.isnan(samples).any()
                    else None
                ),
                stall_share=float(steps.stall_ns[inside].sum()) / wall_ns if wall_ns else None,
            )
        )
    return found


def staircase(
    before: dict[str, float | None], changes: dict[str, float | None]
) -> Staircase | None:
    """Lay the changes of `PHASES` end to end, for a waterfall; None if a value is not known.

    Args:
        before: The phases of the total before the changes.
        changes: The change of each phase.
    """
    parts = [before[phase] for phase in PHASES]
    known = {phase: change for phase in PHASES if (change := changes[phase]) is not None}
    if None in parts or len(known) < len(PHASES):
        return None
    first = sum(part for part in parts if part is not None)
    levels = list(accumulate(known.values(), initial=first))
    return Staircase(known, levels[:-1], levels[0], levels[-1])


def overhead_share(run: Run) -> float | None:
    """Divide what recording cost a run by the time it lasted; None if either is not known."""
    try:
        began = datetime.fromisoformat(run.started_at)
        lasted_s = (
            datetime.fromisoformat(run.ended_at or run.heartbeat_at) - began
        ).total_seconds()
    except (TypeError, ValueError):  # no moments, or some without a time zone
        return None
    if run.overhead_ns is None or lasted_s <= 0:
        return None
    return run.overhead_ns / (lasted_s * _NS_PER_S)
