"""A run's life: how it begins, which one is current, how it ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import uuid
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter_ns as now
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from probe.environment import database, disabled
from probe.record import forks, hardware, snapshot
from probe.record.buffer import LIMIT, LoaderRecord
from probe.record.clock import forget_clock
from probe.record.copies import forget_copies
from probe.record.thread import forget_threads
from probe.record.warnings import warn
from probe.record.workers import forget_workers
from probe.record.writer import Writer, storable

if TYPE_CHECKING:
    from probe.record.loop import Loop
    from probe.watch import Source

_choosing = threading.Lock()

# The run that `with probe.run(...)` opened, else the one that the first watched loop began.
_current: Run | None = None

# The run that this thread, or asynchronous task, has opened: two threads may each have their own.
_of_context: ContextVar[Run | None] = ContextVar("probe_run", default=None)


class Run:
    """One recorded training run in this process; made by `probe.run` or by the first watched loop.

    Attributes:
        uid: UUID of the run, text.
        name: What the user called it, if anything.
        db: The file it is recorded to.
    """

    def __init__(
        self,
        name: str | None,
        *,
        strategy: str | None = None,
        experiment: str | None = None,
        tags: Sequence[str] = (),
        notes: str | None = None,
        device: str | None = None,
        db: str | Path | None = None,
        implicit: bool = False,
    ) -> None:
        self.uid = str(uuid.uuid4())
        self.name = name or os.environ.get("PROBE_RUN") or None
        self.strategy = strategy or os.environ.get("PROBE_STRATEGY") or None
        self.experiment, self.notes, self.device = experiment, notes, device
        self.tags = [str(tag) for tag in tags or ()]
        self.db = database(db)
        self.implicit = implicit
        self.origin_ns = now()
        self.started_at = datetime.now(UTC).isoformat(timespec="microseconds")
        self.records: list[LoaderRecord] = []
        self.events: list[tuple[int, str, str | None, int | None]] = []
        self.ended = False
        self._writer: Writer | None = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start the threads that write the run to its file."""
        hardware.preload()
        self._writer = Writer(self)
        self._writer.start()

    def loader(
        self, name: str, inner: Any, description: dict[str, Any], loop: Loop
    ) -> LoaderRecord | None:
        """Find the record that a loop over a loader belongs to, or begin one.

        Returns None once the run has ended.

        A loader continues its record from epoch to epoch, also when it is made anew with the same
        settings. Another loader of the same name, or a second loop while the first is still open,
        gets a record of its own.
        """
        with self._lock:
            if self.ended:
                return None
            same = [r for r in self.records if r.base == name and not r.loops]
            for record in same:
                if record.owner is not None and record.owner() is inner:
                    break
            else:
                record = self._unowned(same, name, description)
                record.own(inner)
            record.loops.add(loop)
            return record

    def _unowned(
        self, same: list[LoaderRecord], name: str, description: dict[str, Any]
    ) -> LoaderRecord:
        """Find a record whose loader is gone and was like this one, or make one."""
        for record in same:
            alive = record.owner is not None and record.owner() is not None
            if record.description == description and not alive:
                return record
        count = sum(record.base == name for record in self.records)
        shown = f"{name} ({count + 1})" if count else name
        self.records.append(LoaderRecord(name, shown, description, self.origin_ns))
        return self.records[-1]

    def event(self, kind: str, label: str | None, began_ns: int, duration_ns: int | None) -> None:
        """Note something that happened beside the steps.

        Args:
            kind: epoch, exclude, gc, warning or dropped.
            label: What it was, in words.
            began_ns: When, on the host clock.
            duration_ns: How long it took; None for a moment.
        """
        if len(self.events) < LIMIT:
            text = None if label is None else storable(label)
            self.events.append((began_ns - self.origin_ns, kind, text, duration_ns))

    def finish(self, status: str = "finished", *, wait: bool = True) -> None:
        """End the run: close its loops and write what is left.

        Args:
            status: finished, failed or interrupted.
            wait: Block until it is written, ten seconds at most.
        """
        with self._lock:
            if self.ended:
                return
            self.ended = True
            for record in self.records:
                for loop in list(record.loops):
                    loop.finish()
        _unfinished.discard(self)
        if self._writer is not None:
            self._writer.finish(status, wait=wait)

    def abandon(self) -> None:
        """Forget the run in a forked child; it is the parent's."""
        self.ended = True
        self._writer = None
        for record in self.records:
            for loop in record.loops:
                loop.void()


