"""Times each batch being made, inside DataLoader workers and without them, and how many lie ready.

A worker is reached through `worker_init_fn`: for as long as a watched loop takes to get its first
batch, the DataLoader's own one is wrapped; in the worker the wrapper calls the user's function and
then times the fetcher. Dataset, sampler and collate function are never touched. What a worker
measures goes through one pipe per process that never blocks it, 48 bytes a batch.
"""

from __future__ import annotations

import contextlib
import os
import queue
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection, Pipe
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from probe.environment import times_stages
from probe.record.batch import measure
from probe.record.buffer import LIMIT, LoaderRecord, take
from probe.record.snapshot import attributes, unwrapped
from probe.record.stages import Stages, read_lines

if TYPE_CHECKING:
    from probe.record.loop import Loop

# token, worker, process, number, start, wall, cpu, samples (−1: unknown)
_RECORD = struct.Struct("<IIIIqqqq")

# Room for 20,000 batches between two visits of the writer; Linux gives a user this much.
_PIPE_BYTES = 1 << 20


class Fetch(NamedTuple):
    """One batch that was made; times in ns on the host clock of all processes.

    `number` counts the batches of one worker process, so that a lost one leaves a gap.
    """

    worker: int
    process: int
    number: int
    start: int
    wall: int
    cpu: int
    samples: int | None


class WorkerInit:
    """A `worker_init_fn` that calls the user's own and then times the worker's fetches.

    Args:
        user_init: The user's `worker_init_fn`.
        writer: The writing end of the pipe; travels to a spawned process like any connection.
        token: Says whose fetches they are.
        stages: The writing end of the pipe for stages; None unless they are timed as well.
    """

    def __init__(
        self,
        user_init: Callable[[int], Any] | None,
        writer: Connection,
        token: int,
        stages: Connection | None = None,
    ) -> None:
        self.user_init = user_init
        self._writer = writer
        self._token = token
        self._stages = stages

    def __call__(self, worker: int) -> None:
        """Run at the start of a worker, in the worker."""
        if self.user_init is not None:
            self.user_init(worker)
        with contextlib.suppress(Exception):  # a worker must not die of being measured
            fetch: Any = import_module("torch.utils.data._utils.fetch")

            report = _Reporter(self._writer, self._token, worker)
            stages = None if self._stages is None else Stages(self._stages, self._token)
            for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
                fetcher.fetch = _timed(fetcher.fetch, report, stages)
            if stages is not None:
                stages.wrap(import_module("torch.utils.data").get_worker_info().dataset)


class _Reporter:
    """Sends fetches from a worker; one that finds the pipe full is lost, and nothing waits."""

    def __init__(self, writer: Connection, token: int, worker: int) -> None:
        self._writer = writer  # keeps the descriptor open
        self._descriptor = writer.fileno()
        self._token, self._worker, self._process = token, worker, os.getpid()
        self._number = -1
        self._busy = False

    def begin(self) -> bool:
        """Number a fetch that begins; False inside another one, as of a loader in a data set."""
        if self._busy:
            return False
        self._busy = True
        self._number += 1
        return True

    def end(self) -> None:
        """Let the next fetch begin."""
        self._busy = False

    def __call__(self, start: int, wall: int, cpu: int, batch: Any) -> None:
        """Send what the fetch has taken."""
        samples = measure(batch)[0]
        record = _RECORD.pack(
            self._token,
            self._worker,
            self._process,
            self._number,
            start,
            wall,
            cpu,
            -1 if samples is None else samples,
        )
        with contextlib.suppress(OSError):
            os.write(self._descriptor, record)


