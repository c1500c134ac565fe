"""The device's own clock: when the device had nothing to do because of the loader.

The training thread only records timing events on the stream it uses. They come from a bounded pool
and are read later by the writer thread, once `query()` says that they are done; nothing here ever
synchronizes. Event times are float32 milliseconds, so each is read as a short distance from an
anchor, an event already done when the others were recorded: precise after hours, and never negative
when the host runs far ahead of the device.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

# Timing events in use at once; a step needs two and two more per copy.
POOL_LIMIT = 8192

# How long the writer waits for the capture of a graph to end, while it reads a step that is done.
_CAPTURE_SECONDS = 1


class Mark:
    """A timing event that was recorded; gives the event back to its pool when nobody needs it.

    Attributes:
        device: Index of the device.
        stream: Identity of the stream on that device.
        event: What the clock made.
    """

    __slots__ = ("_pool", "device", "event", "stream")

    def __init__(self, device: int, stream: int, event: Any, pool: list[Any]) -> None:
        self.device, self.stream, self.event, self._pool = device, stream, event, pool

    @property
    def place(self) -> tuple[int, int]:
        """Device and stream."""
        return self.device, self.stream

    def __del__(self) -> None:
        self._pool.append(self.event)


class DeviceClock(Protocol):
    """A device that can tell when it reached a point in its work.

    Implemented by `TorchClock` for real devices and by a scripted one in the tests; where there
    is none, the loop has None in its place and only host times are recorded.
    """

    def mark(self) -> Mark | None:
        """Record an event on the current stream; None when there is none to be had.

        There is none during the capture of a CUDA graph, or while the pool is empty.
        """

    def done(self, mark: Mark) -> bool:
        """Tell whether the device has reached a mark, without waiting for it."""

    def elapsed_ms(self, since: Mark, until: Mark) -> float:
        """Return the device time between two marks that are done."""


@dataclass(slots=True)
class StepMarks:
    """The marks of one step: before `next`, after it, before the following one, and its copies."""

    clock: DeviceClock
    asked: Mark | None
    got: Mark | None
    copies: list[tuple[Mark, Mark]] = field(default_factory=list)
    earlier: list[tuple[Mark, Mark]] = field(default_factory=list)
    following: Mark | None = None

    def pending(self) -> bool:
        """Tell whether the device still has to reach one of the marks."""
        if self.asked is None or self.got is None or self.following is None:
            return False
        done = self.clock.done
        return not (done(self.following) and all(done(end) for _, end in self.copies))

    def times(self, anchor: Mark | None) -> tuple[int, int, int, int] | None:
        """Return the device times of the step, see `device_times`; None if they are not known.

        They are not when a mark is missing, when the loop went from one stream to another, or when
        the device does not answer.

        Args:
            anchor: A mark that was done when this step's were recorded; None to measure from the
                step's own beginning.
        """
        asked, got, following = self.asked, self.got, self.following
        if asked is None or got is None or following is None:
            return None
        if not asked.place == got.place == following.place:
            return None  # marks on different streams say nothing of the time between them
        if anchor is None or anchor.device != asked.device:
            anchor = asked

        def at(mark: Mark) -> int:
            return round(self.clock.elapsed_ms(anchor, mark) * 1e6)

        def spans(copies: list[tuple[Mark, Mark]]) -> list[tuple[int, int, bool]]:
            return [
                (at(begin), at(end), begin.stream == asked.stream)
                for begin, end in copies
                if begin.device == end.device == asked.device
            ]

        try:
            return device_times(
                at(asked), at(got), at(following), spans(self.copies), spans(self.earlier)
            )
        except RuntimeError:  # as every call into a device that is in an error state
            return None


def device_times(
    asked: int,
    got: int,
    following: int,
    copies: Sequence[tuple[int, int, bool]],
    earlier: Sequence[tuple[int, int, bool]] = (),
) -> tuple[int, int, int, int]:
    """Split a step as the compute stream saw it.

    Between the marks around `next` the stream had nothing to do: while a copy ran it was waiting
    for the copy, the rest is exposed wait. After that a copy on the compute stream itself holds
    everything back; one on another stream runs beside the compute and is hidden.

    Args:
        asked: Device time of the mark before `next`, ns.
        got: Device time of the mark after it.
        following: Device time of the mark before the following `next`.
        copies: The step's copies: begin, end, and whether on the compute stream.
        earlier: Copies of the step before, which this step may still have to wait for.

    Returns:
        Exposed wait, copies' duration, exposed copy and compute, ns. Exposed wait, exposed copy
        and compute add up to `following - asked`.
    """
    everywhere = [(begin, end) for begin, end, _ in (*earlier, *copies)]
    on_compute = [(begin, end) for begin, end, same in copies if same]
    in_next = _covered(everywhere, asked, got)
    after = _covered(on_compute, got, following)
    duration = sum(end - begin for begin, end, _ in copies)
    return got - asked - in_next, duration, in_next + after, following - got - after


def _covered(spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """Return how much of [begin, end] the spans cover together."""
    covered, reached = 0, begin
    for start, stop in sorted(spans):
        start, stop = max(start, reached), min(stop, end)
        if stop > start:
            covered += stop - start
            reached = stop
    return covered


class TorchClock:
    """`torch.Event` on whatever `torch.accelerator` offers.

    The training thread calls `mark`; only the writer thread may call the rest, which changes the
    current device of the thread that asks.

    Args:
        torch: The module, imported by the user's program.
        kind: Device type, such as cuda.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self._torch, self._kind = torch, kind
        self._current_stream = torch.accelerator.current_stream
        self._module = torch.get_device_module(kind)
        self._capturing = getattr(self._module, "is_current_stream_capturing", lambda: False)
        self._pools: dict[int, list[Any]] = {}
        self._made = 0
        self._captures: set[int] = set()
        self._calm = threading.Condition()  # held while events are read, see `guard_captures`

    def mark(self) -> Mark | None:
        """See `DeviceClock.mark`."""
        try:
            if self._capturing():
                return None
            stream = self._current_stream()
            device = stream.device_index
            pool = self._pools.setdefault(device, [])
            if pool:
                event = pool.pop()
            elif self._made < POOL_LIMIT:
                self._made += 1
                event = self._torch.Event(self._kind, enable_timing=True)
            else:
                return None
            event.record(stream)
            return Mark(device, stream.stream_id, event, pool)
        except Exception:  # a device in an error state is the training's to report, not ours
            return None

    def done(self, mark: Mark) -> bool:
        """See `DeviceClock.done`."""
        with self._calm:
            if self._captures:
                return False
            try:
                self._turn_to(mark)
                return bool(mark.event.query())
            except RuntimeError:  # the device is in an error state: there is nothing to wait for
                return True

    def elapsed_ms(self, since: Mark, until: Mark) -> float:
        """See `DeviceClock.elapsed_ms`."""
        with self._calm:
            if not self._calm.wait_for(lambda: not self._captures, _CAPTURE_SECONDS):
                raise RuntimeError("a graph is being captured")
            self._turn_to(since)
            return float(since.event.elapsed_time(until.event))

    def _turn_to(self, mark: Mark) -> None:
        # A thread begins on device 0, where asking would make a context of some 500 MB, also when
        # the event is of another device.
        self._module.set_device(mark.device)

    def guard_captures(self, graph: Any) -> None:
        """Ask for no event while a graph of this class is being captured.

        In its default mode a capture becomes invalid when another thread of the process queries an
        event. So a capture waits for the question under way, and no other is put until it ends.

        Args:
            graph: `torch.cuda.CUDAGraph`, or a class with the same `capture_begin` and
                `capture_end`.
        """
        begin, end = graph.capture_begin, graph.capture_end

        @wraps(begin)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            with self._calm:
                self._captures.add(id(graph))
            try:
                return begin(graph, *args, **kwargs)
            except BaseException:
                self._resume(graph)
                raise

        @wraps(end)
        def capture_end(graph: Any) -> Any:
            try:
                return end(graph)
            finally:
                self._resume(graph)

        graph.capture_begin, graph.capture_end = capture_begin, capture_end

    def _resume(self, graph: Any) -> None:
        with self._calm:
            self._captures.discard(id(graph))
            self._calm.notify_all()


# Which of these there are depends on the version of torch.
_GRAPHS = (("cuda", "CUDAGraph"), ("xpu", "XPUGraph"), ("accelerator", "Graph"))

_clock: TorchClock | None = None


def open_clock() -> DeviceClock | None:
    """Return the clock of the device that the program uses; None while it uses none.

    A device that has not been initialized is left alone: asking it would create a context.
    """
    global _clock
    torch = sys.modules.get("torch")
    if _clock is not None or torch is None or not hasattr(torch, "accelerator"):
        return _clock
    device = torch.accelerator.current_accelerator()
    if device is None:
        return None
    module = torch.get_device_module(device.type)
    if getattr(module, "is_initialized", lambda: False)():
        clock = TorchClock(torch, device.type)
        for owner, name in _GRAPHS:
            graph = getattr(getattr(torch, owner, None), name, None)
            if graph is not None:
                clock.guard_captures(graph)
        _clock = clock
    return _clock


def forget_clock() -> None:
    """Start afresh in a forked child, where the parent's device cannot be used."""
    global _clock
    _clock = None