class run:  # noqa: N801 - reads as a statement: `with probe.run("baseline"):`
    """Name a run and say where it begins and ends.

    Without it a run begins at the first watched loop and ends with the process.

    Args:
        name: What to call the run; default `PROBE_RUN`.
        strategy: How batches reach the loop, in words; default `PROBE_STRATEGY`.
        experiment: Groups runs that belong together.
        tags: Words to filter by.
        notes: Free text.
        db: The file to record to; default `PROBE_DB`, else `probe.db` in the current directory.

    Example:
        >>> with probe.run("baseline", strategy="plain", tags=["a100"]):  # doctest: +SKIP
        ...     for batch in probe.watch(loader):
        ...         train(batch)
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        strategy: str | None = None,
        experiment: str | None = None,
        tags: Sequence[str] = (),
        notes: str | None = None,
        db: str | Path | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "strategy": strategy,
            "experiment": experiment,
            "tags": [tags] if isinstance(tags, str) else tags,
            "notes": notes,
            "db": db,
        }
        self._name = name
        self._run: Run | None = None
        self._outer: Run | None = None

    def __enter__(self) -> Self:
        if disabled() or snapshot.in_dataloader_worker():
            return self
        self._outer = current()
        try:
            self._run = _start(Run(self._name, **self._settings))
            _of_context.set(self._run)
        except Exception as error:
            warn(f"this run is not recorded: {error}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        global _current
        if self._run is None:
            return
        _of_context.set(self._outer)
        if _current is self._run:
            _current = self._outer
        self._run.finish(_status(error))

    @property
    def recorded(self) -> Run | None:
        """What is being recorded; None before the block, after it, and when probe is off."""
        return None if self._run is None or self._run.ended else self._run

    @property
    def uid(self) -> str | None:
        """UUID of the run; None when nothing is recorded."""
        return self._run.uid if self._run else None


def current() -> Run | None:
    """Return the run that is being recorded here, if any: the thread's own, else the process's."""
    for candidate in (_of_context.get(), _current):
        if candidate is not None and not candidate.ended:
            return candidate
    return None


def for_source(source: Source) -> Run | None:
    """Return the run that a loop of a watched loader belongs to, beginning one if need be."""
    if disabled() or snapshot.in_dataloader_worker():
        return None
    if isinstance(source.run, run):
        return source.run.recorded
    # A prefetcher's thread and the loop may both be the first to iterate.
    with _choosing:
        active = current()
        if active is not None and not (active.implicit and _differs(active, source)):
            return active
        if active is not None:
            active.finish(wait=False)
        return _start(
            Run(
                source.run,
                strategy=source.strategy,
                device=source.device,
                db=source.db,
                implicit=True,
            )
        )


def _differs(active: Run, source: Source) -> bool:
    """Tell whether a loader asks for another run than the implicit one that is open.

    Another file or run name does. Another strategy does when the loader's name has been recorded
    already: the same loop in another way is a comparison, a second loader is not.
    """
    if source.db is not None and database(source.db) != active.db:
        return True
    if source.run is not None and source.run != active.name:
        return True
    known = any(record.base == source.name for record in active.records)
    return source.strategy is not None and source.strategy != active.strategy and known


_unfinished: set[Run] = set()


def _start(new: Run) -> Run:
    global _current
    _finish_with_children()
    _unfinished.add(new)
    new.begin()
    _current = new
    return new


def _finish_with_children() -> None:
    """Let a child of multiprocessing end its runs: it leaves without `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _unfinished:
        util.Finalize(None, _finish_all, exitpriority=0)


def _status(error: BaseException | None) -> str:
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "finished"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"


def _finish_all() -> None:
    """End what is still open when the interpreter exits."""
    # The interpreter leaves the error that ended the program here; in an interactive session it is
    # that of any earlier input.
    interactive = hasattr(sys, "ps1") or "ipykernel" in sys.modules
    error = None if interactive else getattr(sys, "last_value", None)
    for run_ in list(_unfinished):
        run_.finish(_status(error))


def _forget_all() -> None:
    """In a forked child: threads, buffers and the file handle are the parent's."""
    global _choosing, _current
    _choosing = threading.Lock()
    for run_ in _unfinished:
        run_.abandon()
    _unfinished.clear()
    _current = None
    _of_context.set(None)
    forget_threads()
    forget_copies()
    forget_clock()
    forget_workers()
    forks.after_fork_in_child()


atexit.register(_finish_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=forks.before_fork,
        after_in_parent=forks.after_fork_in_parent,
        after_in_child=_forget_all,
    )
