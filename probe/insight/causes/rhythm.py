"""Finds whether the waits come in bursts: every so many steps as there are workers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.insight.summary import steady
from probe.store.queries import Steps

# Workers that are too slow fall into step whatever the reason, since batches are taken in order.
# With fewer than five of them a fifth of the steps wait or more, which percentiles show.
_FEWEST_WORKERS = 5
_PERIODS = 5
# Correlation at the period: at least this, and beyond chance three times over.
_CORRELATED = 0.5
_CHANCE = 3.0
# Shorter periods must correlate less by this much, or the rhythm is theirs.
_CLEARER = 0.1
# Most of the wait must sit in one step of each period.
_CONCENTRATED = 0.5
# More steps tell nothing new, and a hundred workers mean a hundred lags.
_MOST_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A wait that returns every `period` steps.

    `share` of the wait sits in the longest wait of each period, `long_ns` on average; the other
    steps wait `short_ns`. `correlation` is that of a wait with the one a period later.
    """

    period: int
    share: float
    long_ns: float
    short_ns: float
    correlation: float
    periods: int


def find_rhythm(steps: Steps, waited_ns: NDArray[np.float64], workers: int | None) -> Rhythm | None:
    """Look for waits with a period of `workers` steps.

    The autocorrelation at that lag must be significant and clearly above that of every shorter lag,
    and most of the wait must sit in one step of each period. Pairs and periods never reach over the
    first step of an epoch. A period may begin anywhere: a slow batch moves the rhythm along.

    Args:
        steps: The steps of the loop.
        waited_ns: What each of them waited, shape (n,).
        workers: The number of workers, or None.
    """
    if workers is None or workers < _FEWEST_WORKERS:
        return None
    marked = np.flatnonzero(steady(steps))[-_MOST_STEPS:]
    if len(marked) < _PERIODS * workers:
        return None
    wait, epoch = waited_ns[marked], steps.epoch[marked]
    first = np.searchsorted(epoch, epoch)  # where each step's epoch begins
    period = (np.arange(len(wait)) - first) // workers
    _, begins, sizes = np.unique(epoch * len(wait) + period, return_index=True, return_counts=True)
    whole = sizes == workers
    longest, total = np.maximum.reduceat(wait, begins)[whole], np.add.reduceat(wait, begins)[whole]
    waited = float(total.sum())
    if len(total) < _PERIODS or waited <= 0:
        return None
    share = float(longest.sum()) / waited
    if share < _CONCENTRATED:
        return None
    # A single outlier of an hour would drown every correlation.
    even = np.minimum(wait, 3 * float(np.median(longest)))
    even = even - even.mean()
    power = float(even @ even)
    if power == 0:
        return None
    correlations = []
    for lag in range(1, workers + 1):
        together = epoch[lag:] == epoch[:-lag]
        pairs = int(together.sum())
        if not pairs:
            return None
        product = float((even[lag:] * even[:-lag])[together].sum())
        correlations.append(product / power * len(even) / pairs)
    found = correlations[-1]
    chance = _CHANCE / math.sqrt(len(even))
    if found < max(_CORRELATED, chance) or found < max(correlations[:-1]) + _CLEARER:
        return None
    return Rhythm(
        period=workers,
        share=share,
        long_ns=float(longest.mean()),
        short_ns=(waited - float(longest.sum())) / (len(total) * (workers - 1)),
        correlation=found,
        periods=len(total),
    )
