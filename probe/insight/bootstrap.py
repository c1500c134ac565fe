"""Intervals for quantities whose observations depend on their neighbours.

The steps of a training run are autocorrelated: a slow disk stays slow for a while. Resampling
single steps would promise more than the data hold, so whole blocks of neighbours are resampled
(circular block bootstrap: Politis & Romano, "A circular block-resampling procedure for stationary
data", 1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

MIN_STEPS = 20
_RESAMPLES = 1000
_MOST_BLOCKS = 1000
# Drift is looked for in eighths. Without any, their means vary this much more than expected once
# in ten times (F with 7 and 16 degrees of freedom).
_PARTS = 8
_BY_CHANCE = 2.13


def block_length(series: ArrayLike) -> int:
    """Choose a block length from the data, at least 2 n^(1/3) and a thousandth of n.

    The length reaches over the lags at which the autocorrelation is significant, found by the first
    step of Politis & White, "Automatic block-length selection for the dependent bootstrap", 2004:
    the last significant lag is tripled, and capped at n/5 so that some blocks remain. A thousand
    blocks say as much as more would, and keep the cost of a long run bounded.

    Args:
        series: Observations in order, shape (n,).
    """
    x = np.asarray(series, dtype=np.float64)
    n = len(x)
    floor = max(round(2 * math.cbrt(n)), math.ceil(n / _MOST_BLOCKS))
    cap = max(floor, n // 5)
    centred = x - x.mean()
    power = float(centred @ centred)
    if power == 0:
        return floor
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    correlation = np.fft.irfft(spectrum, size)[: cap + 1] / power
    significant = 2 * math.sqrt(math.log10(max(n, 10)) / n)
    run_needed = max(5, math.ceil(math.sqrt(math.log10(max(n, 10)))))
    last, quiet = 0, 0
    for lag in range(1, len(correlation)):
        if abs(correlation[lag]) >= significant:
            last, quiet = lag, 0
        else:
            quiet += 1
            if quiet >= run_needed:
                break
    return min(cap, max(floor, 3 * last))


def block_sums(
    columns: NDArray[np.float64], length: int, resamples: int, seed: int
) -> NDArray[np.float64]:
    """Resample blocks of rows and sum each column.

    Args:
        columns: Shape (n, k), rows in order.
        length: Rows a block.
        resamples: How many resamples, r.
        seed: Makes the answer repeatable.

    Returns:
        Sums of n resampled rows, shape (r, k).
    """
    n = len(columns)
    blocks = math.ceil(n / length)
    wrapped = np.concatenate([columns, columns[: length - 1]]) if length > 1 else columns
    running = np.concatenate([np.zeros((1, columns.shape[1])), np.cumsum(wrapped, axis=0)])
    sums_from = running[length:] - running[:-length]  # (n, k): the block that starts at each row
    starts = np.random.default_rng(seed).integers(0, n, size=(resamples, blocks))
    sums: NDArray[np.float64] = sums_from[starts].sum(axis=1) * (n / (blocks * length))
    return sums


def drift(series: ArrayLike) -> float:
    """Estimate the variance of a mean that more of the same data would not take away.

    Within an eighth of the data, short blocks scatter, and foretell how the means of the eighths
    should. A machine whose speed wanders makes these scatter more, and a run that came earlier or
    later would have had another mean: what is in excess counts in full, as the variance between
    groups does in a random-effects model.

    Args:
        series: Observations in order, shape (n,).

    Returns:
        The variance in excess; 0 for a series that does not drift, or is too short to tell.
    """
    x = np.asarray(series, dtype=np.float64)
    short, part = max(1, round(2 * math.cbrt(len(x)))), len(x) // _PARTS
    if part < 2 * short:
        return 0.0
    parts = x[: part * _PARTS].reshape(_PARTS, part)
    blocks = parts[:, : part // short * short].reshape(_PARTS, -1, short).mean(axis=2)
    expected = float(blocks.var(axis=1, ddof=1).mean()) * short / part
    return max(0.0, float(parts.mean(axis=1).var(ddof=1)) - _BY_CHANCE * expected)


def bounds(
    value: float, resampled: NDArray[np.float64], blocks: float, level: float = 0.95
) -> tuple[float, float]:
    """Give the interval of a value from its resamples, widened for few blocks.

    Quantiles of resamples behave as if the spread of the blocks were known. It is estimated from
    `blocks` of them, so their distance to the value is stretched as a mean's interval is when
    Student's t with `blocks` − 1 degrees of freedom replaces the normal (quantile after Abramowitz
    & Stegun, 26.7.5).

    Args:
        value: What was measured.
        resampled: The same quantity of each resample, shape (r,).
        blocks: How many blocks lie side by side in the data, more than 1.
        level: Coverage.
    """
    freedom = blocks - 1
    z = NormalDist().inv_cdf((1 + level) / 2)
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    stretch = t / z * math.sqrt(blocks / freedom)
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return value + float(low - value) * stretch, value + float(high - value) * stretch


@dataclass(frozen=True, slots=True)
class Ratio:
    """Σ numerator / Σ denominator over the steps, and what it might have been.

    `draws` holds the ratio of each resample, shape (r,); `blocks` says how many blocks lie side by
    side in the data.
    """

    value: float
    draws: NDArray[np.float64]
    blocks: float


def ratio(numerator: ArrayLike, denominator: ArrayLike, seed: int = 0) -> Ratio | None:
    """Estimate Σ numerator / Σ denominator over the steps.

    Args:
        numerator: Shape (n,), in step order.
        denominator: Shape (n,), same order.
        seed: Makes the answer repeatable. Ratios that are put against each other need different
            seeds: with the same one their resamples would move together.

    Returns:
        The ratio and its resamples, or None with fewer than 20 steps: too few to say.
    """
    columns = np.stack(
        [np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)], axis=1
    )
    if len(columns) < MIN_STEPS or columns[:, 1].sum() <= 0:
        return None
    value = float(columns[:, 0].sum() / columns[:, 1].sum())
    length = block_length(columns[:, 0] - value * columns[:, 1])
    sums = block_sums(columns, length, _RESAMPLES, seed)
    return Ratio(value, sums[:, 0] / sums[:, 1], len(columns) / length)


def ratio_interval(
    numerator: ArrayLike, denominator: ArrayLike, level: float = 0.95
) -> tuple[float, float] | None:
    """Give an interval for Σ numerator / Σ denominator over the steps.

    Args:
        numerator: Shape (n,), in step order.
        denominator: Shape (n,), same order.
        level: Coverage.

    Returns:
        Lower and upper bound, or None with fewer than 20 steps: too few to say.
    """
    found = ratio(numerator, denominator)
    return None if found is None else bounds(found.value, found.draws, found.blocks, level)
