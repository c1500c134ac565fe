"""Between the workers and the loop: was a batch ready, how long did it lie, is the stock running out?

A queue that was filled while the first steps were slow hides a producer that is too slow, until it
is empty. So its depth is part of the verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.insight.bootstrap import MIN_STEPS
from probe.insight.summary import after_warm_up, only, steady
from probe.store.queries import Fetches, Steps

# A trend is read from this many stretches of steps.
_STRETCHES = 10
# Of their pairs, how many more must fall than rise (Kendall's tau).
_STEADILY = 0.7
# A stretch with fewer batches than this on average had nothing in stock.
_EMPTY = 0.5
# Share of the steps over which the stock must have lasted; otherwise the rest is steady state.
_MOSTLY = 0.5
# 97.5 % quantile of Student's t for the slope of a line through ten stretches.
_T = 2.31
# Clocks of the training thread and of a worker are read a moment apart.
_TOO_EARLY_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Draining:
    """A stock of finished batches that runs out.

    `first` and `last` are the batches ready in the first and the last stretch with any. A step
    takes `per_step` more out of the queue than comes in, with a 95 % interval; once the queue is
    empty that is the share of time for which the loop will wait, because production then sets the
    pace. `steps_left` is None when the queue has run empty already.
    """

    first: float
    last: float
    per_step: float
    per_step_ci: tuple[float, float]
    steps_left: int | None


@dataclass(frozen=True, slots=True)
class Queue:
    """What is known of the queue in front of the loop; None where it was not recorded.

    `readiness` is the share of steps that found a batch ready, after SPDL's data readiness.
    `delay_p50_ms` and `delay_p95_ms` say how long a finished batch lay until the loop took it.
    `late_share` is the part of the loop's wait that passed before its batch was finished; the rest
    passed between the worker and the loop.
    """

    readiness: float | None
    delay_p50_ms: float | None
    delay_p95_ms: float | None
    late_share: float | None
    draining: Draining | None


def examine(steps: Steps, fetches: Fetches | None, in_order: bool | None = True) -> Queue:
    """Describe the queue of one loader.

    Args:
        steps: The steps of the loop.
        fetches: The batches made for it; None when they do not correspond to its steps.
        in_order: Whether the loader delivers batches in the order in which they were asked for;
            without that, a step's batch cannot be told.
    """
    ready = steps.ready[after_warm_up(steps)]
    known = ready[~np.isnan(ready)]
    pairs = None if fetches is None or in_order is False else _matched(steps, fetches)
    delays: tuple[float | None, float | None] = (None, None)
    late_share = None
    if pairs is not None:
        taken, made = only(steps, pairs[0]), pairs[1]
        delay_ms = np.maximum(taken.start_ns + taken.wait_ns - made, 0) / 1e6
        p50, p95 = np.percentile(delay_ms, (50, 95))
        delays = float(p50), float(p95)
        late = np.clip(made - taken.start_ns, 0, taken.wait_ns)
        waited = int(taken.wait_ns.sum())
        late_share = float(late.sum()) / waited if waited else None
    return Queue(
        readiness=float((known >= 1).mean()) if len(known) else None,
        delay_p50_ms=delays[0],
        delay_p95_ms=delays[1],
        late_share=late_share,
        draining=_draining(steps),
    )


def _matched(
    steps: Steps, fetches: Fetches
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Find when the batch of each steady step was finished.

    Worker w makes batches w, w + n, w + 2n, … of an epoch, so the k-th batches of all workers come
    before the (k+1)-th ones.

    Returns:
        Which steps have a fetch, shape (steps,), and the ends of their fetches in ns; None when too
        few have one, or when many would have been used before they were made.
    """
    if not len(fetches) or not len(steps):
        return None
    by_worker = np.lexsort((fetches.seq, fetches.epoch, fetches.worker))
    rank = np.empty(len(fetches), np.int64)
    rank[by_worker] = _positions(fetches.worker[by_worker], fetches.epoch[by_worker])
    order = np.lexsort((fetches.worker, rank, fetches.epoch))
    ends = (fetches.start_ns + fetches.wall_ns)[order]
    epochs = fetches.epoch[order]
    most = max(len(steps), len(fetches))
    keys = epochs * most + _positions(epochs)
    wanted = steps.epoch * most + _positions(steps.epoch)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    marked = (keys[at] == wanted) & steady(steps)
    if marked.sum() < MIN_STEPS:
        return None
    made = ends[at][marked]
    got = (steps.start_ns + steps.wait_ns + steps.copy_ns)[marked]
    if (made > got + _TOO_EARLY_NS).mean() > 0.05:
        return None
    return marked, made


def _positions(*groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the entries of each run of equal groups from 0."""
    index = np.arange(len(groups[0]))
    begins = np.zeros(len(index), np.bool_)
    begins[:1] = True
    for group in groups:
        begins[1:] |= group[1:] != group[:-1]
    positions: NDArray[np.int64] = index - np.maximum.accumulate(np.where(begins, index, 0))
    return positions


def _draining(steps: Steps) -> Draining | None:
    """Find a stock that has been falling for most of the run."""
    if not len(steps):
        return None
    # Every epoch fills the queue anew: of a run with several, the averages say what to expect.
    marked = after_warm_up(steps) & (steps.epoch == steps.epoch[-1]) & ~np.isnan(steps.ready)
    ready = steps.ready[marked]
    if len(ready) < 2 * _STRETCHES or len(ready) < _MOSTLY * len(steps):
        return None
    stretches = [float(part.mean()) for part in np.array_split(ready, _STRETCHES)]
    stocked = stretches
    while stocked and stocked[-1] < _EMPTY:
        stocked = stocked[:-1]
    if len(stocked) < max(_MOSTLY * _STRETCHES, 3) or stocked[0] - stocked[-1] < 1:
        return None
    m = len(stocked)
    later, earlier = np.triu_indices(m, 1)[::-1]
    levels = np.array(stocked)
    tau = float(np.sign(levels[earlier] - levels[later]).mean())
    if tau < _STEADILY:
        return None
    length = len(ready) / _STRETCHES
    x = (np.arange(m) - (m - 1) / 2) * length
    slope = float(x @ levels / (x @ x))
    residual = levels - levels.mean() - slope * x
    error = math.sqrt(float(residual @ residual) / (m - 2) / float(x @ x))
    interval = (max(0.0, -slope - _T * error), min(1.0, -slope + _T * error))
    if interval[0] <= 0:
        return None
    return Draining(
        first=stocked[0],
        last=stocked[-1],
        per_step=min(1.0, -slope),
        per_step_ci=interval,
        steps_left=math.ceil(stocked[-1] / -slope) if m == _STRETCHES else None,
    )
