"""How fast runs were, in samples per second of steady steps, and what a ratio of rates says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from probe.insight.bootstrap import Ratio, bounds, drift, ratio
from probe.insight.settings import Side
from probe.insight.summary import only, steady

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference"
CANNOT_TELL = "cannot tell"

# Two runs whose throughput is this close are the same for every practical purpose.
ALIKE = 0.02
# With a hundred times the steps an interval is a tenth as wide; nobody waits for that.
_PATIENCE = 100

Interval = tuple[float, float]
Units = NDArray[np.float64]


def steady_part(side: Side) -> Side:
    """Return a side with the steps that comparisons use: not warm-up, nor an epoch's first."""
    return replace(side, steps=only(side.steps, steady(side.steps)))


def counted_by(sides: Sequence[Side]) -> tuple[list[Units] | None, str | None]:
    """Return what each step of each side counts for, and what to say if that is not samples.

    Samples where every batch could be counted; else steps, if all batches have the same size; else
    there is nothing to count by, and None comes back.
    """
    samples = [side.steps.samples for side in sides]
    if not any(np.isnan(column).any() for column in samples):
        return samples, None
    sizes = {side.loader.batch_size for side in sides}
    if None not in sizes and len(sizes) == 1:
        return [np.ones(len(side.steps)) for side in sides], (
            "Not every batch could be counted: the ratio is of steps/s instead of samples/s, all"
            f" with batches of {sizes.pop()}."
        )
    return None, "Not every batch could be counted, and the batch sizes are not known to be equal."


def rate(side: Side, units: Units, seed: int) -> Ratio | None:
    """Estimate units per nanosecond of a side's steps; None with fewer than 20 steps.

    What the speed drifts during the run widens its resamples; see `drift`.
    """
    wall = side.steps.step_ns
    found = ratio(units, wall, seed)
    if found is None or not found.value:
        return found
    logs = np.log(found.draws / found.value)
    if not (spread := float(logs.var())):
        return found
    beyond = drift(units - found.value * wall) / float(units.mean()) ** 2
    return replace(found, draws=found.value * np.exp(logs * math.sqrt(1 + beyond / spread)))


def per_second(side: Side, units: Units) -> float | None:
    """Divide the units of a side's steps by their wall time; None if either is 0."""
    wall_ns = int(side.steps.step_ns.sum())
    return float(units.sum()) / (wall_ns / 1e9) or None if wall_ns else None


def quotient(a: Ratio, b: Ratio) -> tuple[float, Interval]:
    """Divide the rate of `b` by that of `a`; the runs are resampled independently."""
    value = b.value / a.value
    low, high = bounds(value, b.draws / a.draws, min(a.blocks, b.blocks))
    return value, (max(low, 0.0), high)


def verdict_of(interval: Interval | None) -> str:
    """Say what a 95 % interval of a ratio of rates allows to say."""
    if interval is None:
        return CANNOT_TELL
    low, high = interval
    if low >= 1 - ALIKE and high <= 1 + ALIKE:
        return NO_DIFFERENCE
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else CANNOT_TELL


def largest_difference(interval: Interval) -> float:
    """Return how far from 1 the ratio may be, as its interval allows."""
    return max(interval[1] - 1, 1 - interval[0])


def steps_missing(value: float, interval: Interval, counted: int) -> int | None:
    """Estimate how many more steps of each run would decide, or None if too many to wait for.

    An interval narrows with the root of the number of steps. It decides when it leaves out 1, or
    fits into what counts as no difference.
    """
    distance = abs(value - 1)
    reach = value - interval[0] if value > 1 else interval[1] - value
    half = max(value - interval[0], interval[1] - value)
    needed = min(
        (reach / distance) ** 2 if distance else math.inf,
        (half / (ALIKE - distance)) ** 2 if distance < ALIKE else math.inf,
    )
    return None if needed > _PATIENCE else max(1, math.ceil(counted * (needed - 1)))
