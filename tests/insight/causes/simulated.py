"""A loop over a DataLoader in simulated time, as the store would return it.

Only what the causes need: tasks are dealt to the workers in turn, at most `prefetch_factor` to
each, one more for every batch taken; batches are delivered in order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sides import make_loader, make_run, make_steps

from probe.insight import queue
from probe.insight.causes.evidence import gather
from probe.insight.summary import only, summarize
from probe.insight.verdict import Verdict, judge
from probe.store.queries import Fetches, HostSamples, Steps

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Recorded:
    """One simulated run; `judge()` says what probe makes of it."""

    steps: Steps
    fetches: Fetches
    loader: dict[str, Any]
    cpu: float | None = None
    tree: float | None = None
    cores: float | None = 16
    torch_threads: int | None = 1
    device: str = "cuda"

    def first(self, n: int) -> Recorded:
        """Return what is recorded after `n` steps, in the middle of the first epoch."""
        steps = only(self.steps, self.steps.step < n)
        end = steps.start_ns[-1] + steps.step_ns[-1]
        made = self.fetches.start_ns + self.fetches.wall_ns <= end
        fetches = {name: getattr(self.fetches, name)[made] for name in Fetches.__slots__}
        loader = self.loader | {"length": None}
        return replace(self, steps=steps, fetches=Fetches(**fetches), loader=loader)

    def judge(self) -> Verdict:
        loader = make_loader(**self.loader)
        config = {"cores": self.cores, "torch_threads": self.torch_threads}
        run = make_run(config=config, device=self.device)
        lying = queue.examine(loader, self.steps, self.fetches)
        host = make_host(self.steps, self.cpu, self.tree)
        evidence = gather(run, loader, self.steps, self.fetches, host, lying)
        return judge(summarize(loader, self.steps), self.steps, evidence)


def simulate(
    n: int,
    *,
    workers: int,
    fetch_ms: ArrayLike,
    loop_ms: ArrayLike,
    on_core: ArrayLike = 1.0,
    prefetch_factor: int = 2,
    epoch_length: int | None = None,
    start_ms: float = 0.0,
    hand_over_ms: ArrayLike = 0.0,
    thread: bool = False,
    **recorded: Any,
) -> Recorded:
    """Simulate `n` steps.

    Args:
        n: Steps.
        workers: Worker processes; with 0 the loop makes its batches itself.
        fetch_ms: What making each batch takes.
        loop_ms: What the loop takes on each of them.
        on_core: The share of `fetch_ms` on a core.
        prefetch_factor: Tasks that a worker may have.
        epoch_length: Steps an epoch; one epoch by default.
        start_ms: What the workers of each epoch take to start.
        hand_over_ms: What passes between a finished batch and the loop.
        thread: Whether one thread of the training process makes the batches ahead.
        recorded: Further fields of the result.
    """
    fetch, loop = (np.broadcast_to(np.asarray(v, float), n) for v in (fetch_ms, loop_ms))
    shift = np.broadcast_to(np.asarray(hand_over_ms, float), n)
    makers = max(workers, 1)
    ahead = makers * prefetch_factor
    alone = workers == 0 and not thread
    start, asked, got, ready = np.zeros(n), np.zeros(n), np.zeros(n), np.full(n, np.nan)
    now = 0.0
    for first in range(0, n, epoch_length or n):
        last = min(n, first + (epoch_length or n))
        free = np.full(makers, now + start_ms)
        for i in range(first, last):
            asked[i] = now
            if alone:
                start[i] = now + (start_ms if i == first else 0.0)
            for j in range(i if i == first else i + ahead - 1, min(i + ahead, last)):
                if not alone:  # tasks are sent at the start and whenever a batch has been taken
                    sent = now if i == first else got[i - 1]
                    start[j] = max(free[(j - first) % makers], sent)
                    free[(j - first) % makers] = start[j] + fetch[j]
            done = start[i : i + ahead] + fetch[i : i + ahead]
            if not alone:
                ready[i] = np.count_nonzero((done <= now)[: last - i])
            got[i] = max(now, done[0]) + shift[i]
            now = got[i] + loop[i]
    steps = make_steps(n, wait_ms=got - asked, compute_ms=loop, epoch_length=epoch_length)
    position = steps.step % (epoch_length or n)
    worker = position % makers
    order = np.lexsort((steps.step, worker))
    seq = np.concatenate([np.arange(np.count_nonzero(worker == w)) for w in range(makers)])
    on = np.broadcast_to(np.asarray(on_core, float), n)
    fetches = Fetches(
        worker=worker[order],
        seq=seq,
        epoch=steps.epoch[order],
        start_ns=_ns(start)[order],
        wall_ns=_ns(fetch)[order],
        cpu_ns=(fetch * on * 1e6)[order],
        samples=np.full(n, 32.0),
    )
    settings = {"num_workers": workers, "prefetch_factor": prefetch_factor if workers else None}
    settings["length"] = epoch_length or n
    loader = settings | recorded.pop("loader", {})
    return Recorded(replace(steps, ready=ready), fetches, loader, **recorded)


def no_fetches() -> Fetches:
    """Return what the store gives when no batch was seen being made."""
    none = np.zeros(0, np.int64)
    return Fetches(none, none, none, none, none, np.zeros(0), np.zeros(0))


def with_copies(steps: Steps, exposed_ms: ArrayLike, hidden_ms: ArrayLike = 0.0) -> Steps:
    """Give steps a device clock on which copies take time, held up or hidden."""
    exposed = np.broadcast_to(np.asarray(exposed_ms, float), len(steps)) * 1e6
    wait = steps.wait_ns.astype(np.float64)
    return replace(
        steps,
        exposed_wait_ns=wait,
        exposed_copy_ns=exposed,
        device_copy_ns=exposed + np.asarray(hidden_ms, float) * 1e6,
        stall_ns=steps.wait_ns + exposed.astype(np.int64),
    )


def make_host(steps: Steps, cpu: float | None, tree: float | None) -> HostSamples:
    """Sample a machine five times a second while the steps ran; none without `cpu`."""
    end = int((steps.start_ns + steps.step_ns)[-1])
    time = np.arange(0, end, 200_000_000) if cpu is not None else np.zeros(0, np.int64)
    unknown = np.full(len(time), np.nan)
    busy, own = (unknown if share is None else np.full(len(time), share) for share in (cpu, tree))
    return HostSamples(time, busy, own, unknown, unknown, unknown)


def _ns(ms: Array) -> NDArray[np.int64]:
    return np.rint(ms * 1e6).astype(np.int64)
