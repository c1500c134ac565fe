"""What repeats of several strategies allow to say: which differ, and what one more would give.

The steps of one run know nothing of how one start of a run differs from the next. So a repeat
counts as one observation: its rate. Repeats of one round ran close together, so two strategies are
compared within rounds, by the differences of their logarithms; what drifts from round to round
falls out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, stdev

from probe.insight.throughput import ALIKE, Interval

# By round: a rate each, or None for a strategy that has none in that round.
Rates = Sequence[float | None]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Pair:
    """How strategy `b` compares with `a` over the rounds that both have.

    Attributes:
        ratio: Geometric mean of b ÷ a.
        p: Two-sided p-value of no difference, by Student's t; None with fewer than two rounds.
        adjusted: The same by Holm's method, for all pairs that were looked at together.
        interval: 95 % interval of the ratio for this pair alone; None with fewer than two rounds.
    """

    a: str
    b: str
    ratio: float
    p: float | None
    adjusted: float | None
    interval: Interval | None

    def other(self, strategy: str) -> str:
        """Return the strategy of the two that is not the given one."""
        return self.a if strategy == self.b else self.b


def pairs(rates: Mapping[str, Rates]) -> list[Pair]:
    """Compare every two strategies that share a round."""
    found = []
    for a, b in combinations(rates, 2):
        logs = [
            math.log(right / left)
            for left, right in zip(rates[a], rates[b], strict=True)
            if left is not None and right is not None
        ]
        if logs:
            found.append((a, b, logs))
    chances = [_p(logs) for *_, logs in found]
    adjusted = holm(chances)
    return [
        Pair(a, b, math.exp(fmean(logs)), chances[i], adjusted[i], _interval(logs, len(logs)))
        for i, (a, b, logs) in enumerate(found)
    ]


def best(rates: Mapping[str, Rates]) -> str | None:
    """Return the strategy with the highest mean rate; None when no strategy has a rate."""
    means = {name: mean for name, own in rates.items() if (mean := mean_rate(own)) is not None}
    return max(means, key=lambda name: means[name], default=None)


def mean_rate(rates: Rates) -> float | None:
    """Return the geometric mean of the rates there are; None when there are none."""
    logs = [math.log(rate) for rate in rates if rate is not None]
    return math.exp(fmean(logs)) if logs else None


def next_rate(rates: Rates) -> Interval | None:
    """Return the interval in which the rate of one more run lies with 95 % probability.

    It holds the variation between runs as well as what is not known of their mean: mean ±
    t · s · √(1 + 1/n) of the logarithms. None with fewer than two repeats, which show no variation.
    """
    logs = [math.log(rate) for rate in rates if rate is not None]
    if len(logs) < 2:
        return None
    reach = _t(len(logs) - 1) * stdev(logs) * math.sqrt(1 + 1 / len(logs))
    return math.exp(fmean(logs) - reach), math.exp(fmean(logs) + reach)


def decided(rates: Mapping[str, Rates], looks: int) -> bool:
    """Tell whether each strategy is shown to be slower than the best, or as good as it.

    As good means: the interval of the ratio lies within 2 % of 1. A single strategy has nothing
    to be decided.

    Args:
        rates: The repeats so far.
        looks: How often this is asked in one race at most. Asking again and again finds
            differences where there are none, so the level is shared out among the times.
    """
    leader = best(rates)
    if (
        leader is None
        or len(rates) < 2
        or any(sum(r is not None for r in own) < 2 for own in rates.values())
    ):
        return False
    against = [pair for pair in pairs(rates) if leader in (pair.a, pair.b)]
    return all(_separate(pair, LEVEL / looks) or _same(pair) for pair in against)


def not_slower(rates: Mapping[str, Rates], tolerance: float) -> list[str]:
    """List the strategies that are not shown to be slower than the best, or by less than 2 %.

    Args:
        rates: The repeats.
        tolerance: Share of the best rate that a strategy may be measured to lack. With few
            repeats nothing is shown, and this alone decides.
    """
    leader = best(rates)
    if leader is None:
        return []
    slower = {
        pair.other(leader)
        for pair in pairs(rates)
        if leader in (pair.a, pair.b) and _separate(pair, LEVEL) and not _same(pair)
    }
    top = mean_rate(rates[leader])
    assert top is not None
    return [
        name
        for name, own in rates.items()
        if name not in slower
        and (mean := mean_rate(own)) is not None
        and mean >= top * (1 - tolerance)
    ]


def _separate(pair: Pair, level: float) -> bool:
    return pair.adjusted is not None and pair.adjusted < level


def _same(pair: Pair) -> bool:
    if pair.interval is None:
        return False
    return pair.interval[0] >= 1 - ALIKE and pair.interval[1] <= 1 + ALIKE


def _interval(logs: list[float], n: int) -> Interval | None:
    if n < 2:
        return None
    reach = _t(n - 1) * stdev(logs) / math.sqrt(n)
    return math.exp(fmean(logs) - reach), math.exp(fmean(logs) + reach)


def _p(logs: list[float]) -> float | None:
    n = len(logs)
    if n < 2:
        return None
    spread, mean = stdev(logs), fmean(logs)
    if spread == 0:
        return 1.0 if mean == 0 else 0.0
    return _outside(abs(mean) / spread * math.sqrt(n), n - 1)


def holm(chances: list[float | None]) -> list[float | None]:
    """Adjust p-values for having looked at all of them (Holm, 1979)."""
    order = sorted((p, i) for i, p in enumerate(chances) if p is not None)
    adjusted: list[float | None] = [None] * len(chances)
    least = 0.0
    for rank, (p, i) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        adjusted[i] = least
    return adjusted


def _outside(t: float, freedom: int) -> float:
    """Return the probability that Student's t lies beyond ±t.

    Finite series for a whole number of degrees of freedom: Abramowitz & Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle)
    odd = freedom % 2
    term = total = cosine if odd else 1.0
    if freedom == 1:
        total = 0.0
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= cosine**2 * k / (k + 1)
        total += term
    inside = math.sin(angle) * total
    if odd:
        inside = (angle + inside) * 2 / math.pi
    return 1 - inside


def _t(freedom: int) -> float:
    """Return the t that is exceeded on either side with 5 % probability, by bisection."""
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _outside(middle, freedom) > LEVEL else (low, middle)
    return high
