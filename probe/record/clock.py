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
from typing import Any, Protocol

# Timing events in use at once; a step needs two and two more per copy.
POOL_LIMIT = 8192


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
        """Return the device times of the step, see `device_times`; None if a mark is missing.

        Args:
            anchor: A mark that was done when this step's were recorded; None to measure from the
                step's own beginning.
        """
        asked, got, following = self.asked, self.got, self.following
        if asked is None or got is None or following is None:
            return None
        if not asked.device == got.device == following.device:
            return None
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

        return device_times(
            at(asked), at(got), at(following), spans(self.copies), spans(self.earlier)
        )


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

    Args:
        torch: The module, imported by the user's program.
        kind: Device type, such as cuda.
    """

    def __init__(self, torch: Any, kind: str) -> None:
        self._torch, self._kind = torch, kind
        self._accelerator = torch.accelerator
        self._capturing = getattr(
            torch.get_device_module(kind), "is_current_stream_capturing", lambda: False
        )
        self._pools: dict[int, list[Any]] = {}
        self._made = 0
        self.lock = threading.Lock()  # held while events are read, see `_guard_captures`

    def mark(self) -> Mark | None:
        """See `DeviceClock.mark`."""
        try:
            if self._capturing():
                return None
            device = self._accelerator.current_device_index()
            stream = self._accelerator.current_stream(device)
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
        with self.lock:
            return bool(mark.event.query())

    def elapsed_ms(self, since: Mark, until: Mark) -> float:
        """See `DeviceClock.elapsed_ms`."""
        with self.lock:
            return float(since.event.elapsed_time(until.event))


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
        _clock = TorchClock(torch, device.type)
        if device.type == "cuda":
            _guard_captures(torch, _clock)
    return _clock


def forget_clock() -> None:
    """Start afresh in a forked child, where the parent's device cannot be used."""
    global _clock
    _clock = None


def _guard_captures(torch: Any, clock: TorchClock) -> None:
    """Keep event queries of the writer thread out of the capture of a CUDA graph.

    In the default capture mode CUDA invalidates the capture when another thread of the process
    queries an event, so a capture holds the clock's lock from its beginning to its end.
    """
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end

    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        clock.lock.acquire()
        try:
            return begin(self, *args, **kwargs)
        except BaseException:
            clock.lock.release()
            raise

    def capture_end(self: Any) -> Any:
        try:
            return end(self)
        finally:
            if clock.lock.locked():
                clock.lock.release()

    graph.capture_begin, graph.capture_end = capture_begin, capture_end
