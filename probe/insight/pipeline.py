"""A model of torch's DataLoader and the loop that reads it, run batch by batch in simulated time.

The rules are those of `torch.utils.data.dataloader._MultiProcessingDataLoaderIter`: at `iter()`
each worker is sent `prefetch_factor` tasks, in turn. One more task is sent, to the next worker,
whenever a batch is returned. Finished batches come through one queue; in order, a batch that comes
before its turn is taken out and kept until it is asked for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from probe.insight.clock import Clock

Series = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Work:
    """What each step has to do, in seconds; arrays of one length, used from the start again.

    `fetch_off` and `fetch_on` are the parts of making a batch off and on a core; `loop_off` and
    `loop_on` the same of a step between two batches. The latter keeps `loop_cores` cores busy, the
    former `first_cores`, before anything else gets them.
    """

    fetch_off: Series
    fetch_on: Series
    loop_off: Series
    loop_on: Series
    loop_cores: float = 1.0
    first_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Handover:
    """What it costs to pass a batch from a worker to the loop, in seconds.

    After a batch the worker is busy for `between` before it begins the next. The batch lies in the
    queue `transit` after it was made. Taking it out keeps the taker and a core busy for `receive`.
    """

    between: float = 0.0
    transit: float = 0.0
    receive: float = 0.0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """How the batches reach the loop.

    `background` is how many finished batches a thread in the training process may hold for the
    loop; 0 means that there is no such thread.
    """

    num_workers: int
    prefetch_factor: int
    in_order: bool
    background: int
    cores: float
    handover: Handover


@dataclass(frozen=True, slots=True)
class Simulated:
    """Steps that were simulated, in seconds; shape (n,)."""

    wait: Series
    step: Series


def simulate(work: Work, pipeline: Pipeline, steps: int) -> Simulated:
    """Run the loop for a number of steps after the pipeline has filled.

    The steps that fill it use the end of the series, so the first step that counts has the first
    values, and a series as long as `steps` is used once.

    Args:
        work: What each step has to do.
        pipeline: How the batches reach the loop.
        steps: How many steps count.
    """
    ahead = pipeline.num_workers * pipeline.prefetch_factor + pipeline.background
    filling = 20 + 2 * ahead
    order = np.arange(-filling, steps) % len(work.fetch_on)
    loop = _Loop(work, pipeline, order)
    loop.ask()
    loop.clock.run(until=lambda: len(loop.asked) > len(order))
    asked = np.array(loop.asked[filling : len(order) + 1])
    got = np.array(loop.got[filling : len(order)])
    return Simulated(wait=got - asked[:-1], step=np.diff(asked))


class _Loop:
    """The training loop, and between it and the workers perhaps a background thread."""

    def __init__(self, work: Work, pipeline: Pipeline, order: NDArray[np.int64]) -> None:
        self.clock = Clock(pipeline.cores)
        self.asked: list[float] = []
        self.got: list[float] = []
        self._off = work.loop_off[order].tolist()
        self._on = work.loop_on[order].tolist()
        self._cores, self._first = work.loop_cores, work.first_cores
        self._room = pipeline.background
        self._held: deque[int] = deque()
        self._waiting = self._blocked = False
        loader: type[_Workers] | type[_InPlace] = _Workers if pipeline.num_workers else _InPlace
        self._loader = loader(self.clock, work, pipeline, order, self._delivered)
        if self._room:
            self._loader.ask()

    def ask(self) -> None:
        """Ask for the next batch; the end of the step before."""
        self.asked.append(self.clock.now)
        self._waiting = True
        if not self._room:
            self._loader.ask()
        elif self._held:
            self._take(self._held.popleft())
            if self._blocked:
                self._blocked = False
                self._loader.ask()

    def _delivered(self, batch: int) -> None:
        if not self._room:
            self._take(batch)
            return
        if self._waiting:
            self._take(batch)
        else:
            self._held.append(batch)
        # A thread that holds as much as it may still makes one more, and keeps it in its hand.
        self._blocked = len(self._held) > self._room
        if not self._blocked:
            self._loader.ask()

    def _take(self, batch: int) -> None:
        self._waiting = False
        step = len(self.got)
        self.got.append(self.clock.now)
        # The step's own work: batches may come out of order, the loop's steps do not.
        step %= len(self._off)
        self.clock.start(self._off[step], self._on[step], self.ask, self._cores, self._first)


class _Batches:
    """What makes the batches, one after the other as they are asked for."""

    def __init__(
        self,
        clock: Clock,
        work: Work,
        pipeline: Pipeline,
        order: NDArray[np.int64],
        deliver: Callable[[int], None],
    ) -> None:
        self._clock = clock
        self._deliver = deliver
        self._off = work.fetch_off[order].tolist()
        self._on = work.fetch_on[order].tolist()

    def _fetch(self, batch: int, extra: float, then: Callable[[], None]) -> None:
        index = batch % len(self._off)
        self._clock.start(self._off[index], self._on[index] + extra, then)


class _InPlace(_Batches):
    """A DataLoader without workers: a batch is made by whoever asks for it."""

    _next = 0

    def ask(self) -> None:
        """Make one batch and deliver it."""
        batch = self._next
        self._next += 1
        self._fetch(batch, 0.0, partial(self._deliver, batch))


class _Workers(_Batches):
    """A DataLoader with workers."""

    def __init__(
        self,
        clock: Clock,
        work: Work,
        pipeline: Pipeline,
        order: NDArray[np.int64],
        deliver: Callable[[int], None],
    ) -> None:
        super().__init__(clock, work, pipeline, order, deliver)
        self._in_order = pipeline.in_order
        self._prefetch_factor = pipeline.prefetch_factor
        self._handover = pipeline.handover
        # A batch is under way as soon as it is made, while its worker puts it into the queue.
        self._transit = max(0.0, self._handover.transit - self._handover.between)
        workers = range(pipeline.num_workers)
        self._tasks: list[deque[int]] = [deque() for _ in workers]
        self._outstanding = [0 for _ in workers]
        self._busy = [False for _ in workers]
        self._worker_of: dict[int, int] = {}
        self._queue: deque[int] = deque()
        self._early: set[int] = set()
        self._turn = self._sent = self._due = 0
        self._asked = False
        for _ in range(pipeline.num_workers * pipeline.prefetch_factor):
            self._send()

    def ask(self) -> None:
        """Deliver one batch as soon as there is the right one."""
        if self._due in self._early:
            self._early.remove(self._due)
            self._return(self._due)
        elif self._queue:
            self._receive()
        else:
            self._asked = True

    def _send(self) -> None:
        worker = self._turn
        if not self._in_order:
            while self._outstanding[worker] >= self._prefetch_factor:
                worker = (worker + 1) % len(self._tasks)
        self._turn = (worker + 1) % len(self._tasks)
        self._worker_of[self._sent] = worker
        self._outstanding[worker] += 1
        self._tasks[worker].append(self._sent)
        self._sent += 1
        if not self._busy[worker]:
            self._make(worker)

    def _make(self, worker: int) -> None:
        self._busy[worker] = True
        batch = self._tasks[worker].popleft()
        self._fetch(batch, self._handover.between, partial(self._made, worker, batch))

    def _made(self, worker: int, batch: int) -> None:
        self._busy[worker] = False
        self._clock.start(self._transit, 0.0, partial(self._arrived, batch))
        if self._tasks[worker]:
            self._make(worker)

    def _arrived(self, batch: int) -> None:
        self._queue.append(batch)
        if self._asked:
            self._receive()

    def _receive(self) -> None:
        self._asked = False
        batch = self._queue.popleft()
        self._clock.start(self._handover.receive, 0.0, partial(self._received, batch), first=1.0)

    def _received(self, batch: int) -> None:
        if batch == self._due or not self._in_order:
            self._return(batch)
        else:
            self._early.add(batch)
            self.ask()

    def _return(self, batch: int) -> None:
        self._due += 1
        self._outstanding[self._worker_of.pop(batch)] -= 1
        self._send()
        self._deliver(batch)
