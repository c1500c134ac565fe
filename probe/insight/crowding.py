"""What other programs on the machine may have done to two runs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from probe.insight import words
from probe.store.queries import HostSamples

# From this share of the cores on, all of them are taken: whoever needs one has to wait.
_FULL = 0.9
# Of the cores; with nothing at all left there would have been no run.
_LEAST = 0.01
# Others that explain less than this are not worth a sentence.
_WORTH_SAYING = 0.02

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Crowd:
    """The share of the cores that other programs took while none was free, and its standard error.

    It is a mean over the whole run, 0–1: moments with a free core count as 0, since nobody had to
    wait in them.
    """

    share: float
    error: float

    @property
    def left(self) -> float:
        """The share of the cores that was left to the run."""
        return max(1 - self.share, _LEAST)


def crowd(host: HostSamples) -> Crowd | None:
    """Find out how much other programs got in the way of a run; None if it was not measured.

    Args:
        host: Samples of the machine during the run.
    """
    known = ~(np.isnan(host.cpu) | np.isnan(host.tree_cpu))
    if not known.any():
        return None
    cpu = host.cpu[known]
    others = np.clip(cpu - host.tree_cpu[known], 0, 1)
    taken = np.where(cpu >= _FULL, others, 0)
    return Crowd(float(taken.mean()), float(taken.std()) / math.sqrt(len(taken)))


def explained(a: Crowd | None, b: Crowd | None) -> Interval:
    """Return between which factors other programs may have changed `b`'s rate against `a`'s.

    They left less of the cores to one run than to the other. The quotient of what they left
    explains a ratio of rates, give or take its standard error; (1, 1) where it was not measured.
    """
    if a is None or b is None:
        return 1.0, 1.0
    factor = b.left / a.left
    error = math.exp(math.hypot(a.error / a.left, b.error / b.left))
    return min(factor / error, 1.0), max(factor * error, 1.0)


def allowing_for(factors: Interval, interval: Interval) -> Interval:
    """Widen the interval of a ratio of rates by what other programs may explain."""
    return interval[0] / factors[1], interval[1] / factors[0]


def remark(names: tuple[str, str], a: Crowd | None, b: Crowd | None) -> str | None:
    """Say that other programs got in the way of two runs, if they did so noticeably."""
    low, high = explained(a, b)
    most = max(high, 1 / low)
    if most < 1 + _WORTH_SAYING or a is None or b is None:
        return None
    return (
        f"Other programs took {words.percent(a.share)} of the cores during {names[0]} and"
        f" {words.percent(b.share)} during {names[1]}, while none was free. That alone may"
        f" explain {words.times(most)} ×, and the interval allows for it."
    )