class _Channel:
    """Where fetches come together in the recording process, by the loop that they are for."""

    def __init__(self) -> None:
        self._pipe = _Pipe()
        self.writer = self._pipe.writer
        self._stages: _Pipe | None = None
        self._rest = b""
        self._early: list[tuple[int, dict[str, list[int]]]] = []
        # Fetches without workers: token, number, start, end, CPU clock before and after, samples.
        self.local: list[tuple[int, int, int, int, int, int, int | None]] = []
        self._lock = threading.Lock()
        # What a token stands for: a loop, and once that has its first batch the record alone.
        self._targets: dict[int, Loop | LoaderRecord] = {}
        self._persistent: dict[int, tuple[weakref.ref[Any] | None, int]] = {}
        self._unused = count()
        self._waiting: list[tuple[int, Fetch]] = []

    def token(self, loader: Any, loop: Loop) -> int:
        """Return a token for the fetches of a loop over a loader.

        Persistent workers keep the token that they were started with: from now on it stands for
        this loop.
        """
        known, token = self._persistent.get(id(loader), (None, 0))
        if known is None or known() is not loader or attributes(loader).get("_iterator") is None:
            token = next(self._unused)
            self._persistent[id(loader)] = weakref.ref(loader), token
        self._targets[token] = loop
        return token

    def drain(self) -> None:
        """Hand what has come in to the records of the loops; for the writer thread."""
        with self._lock:
            found = self._waiting
            process = os.getpid()
            for token, number, start, end, before, after, samples in take(self.local):
                fetch = Fetch(0, process, number, start, end - start, after - before, samples)
                found.append((token, fetch))
            for data in self._pipe.read(1024 * _RECORD.size):
                whole = data[: len(data) // _RECORD.size * _RECORD.size]
                for token, *times, samples in _RECORD.iter_unpack(whole):
                    known = None if samples < 0 else samples
                    found.append((token, Fetch._make((*times, known))))
            self._drain_stages()
            self._waiting = []
            for token, fetch in found:
                record = self._record(token)
                if record is not None:
                    if len(record.fetches) < LIMIT:
                        record.fetches.append(fetch)
                elif token in self._targets and len(self._waiting) < LIMIT:
                    self._waiting.append((token, fetch))  # made before the loop has its first batch

    def _record(self, token: int) -> LoaderRecord | None:
        """Return the record that a token stands for; None while its loop has none."""
        target = self._targets.get(token)
        if target is None or isinstance(target, LoaderRecord):
            return target
        if target.record is not None:
            self._targets[token] = target.record
        elif target.ended:
            del self._targets[token]
        return target.record

    def stages(self) -> _Pipe:
        """Return the pipe for the times of stages."""
        if self._stages is None:
            self._stages = _Pipe()
        return self._stages

    def _drain_stages(self) -> None:
        if self._stages is None:
            return
        lines = self._early
        for data in self._stages.read(_PIPE_BYTES):
            self._rest, more = read_lines(self._rest, data)
            lines += more
        self._early = []
        for token, spent in lines:
            record = self._record(token)
            if record is not None:
                record.add_stages(spent)
            elif token in self._targets and len(self._early) < LIMIT:
                self._early.append((token, spent))  # of a batch made before the loop has its first


class _Pipe:
    """A pipe whose ends never block."""

    def __init__(self) -> None:
        self.reader, self.writer = Pipe(duplex=False)
        os.set_blocking(self.reader.fileno(), False)
        os.set_blocking(self.writer.fileno(), False)
        with contextlib.suppress(Exception):  # Linux only; a user may have used up the allowance
            fcntl: Any = import_module("fcntl")
            fcntl.fcntl(self.writer.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def read(self, size: int) -> Iterator[bytes]:
        """Give what lies in the pipe, in pieces of at most `size` bytes."""
        with contextlib.suppress(OSError):
            while data := os.read(self.reader.fileno(), size):
                yield data


_channel: _Channel | None = None
_opening = threading.Lock()


def drain() -> None:
    """Hand over what workers have reported; see `_Channel.drain`."""
    if _channel is not None:
        _channel.drain()


def forget_workers() -> None:
    """Start afresh in a forked child; a worker keeps the end of the pipe that it was given."""
    global _channel, _opening
    _channel = None
    _opening = threading.Lock()


def watch_workers(loader: Any, loop: Loop) -> Callable[[], None] | None:
    """Time the workers that a DataLoader is about to start for a loop.

    Args:
        loader: The DataLoader.
        loop: The loop that its batches are for.

    Returns:
        What ends it; the workers that exist by then go on reporting. None if there are no workers.
    """
    own = attributes(loader)
    if not own.get("num_workers"):
        return None
    channel = _open_channel()
    token = channel.token(loader, loop)
    user_init = own.get("worker_init_fn")
    if isinstance(user_init, WorkerInit):
        return None
    stages = channel.stages().writer if times_stages() else None
    wrapped = own["worker_init_fn"] = WorkerInit(user_init, channel.writer, token, stages)

    def undo() -> None:
        if own.get("worker_init_fn") is wrapped:
            own["worker_init_fn"] = user_init

    return undo


def hide(iterator: Any) -> None:
    """Give an iterator whose workers have started the `worker_init_fn` back that is the user's."""
    own = attributes(iterator)
    wrapped = own.get("_worker_init_fn")
    if isinstance(wrapped, WorkerInit):
        own["_worker_init_fn"] = wrapped.user_init


def watch_fetcher(iterator: Any, loader: Any, loop: Loop) -> None:
    """Time the fetches that a DataLoader without workers makes inside `next`."""
    fetcher = getattr(iterator, "_dataset_fetcher", None)
    if fetcher is None or "fetch" in vars(fetcher):
        return
    channel = _open_channel()
    token = channel.token(loader, loop)
    local, number = channel.local, count().__next__
    fetch, reference = type(fetcher).fetch, weakref.ref(fetcher)  # a bound method would be a cycle
    sized = fetcher.auto_collation and hasattr(type(fetcher.dataset), "__getitem__")

    def timed(index: Any) -> Any:
        this = number()  # also of a fetch that fails, so that the rest keep their places
        before, start = thread_time_ns(), now()
        batch = fetch(reference(), index)
        end, after = now(), thread_time_ns()
        if len(local) < LIMIT:
            samples = len(index) if sized else None
            local.append((token, this, start, end, before, after, samples))
        return batch

    fetcher.fetch = timed


def dataloader_in(loader: Any) -> Any:
    """Return the DataLoader that is or lies inside a loader; None if there is none."""
    data = sys.modules.get("torch.utils.data")
    if data is None:
        return None
    return next((part for part in unwrapped(loader) if isinstance(part, data.DataLoader)), None)


def queue_depth(iterator: Any) -> Callable[[], int | None] | None:
    """Return what tells how many finished batches an iterator holds; None if nothing does.

    Known are DataLoader's iterator with workers and any iterator that keeps a `queue.Queue`.
    """
    own = attributes(iterator)
    name = next((name for name, value in own.items() if isinstance(value, queue.Queue)), "")
    with_workers = "_task_info" in own and "_data_queue" in own
    if not (name or with_workers):
        return None
    # Whoever asks outlives the iterator, and must not keep its batches.
    reference = weakref.ref(iterator)

    def depth() -> int | None:
        try:
            it: Any = reference()
            if with_workers:
                # Batches that came before their turn have left the queue and wait in _task_info.
                return int(it._data_queue.qsize() + len(it._task_info) - it._tasks_outstanding)
            return int(attributes(it)[name].qsize())
        except Exception:  # macOS cannot tell the size of a queue between processes
            return None

    return depth


def _open_channel() -> _Channel:
    global _channel
    with _opening:
        if _channel is None:
            _channel = _Channel()
        return _channel


def _timed(
    fetch: Callable[[Any, Any], Any], report: _Reporter, stages: Stages | None
) -> Callable[[Any, Any], Any]:
    def timed(self: Any, index: Any) -> Any:
        if not report.begin():
            return fetch(self, index)
        try:
            if stages is not None:
                self.collate_fn = stages.collating(self.collate_fn)
            start, cpu = now(), thread_time_ns()
            batch = fetch(self, index)
            report(start, now() - start, thread_time_ns() - cpu, batch)
            if stages is not None:
                stages.send()
            return batch
        finally:
            report.end()

    return timed
