"""Where a step's time went: the accounting of one loop on one thread.

A step lasts from the moment the loop asks for a batch until it asks for the next one. Its host time
splits into wait, copy, compute and other, which add up to it to the nanosecond: compute is what
is left once the rest is known, so no moment is counted twice or forgotten.

Loops that are open on the same thread know of each other, because the time of one is `other` to
the rest. Nothing here takes a lock: a loop belongs to the thread that drives it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns as now
from typing import Any, TypeVar

from probe.record.batch import measure
from probe.record.buffer import LIMIT, LoaderRecord
from probe.record.clock import DeviceClock, Mark, StepMarks
from probe.record.copies import mark_copies, unwatch_copies, watch_copies
from probe.record.thread import consumers, thread_state

T = TypeVar("T")

# Every so many steps the loop times its own bookkeeping; a power of two less one.
COST_SAMPLE_MASK = 255


class Loop:
    """One pass over a watched loader, from `iter()` to its end.

    Args:
        attach: Called at the first batch, when it is known which thread drives the loop; gives the
            record that the steps belong to, or None when nothing is to be recorded.
    """

    __slots__ = (
        "_around",
        "_asked_ready",
        "_attach",
        "_earlier",
        "_first_step",
        "_has_batch",
        "_mark_asked",
        "_mark_got",
        "_marks",
        "_since",
        "_thread",
        "begun",
        "bytes",
        "clock",
        "copies",
        "copy",
        "depth",
        "ended",
        "entered",
        "epoch",
        "excluded",
        "first",
        "in_next",
        "nested",
        "origin",
        "other",
        "owner",
        "ready",
        "record",
        "rows",
        "samples",
        "simple",
        "start",
        "step",
        "undo",
        "wait",
    )

    def __init__(self, attach: Callable[[Loop], LoaderRecord | None]) -> None:
        self._attach = attach
        self._thread = thread = thread_state()
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
        self.ready: int | None = None
        self._asked_ready: int | None = None
        self.depth: Callable[[], int | None] | None = None  # how many batches lie ready
        self.undo: Callable[[], None] | None = None  # called when the first batch has come
        self.clock: DeviceClock | None = None
        self.copies: list[tuple[Mark, Mark]] = []
        self._earlier: list[tuple[Mark, Mark]] = []
        self._marks: StepMarks | None = None
        self._mark_asked: Mark | None = None
        self._mark_got: Mark | None = None
        self._around = [
            (loop, loop.start, loop.copy, loop.other)
            for loop in thread.loops
            if not loop.in_next and not loop.excluded
        ]
        for loop in thread.loops:
            loop.simple = False
        thread.loops.append(self)
        watch_copies(thread_state)
        self.owner = get_ident()
        self.start: int = now()
        self.entered = self.start  # when the loader was entered, or left, the last time
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
        if self._thread is not thread_state():
            self._move()
        others = self._others()
        clock = self.clock
        if clock is not None:
            self._mark_asked = clock.mark()
        seen = len(self.copies)
        depth = self.depth
        self._asked_ready = None if depth is None else depth()
        asked = self.entered = now()
        if self.excluded:
            self.other += asked - self._since
        copied = self.copy
        self.in_next = True
        try:
            batch = next_()
        except BaseException as error:
            came = now()
            _charge(others, came - asked)
            self.failed(asked, copied, came, complete=isinstance(error, StopIteration))
            raise
        got = now()
        if clock is not None:
            self._mark_got = clock.mark()
        _charge(others, got - asked)
        if ends is not None and ends(batch):
            self.failed(asked, copied, got, complete=True)
            return batch
        self.settle(asked, copied, got, batch, seen)
        return batch

    def settle(self, asked: int, copied: int, got: int, batch: Any, seen: int = 0) -> None:
        """Close the step that ended at `asked` and open the one whose batch came at `got`.

        Args:
            asked: When the loop asked, ns.
            copied: What the closing step had copied by then, ns.
            got: When the batch came, ns.
            batch: The batch; it is looked at and not kept.
            seen: How many copies on the device clock belong to the closing step.
        """
        self.in_next = False
        self.entered = got
        if self.ended:
            return
        copy = self.copy - copied
        if self._has_batch:
            self._close(asked, copied, seen)
            self.start = asked
            self.wait = got - asked - copy
            self.copy = copy
            self.other = 0
        else:
            self._opened()
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
            record.begins.append(self.begun)
            if record.role == "consumer":
                consumers.add(record)
            # Between iter() and the first ask there was no batch to compute on.
            self.other = asked - self.begun - self.wait - copied
            self.wait += got - asked - copy
        if self.excluded:
            self._since = got
        self.samples, self.bytes = measure(batch)
        self.ready = self._asked_ready
        self.simple = len(self._thread.loops) == 1 and not self.excluded
        if self.clock is not None:  # asked last: the writer may set it at any moment
            self.simple = False
            self._open_marks()
        if not self.step & COST_SAMPLE_MASK:
            self.cost(got)

    def failed(self, asked: int, copied: int, came: int, *, complete: bool) -> None:
        """Account for a `next` that gave no batch: its time belongs to the step that is open.

        Args:
            asked: When the loop asked, ns.
            copied: What the open step had copied by then, ns.
            came: When it gave up, ns.
            complete: Whether that was the end of the loop and not an error.
        """
        self.in_next = False
        if self.ended:
            return
        if self.excluded:
            self._since = came
        self.wait += came - asked - (self.copy - copied)
        self._opened()
        if complete:
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
        unwatch_copies()
        self._opened()
        if self.excluded:
            self.other += at - self._since
        if self._has_batch:
            assert self.record is not None
            self._close(at, self.copy, len(self.copies))
            self.record.step = self.step
            self.record.ended(self.begun, at, self.step - self._first_step if complete else None)
            self.record.loops.discard(self)  # last: from here on another loop may go on with it
            if not self.record.loops:
                consumers.discard(self.record)
        # To a loop whose step held this whole loop, all of its time was other.
        for loop, start, copy, other in self._around:
            if loop.start == start and not (loop.ended or loop.in_next or loop.nested):
                loop.copy = copy
                loop.other = other + (loop._since if loop.excluded else at) - self.begun
        self._around = []

    def finish(self) -> None:
        """Close the loop because its run ends.

        Nobody sees the end of its last step, so that goes to the writer apart. A loop of another
        thread may be in the middle of a step; it is left alone but for being told.
        """
        if self.ended:
            return
        if self._thread is not thread_state():
            self.ended, self.simple = True, False
            unwatch_copies()
            return
        if self._has_batch and self.record is not None and self.step > self._first_step:
            self.rows, self._marks = self.record.open_rows, None
        self.end()

    def void(self) -> None:
        """Stop recording without a trace; for a forked child."""
        self.ended, self.simple = True, False

    def cost(self, since: int) -> None:
        """Note what the bookkeeping of one step took, from `since` until now."""
        if self.record is not None:
            self.record.cost_ns += now() - since
            self.record.cost_samples += 1

    def use_clock(self, clock: DeviceClock) -> None:
        """Time the device as well from the next step on; the writer has found that there is one."""
        self.clock = clock
        self.simple = False
        mark_copies()

    def _open_marks(self) -> None:
        """Begin the device's side of the step that has just been opened."""
        assert self.clock is not None
        self._marks = StepMarks(
            self.clock, self._mark_asked, self._mark_got, self.copies, self._earlier
        )
        self._mark_asked = self._mark_got = None

    def _close(self, at: int, copied: int, seen: int) -> None:
        assert self.record is not None
        wait, copied, compute, other = split(at - self.start, self.wait, copied, self.other)
        row = (
            self.step,
            self.epoch,
            self.first,
            self.start - self.origin,
            wait,
            copied,
            compute,
            other,
            self.samples,
            self.bytes,
            self.ready,
        )
        marks, self._marks = self._marks, None
        if marks is not None:
            marks.following = self._mark_asked
            # What was copied inside `next` belongs to the step that it opens.
            marks.copies, self.copies = self.copies[:seen], self.copies[seen:]
            self._earlier = marks.copies
        rows: list[Any] = self.rows if marks is None else self.record.device_rows
        if len(rows) < LIMIT:
            rows.append(row if marks is None else (row, marks))
        else:
            self.record.dropped += 1
        self.step += 1
        self.first = 0

    def ready_when_asked(self, ready: int | None) -> None:
        """Note how many batches lay ready for the step that is about to be opened."""
        self._asked_ready = ready

    def _opened(self) -> None:
        if self.undo is not None:
            self.undo()
            self.undo = None

    def _move(self) -> None:
        """Follow the iterator to the thread that drives it now."""
        if self in self._thread.loops:
            self._thread.loops.remove(self)
        self._thread = thread_state()
        self.owner = get_ident()
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


def split(step: int, wait: int, copy: int, other: int) -> tuple[int, int, int, int]:
    """Split a step into wait, copy, compute and other that add up to it, none of them negative.

    Only a program that lets its blocks overlap each other's ends, or shares an iterator between
    threads, claims more time for the parts than the step has; then the later ones give way.
    """
    step = max(step, 0)
    wait = min(max(wait, 0), step)
    copy = min(max(copy, 0), step - wait)
    other = min(max(other, 0), step - wait - copy)
    return wait, copy, step - wait - copy - other, other


def _nothing(_: Loop) -> None:
    return None


def _charge(others: list[tuple[Loop, int, int]], duration: int) -> None:
    """Count a stretch of time as other, whatever of it a loop had counted already.

    Not for a producer: the stretch may be the `next` that it delivered for, which is its compute.
    """
    for loop, copy, other in others:
        if not loop.nested:
            loop.copy = copy
            loop.other = other + duration
