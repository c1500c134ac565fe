"""Where a step's time went: the accounting of one loop on one thread.

A step lasts from the moment the loop asks for a batch until it asks for the next one. Its host time
splits into wait, copy, compute and other, which add up to it to the nanosecond: compute is what
is left once the rest is known, so no moment is counted twice or forgotten.

Loops that are open on the same thread know of each other, because the time of one is `other` to
the rest. Nothing here takes a lock: a loop belongs to the thread that drives it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter_ns as now
from types import TracebackType
from typing import Any, Self, TypeVar

from probe.record.batch import measure
from probe.record.buffer import LIMIT, LoaderRecord

T = TypeVar("T")

# Every so many steps the loop times its own bookkeeping; a power of two less one.
COST_SAMPLE_MASK = 255


class ThreadState:
    """What one thread has open."""

    __slots__ = ("copying", "loops")

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self.copying = False


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


_local = _Local()


def forget_threads() -> None:
    """Start with nothing open; for a forked child, whose loops all belong to its parent."""
    global _local
    _local = _Local()


class Loop:
    """One pass over a watched loader, from `iter()` to its end.

    Args:
        attach: Called at the first batch, when it is known which thread drives the loop; gives the
            record that the steps belong to, or None when nothing is to be recorded.
    """

    __slots__ = (
        "_around",
        "_attach",
        "_first_step",
        "_has_batch",
        "_since",
        "_thread",
        "begun",
        "bytes",
        "copy",
        "ended",
        "epoch",
        "excluded",
        "first",
        "in_next",
        "nested",
        "origin",
        "other",
        "record",
        "rows",
        "samples",
        "simple",
        "start",
        "step",
        "wait",
    )

    def __init__(self, attach: Callable[[Loop], LoaderRecord | None]) -> None:
        self._attach = attach
        self._thread = thread = _local.state
        self._has_batch = False
        self._since = 0
        self.nested = False
        self.ended = False
        self.excluded = 0
        self.in_next: bool = False
        self.simple = False  # nothing but this loop is open here: the fast path may be taken
        self.record: LoaderRecord | None = None
        self.rows: list[tuple[int | None, ...]] = []
        self.copy = self.other = self.wait = 0
        self.step = self._first_step = self.epoch = self.origin = 0
        self.first = 1
        self.samples: int | None = None
        self.bytes: int | None = None
        self._around = [
            (loop, loop.start, loop.copy, loop.other)
            for loop in thread.loops
            if not loop.in_next and not loop.excluded
        ]
        for loop in thread.loops:
            loop.simple = False
        thread.loops.append(self)
        self.start: int = now()
        self.begun = self.start

    def open(self, iter_: Callable[[], T]) -> T:
        """Call `iter_()`, the loader's own `iter()`: its time belongs to the first step's wait."""
        others = self._others()
        self.in_next = True
        try:
            return iter_()
        except BaseException:
            self.in_next = False
            self.end()
            raise
        finally:
            ended = now()
            self.in_next = False
            self.wait = ended - self.begun - self.copy
            _charge(others, ended - self.begun)

    def fetch(self, next_: Callable[[], Any], ends: Callable[[Any], bool] | None = None) -> Any:
        """Call `next_()` and account for it; the general path, for any state of the thread.

        Args:
            next_: Gives the next batch.
            ends: Tells from a batch that it is no batch but the end of the epoch.
        """
        if self.ended:
            return next_()
        if self._thread is not _local.state:
            self._move()
        others = self._others()
        asked = now()
        if self.excluded:
            self.other += asked - self._since
        copied = self.copy
        self.in_next = True
        try:
            batch = next_()
        except BaseException as error:
            came = now()
            _charge(others, came - asked)
            self.failed(asked, copied, error, came)
            raise
        got = now()
        _charge(others, got - asked)
        if ends is not None and ends(batch):
            self.failed(asked, copied, StopIteration(), got)
            return batch
        self.settle(asked, copied, got, batch)
        return batch

    def settle(self, asked: int, copied: int, got: int, batch: Any) -> None:
        """Close the step that ended at `asked` and open the one whose batch came at `got`.

        Args:
            asked: When the loop asked, ns.
            copied: What the closing step had copied by then, ns.
            got: When the batch came, ns.
            batch: The batch; it is looked at and not kept.
        """
        self.in_next = False
        if self.ended:
            return
        copy = self.copy - copied
        if self._has_batch:
            self._close(asked, copied)
            self.start = asked
            self.wait = got - asked - copy
            self.copy = copy
            self.other = 0
        else:
            self.nested = any(loop.in_next for loop in self._thread.loops)
            record = self._attach(self)
            self._attach = _nothing
            if record is None:
                self.end()
                return
            self._has_batch = True
            self.record, self.rows, self.origin = record, record.rows, record.origin_ns
            self.step = self._first_step = record.step
            self.epoch = record.epoch
            record.epoch += 1
            record.loops.add(self)
            # Between iter() and the first ask there was no batch to compute on.
            self.other = asked - self.begun - self.wait - copied
            self.wait += got - asked - copy
        if self.excluded:
            self._since = got
        self.samples, self.bytes = measure(batch)
        self.simple = len(self._thread.loops) == 1 and not self.excluded

    def failed(self, asked: int, copied: int, error: BaseException, came: int) -> None:
        """Account for a `next` that gave no batch: its time belongs to the step that is open.

        Args:
            asked: When the loop asked, ns.
            copied: What the open step had copied by then, ns.
            error: What came instead; StopIteration ends the loop.
            came: When it came, ns.
        """
        self.in_next = False
        if self.ended:
            return
        if self.excluded:
            self._since = came
        self.wait += came - asked - (self.copy - copied)
        if isinstance(error, StopIteration):
            self.end(came, complete=True)

    def end(self, at: int | None = None, *, complete: bool = False) -> None:
        """Close the loop; its last step lasts until now, or until `at`.

        Args:
            at: The moment, ns.
            complete: Whether the loader was read to its end.
        """
        if self.ended:
            return
        self.ended, self.simple = True, False
        at = now() if at is None else at
        if self in self._thread.loops:
            self._thread.loops.remove(self)
        if self.excluded:
            self.other += at - self._since
        if self._has_batch:
            assert self.record is not None
            self._close(at, self.copy)
            self.record.loops.discard(self)
            self.record.step = self.step
            self.record.ended(self.begun, at, self.step - self._first_step if complete else None)
        # To a loop whose step held this whole loop, all of its time was other.
        for loop, start, copy, other in self._around:
            if loop.start == start and not loop.ended and not loop.in_next:
                loop.copy = copy
                loop.other = other + (loop._since if loop.excluded else at) - self.begun
        self._around = []

    def void(self) -> None:
        """Stop recording without a trace; for a forked child."""
        self.ended, self.simple = True, False

    def cost(self, since: int) -> None:
        """Note what the bookkeeping of one step took, from `since` until now."""
        if self.record is not None:
            self.record.cost_ns += now() - since
            self.record.cost_samples += 1

    def _close(self, at: int, copied: int) -> None:
        rows = self.rows
        if len(rows) < LIMIT:
            compute = at - self.start - self.wait - copied - self.other
            rows.append(
                (
                    self.step,
                    self.epoch,
                    self.first,
                    self.start - self.origin,
                    self.wait,
                    copied,
                    compute,
                    self.other,
                    self.samples,
                    self.bytes,
                )
            )
        else:
            assert self.record is not None
            self.record.dropped += 1
        self.step += 1
        self.first = 0

    def _move(self) -> None:
        """Follow the iterator to the thread that drives it now."""
        if self in self._thread.loops:
            self._thread.loops.remove(self)
        self._thread = _local.state
        self._around = []
        for loop in self._thread.loops:
            loop.simple = False
        self._thread.loops.append(self)

    def _others(self) -> list[tuple[Loop, int, int]]:
        return [
            (loop, loop.copy, loop.other)
            for loop in self._thread.loops
            if loop is not self and not loop.in_next and not loop.excluded
        ]


def _nothing(_: Loop) -> None:
    return None


def _charge(others: list[tuple[Loop, int, int]], duration: int) -> None:
    """Count a stretch of time as other, whatever of it a loop had counted already."""
    for loop, copy, other in others:
        loop.copy = copy
        loop.other = other + duration


class exclude:  # noqa: N801 - reads as a statement: `with probe.exclude("validation"):`
    """Time that is not part of the step: validation, a checkpoint, logging.

    Inside a watched loop it counts as `other` instead of compute; it never counts as wait. It is
    also written to the `events` of the run. Blocks may nest.

    Args:
        label: What the time was for; shown on the time line.

    Example:
        >>> with probe.exclude("checkpoint"):  # doctest: +SKIP
        ...     torch.save(model.state_dict(), "model.pt")
    """

    __slots__ = ("_began", "_label", "_loops")

    def __init__(self, label: str = "excluded") -> None:
        self._label = label
        self._loops: list[Loop] = []
        self._began = 0

    def __enter__(self) -> Self:
        self._loops = [loop for loop in _local.state.loops if not loop.in_next]
        began = self._began = now()
        for loop in self._loops:
            if not loop.excluded:
                loop._since = began
            loop.excluded += 1
            loop.simple = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        ended = now()
        for loop in self._loops:
            loop.excluded -= 1
            if not loop.excluded and not loop.ended:
                loop.other += ended - loop._since
        from probe.run import current

        run = current()
        if run is not None:
            run.event("exclude", self._label, self._began, ended - self._began)


class copy:  # noqa: N801 - reads as a statement: `with probe.copy():`
    """A host-to-device transfer of batch data that probe cannot see by itself.

    The time of the block counts as copy for the loops that are open on this thread, also when the
    block runs inside the loader's `next`, as in a prefetcher. Blocks may nest; the outermost
    counts.

    Example:
        >>> with probe.copy():  # doctest: +SKIP
        ...     batch = my_transfer(batch)
    """

    __slots__ = ("_began", "_outermost", "_thread")

    def __enter__(self) -> Self:
        self._thread = _local.state
        self._outermost = not self._thread.copying
        self._thread.copying = True
        self._began = now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if not self._outermost:
            return
        took = now() - self._began
        self._thread.copying = False
        for loop in self._thread.loops:
            if not loop.excluded:
                loop.copy += took
