"""What torch.profiler saw of a loop: when the compute stream was idle, copies, runtime calls."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

Span = tuple[float, float]

_ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")


class Trace:
    """The part of a Chrome trace that matters here; times in µs.

    The compute stream is the one that the spinning kernel runs on.

    Attributes:
        windows: Where each `next` of the loop began and ended on the host.
        busy: When the compute stream worked, in order, without overlap.
        spin_us: How long the spinning kernel took, median.
        copy_us: How long a copy to the device took, median; 0 if there was none.
        calls: How often each function of the CUDA runtime was called from the first `next` on.
    """

    def __init__(self, trace: dict[str, Any], steps: int) -> None:
        events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
        self.windows = sorted(
            _span(event)
            for event in events
            if event.get("cat") == "user_annotation" and event["name"] == "next"
        )
        assert len(self.windows) == steps, f"{len(self.windows)} of {steps} steps in the trace"
        device = [event for event in events if event.get("cat") in _ON_DEVICE]
        streams = {event["args"]["stream"] for event in device if "spin" in event["name"]}
        assert len(streams) == 1, f"the spinning kernel ran on streams {sorted(streams)}"
        self.busy = merged(_span(event) for event in device if event["args"]["stream"] in streams)
        begin, end = self.windows[0][0], self.windows[-1][1]
        self.spin_us = median(event["dur"] for event in device if "spin" in event["name"])
        copies = [event["dur"] for event in device if "HtoD" in event["name"]]
        self.copy_us = median(copies) if copies else 0.0
        self.calls = Counter(
            event["name"]
            for event in events
            if event.get("cat") == "cuda_runtime" and begin <= event["ts"] <= end
        )


def windows_idle(trace: Trace) -> list[float]:
    """Return for each `next` how long the compute stream was idle inside it, µs."""
    return [
        (end - begin)
        - sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in trace.busy)
        for begin, end in trace.windows
    ]


def merged(spans: Any) -> list[Span]:
    """Return spans in order, with those that touch or overlap made one."""
    found: list[Span] = []
    for start, stop in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return found


def _span(event: dict[str, Any]) -> Span:
    return event["ts"], event["ts"] + event["dur"]
