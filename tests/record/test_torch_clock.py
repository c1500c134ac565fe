"""How the torch clock asks a device, with a stand-in for torch that keeps a list of what was asked.

The stand-in refuses what CUDA refuses: a query while a graph is being captured makes the capture
invalid. `tests/gpu` runs the same clock on a real device.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from probe.record import clock as module
from probe.record.clock import Mark, StepMarks, TorchClock, open_clock


class Event:
    def __init__(self, torch: Torch) -> None:
        self.torch = torch

    def record(self, stream: Any) -> None:
        self.torch.asked.append("record")

    def query(self) -> bool:
        self.torch.ask("query")
        return True

    def elapsed_time(self, other: Event) -> float:
        self.torch.ask("elapsed")
        return 1.0


class Torch:
    """What the clock uses of torch."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.invalid = False
        self.broken = False
        self.refuses = False
        self.open_captures = 0
        self.stream = SimpleNamespace(device_index=1, stream_id=7)
        torch = self

        class CUDAGraph:
            def capture_begin(self, pool: Any = None) -> None:
                if torch.refuses:
                    raise RuntimeError("capture refused")
                torch.open_captures += 1

            def capture_end(self) -> None:
                torch.open_captures -= 1

        self.cuda = SimpleNamespace(
            CUDAGraph=CUDAGraph,
            is_current_stream_capturing=lambda: torch.open_captures > 0,
            is_initialized=lambda: True,
            set_device=lambda index: torch.asked.append(f"set_device {index}"),
        )
        self.accelerator = SimpleNamespace(
            current_stream=lambda: torch.stream,
            current_accelerator=lambda: SimpleNamespace(type="cuda"),
        )

    def get_device_module(self, kind: str) -> Any:
        return getattr(self, kind)

    def Event(self, kind: str, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)

    def ask(self, what: str) -> None:
        self.asked.append(what)
        self.invalid = self.invalid or self.open_captures > 0
        if self.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Torch]:
    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "_clock", None)
    yield torch
    assert not torch.invalid


@pytest.fixture
def clock(torch: Torch) -> TorchClock:
    clock = open_clock()
    assert isinstance(clock, TorchClock)
    return clock


def mark(clock: TorchClock) -> Mark:
    found = clock.mark()
    assert found is not None
    return found


def test_a_device_that_is_not_initialized_is_left_alone(torch: Torch) -> None:
    torch.cuda.is_initialized = lambda: False
    assert open_clock() is None


def test_the_thread_that_asks_turns_to_the_device_of_the_event(
    torch: Torch, clock: TorchClock
) -> None:
    begin = mark(clock)
    assert (begin.device, begin.stream) == (1, 7)
    clock.done(begin)
    clock.elapsed_ms(begin, begin)
    assert torch.asked == ["record", "set_device 1", "query", "set_device 1", "elapsed"]


def test_no_event_is_asked_for_while_a_graph_is_captured(torch: Torch, clock: TorchClock) -> None:
    begin = mark(clock)
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=1)
    assert clock.mark() is None
    assert not clock.done(begin)
    reader = threading.Thread(target=clock.elapsed_ms, args=(begin, begin))
    reader.start()
    reader.join(0.05)
    assert reader.is_alive()  # it was about to read a step that is done
    assert "elapsed" not in torch.asked
    graph.capture_end()
    reader.join()
    assert "elapsed" in torch.asked
    assert clock.done(begin)


def test_a_capture_inside_another_does_not_hang(torch: Torch, clock: TorchClock) -> None:
    outer, inner = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    begin = mark(clock)
    outer.capture_begin()
    inner.capture_begin()
    inner.capture_end()
    assert not clock.done(begin)
    outer.capture_end()
    assert clock.done(begin)


def test_a_capture_that_was_refused_is_over(torch: Torch, clock: TorchClock) -> None:
    torch.refuses = True
    with pytest.raises(RuntimeError, match="capture refused"):
        torch.cuda.CUDAGraph().capture_begin()
    assert clock.done(mark(clock))


def test_a_capture_that_never_ends_leaves_the_step_unknown(
    torch: Torch, clock: TorchClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CAPTURE_SECONDS", 0.01)
    marks = StepMarks(clock, mark(clock), mark(clock), following=mark(clock))
    assert marks.times(None) is not None
    torch.cuda.CUDAGraph().capture_begin()
    assert marks.times(None) is None


def test_steps_of_a_device_in_an_error_state_are_written_without_its_times(
    torch: Torch, clock: TorchClock
) -> None:
    marks = StepMarks(clock, mark(clock), mark(clock), following=mark(clock))
    torch.broken = True
    assert not marks.pending()
    assert marks.times(None) is None


def test_a_loop_that_goes_to_another_stream_has_no_device_times(
    torch: Torch, clock: TorchClock
) -> None:
    asked = mark(clock)
    torch.stream = SimpleNamespace(device_index=1, stream_id=8)
    marks = StepMarks(clock, asked, mark(clock), following=mark(clock))
    assert marks.times(None) is None
