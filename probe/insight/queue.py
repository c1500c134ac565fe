"""Between workers and loop: was a batch ready, how long did it lie, is the stock running out?

A queue that was filled while the first steps were slow hides a producer that is too slow, until it
is empty. So its depth is part of the verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.insight import words
from probe.insight.bootstrap import MIN_STEPS
from probe.insight.pairing import Paired
from probe.insight.summary import after_warm_up, only, steady
from probe.store.queries import Fetches, Loader, Steps

# A trend is read from this many stretches of steps.
_STRETCHES = 10
# Of their pairs, how many more must fall than rise (Kendall's tau).
_STEADILY = 0.7
# Stretches that differ by less than this part of the fall are level.
_LEVEL = 0.05
# A stretch with fewer batches than this on average had nothing in stock.
_EMPTY = 0.5
# Share of the steps over which the stock must have lasted; otherwise the rest is steady state.
_MOSTLY = 0.5
# Clocks of the training thread and of a worker are read a moment apart.
_TOO_EARLY_NS = 1_000_000
# So many batches that were used before they were made mean that they belong to other steps.
_OFTEN = 0.05


@dataclass(frozen=True, slots=True)
class Draining:
    """A stock of finished batches that runs out.

    `first` and `last` are the batches ready in the first and the last stretch with any. A step
    takes `per_step` more out of the queue than comes in; once the queue is empty that is the share
    of time for which the loop will wait, because production then sets the pace. `steps_left` is
    None when the queue has run empty already.
    """

    first: float
    last: float
    per_step: float
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

    @property
    def sentence(self) -> str:
        """Readiness and delay in words; empty where neither is known."""
        found = []
        if self.readiness is not None:
            found.append(f"a batch lay ready at {words.percent(self.readiness)} of the steps")
        if self.delay_p50_ms is not None and self.delay_p95_ms is not None:
            found.append(
                f"half of the batches lay for at most {words.ms(self.delay_p50_ms)} ms until the"
                f" loop took them, 95 % for at most {words.ms(self.delay_p95_ms)} ms"
            )
        return f"Queue: {'; '.join(found)}." if found else ""


def examine(loader: Loader, steps: Steps, fetches: Fetches) -> Queue:
    """Describe the queue of one loader.

    Args:
        loader: The loader that makes the batches.
        steps: The steps of the loop.
        fetches: The batches made for it; of length 0 when none was seen.
    """
    ready = steps.ready[after_warm_up(steps)]
    known = ready[~np.isnan(ready)]
    pairs = _matched(loader, steps, fetches)
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
        draining=_draining(loader, steps),
    )


def _matched(
    loader: Loader, steps: Steps, fetches: Fetches
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Find when the batch of each steady step was finished.

    Returns:
        Which steps have a fetch, shape (steps,), and the ends of their fetches in ns; None when too
        few have one, or when many would have been used before they were made.
    """
    if not len(fetches):
        return None
    fetch = Paired.of(loader, steps, fetches).made
    marked = steady(steps) & (fetch >= 0)
    if marked.sum() < MIN_STEPS:
        return None
    made = (fetches.start_ns + fetches.wall_ns)[fetch[marked]]
    got = (steps.start_ns + steps.wait_ns + steps.copy_ns)[marked]
    if (made > got + _TOO_EARLY_NS).mean() > _OFTEN:
        return None
    return marked, made


def _draining(loader: Loader, steps: Steps) -> Draining | None:
    """Find a stock that has been falling for most of the run."""
    if np.isnan(steps.ready).all():
        return None
    # Every epoch fills the queue anew: of a run with several, the averages say what to expect.
    marked = after_warm_up(steps) & (steps.epoch == steps.epoch[-1]) & ~np.isnan(steps.ready)
    if loader.length is not None and (steps.epoch == steps.epoch[-1]).sum() >= loader.length:
        # At the end of an epoch nothing is left to be made, and every queue runs empty.
        tasks = (loader.num_workers or 0) * (loader.prefetch_factor or 0)
        marked[len(steps) - max(tasks, int(np.nanmax(steps.ready))) :] = False
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
    levels = np.array(stocked)
    earlier, later = np.triu_indices(m, 1)
    fell = levels[earlier] - levels[later]
    fell[np.abs(fell) < _LEVEL * (stocked[0] - stocked[-1])] = 0
    tau = float(np.sign(fell).mean())
    if tau < _STEADILY:
        return None
    length = len(ready) / _STRETCHES
    x = (np.arange(m) - (m - 1) / 2) * length
    slope = float(x @ levels / (x @ x))
    return Draining(
        first=stocked[0],
        last=stocked[-1],
        per_step=min(1.0, -slope),
        steps_left=math.ceil(stocked[-1] / -slope) if m == _STRETCHES else None,
    )
