"""Checks on a real CUDA device what the tests can only script: under five minutes, no pytest.

    python tests/gpu/check_device.py

Needs torch with CUDA and, beside this checkout, the wheels prefetch_generator, numpy, psutil,
nvidia-ml-py and sqlite-utils. Prints a table, writes `device.md` and `device.json` into the folder
that the environment variable OUT names, else `artifacts`, and exits with 1 if a check fails.

Each strategy trains with injected host waits and kernels of known length. What probe calls exposed
wait is held against the time in which torch.profiler sees the compute stream idle inside `next`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import torch
from device_report import Report
from device_strategies import BATCHES, COPIES_INSIDE, STRATEGIES, Host, Spin
from device_trace import Trace, windows_idle
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader

import probe
from probe.prefetch import to_device
from probe.record import writer
from probe.store.queries import Steps, Store

KERNEL_MS = 5.0
LARGE = 1 << 24  # float32 values in a batch of 64 MB
WARM_UP, PROFILED = 60, 30
assert WARM_UP + PROFILED < BATCHES

# Probe's figure and the profiler's may differ by so much of the step, or by so many µs.
_SHARE, _US = 0.03, 300.0
# How much later than it could the host may launch the copy and the kernel of a step, together.
_LAUNCH_US = 300.0
# What two events a step and their bookkeeping may cost the training thread.
_COST_US = 60.0


class Profiled:
    """A loop whose last steps ran under torch.profiler, with its recording if it was watched."""

    def __init__(
        self,
        loader: Any,
        spin: Spin,
        *,
        synchronous: bool,
        watched: bool = True,
        kernel_ms: float = KERNEL_MS,
        non_blocking: bool = False,
    ) -> None:
        with tempfile.TemporaryDirectory() as folder:
            db, path = Path(folder) / "device.db", Path(folder) / "trace.json"
            with probe.run("device", db=db):
                batches = fetcher(probe.watch(loader) if watched else loader)
                tracer = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
                for step in range(WARM_UP + PROFILED):
                    if step == WARM_UP:
                        torch.cuda.synchronize()
                        time.sleep(3 * writer.FLUSH_SECONDS)  # the device clock is found at a flush
                        tracer.start()
                    with record_function("next"):
                        batch = batches()
                    batch.to("cuda", non_blocking=non_blocking)
                    spin(kernel_ms)
                    if synchronous:
                        torch.cuda.current_stream().synchronize()
                # One more, so that the last profiled step has an end.
                batches()
                torch.cuda.synchronize()
                tracer.stop()
                del batches, batch
            tracer.export_chrome_trace(str(path))
            self.trace = Trace(json.loads(path.read_text()), steps=PROFILED)
            self.steps = _steps(db) if watched else None

    def recorded(self, *columns: str) -> np.ndarray:
        """Return the sum of some columns in the profiled steps, µs."""
        assert self.steps is not None
        found = slice(WARM_UP, WARM_UP + PROFILED)
        return sum(getattr(self.steps, column)[found] for column in columns) / 1e3


def fetcher(loader: Any) -> Callable[[], torch.Tensor]:
    """Return what gives the next batch, by `next(iterator)` or by `.next()`."""
    return loader.next if hasattr(loader, "next") else iter(loader).__next__


def _steps(db: Path) -> Steps:
    with Store(db) as store:
        (run,) = store.runs()
        (loader,) = (found for found in store.loaders(run.id) if found.role == "consumer")
        return store.steps(run.id, loader.id)


def check_strategies(report: Report, spin: Spin) -> None:
    """Exposed wait against the profiler, for every strategy, fed well and badly."""
    for name, make in STRATEGIES.items():
        for wait_ms, synchronous in ((3.0, True), (3.0, False), (9.0, False)):
            run = Profiled(make(wait_ms), spin, synchronous=synchronous)
            true = np.array(windows_idle(run.trace))
            columns = ["exposed_wait_ns"]
            if name in COPIES_INSIDE:  # of the idle time a part went into waiting for the copy
                columns.append("exposed_copy_ns")
            found = run.recorded(*columns)
            step_us = float(run.recorded("step_ns").mean())
            compute, kernel = float(np.median(run.recorded("device_compute_ns"))), run.trace.spin_us
            error = max(abs(float((found - true).mean())), float(np.median(np.abs(found - true))))
            mode = "host waits for the device" if synchronous else "host runs ahead"
            report.add(
                f"{name}, {wait_ms:.0f} ms to load, {mode}",
                error <= max(_SHARE * step_us, _US)
                and 0.98 * kernel <= compute <= kernel + _LAUNCH_US,
                {
                    "step ms": step_us / 1e3,
                    "host wait ms": float(run.recorded("wait_ns").mean()) / 1e3,
                    "exposed ms": float(found.mean()) / 1e3,
                    "idle by profiler ms": float(true.mean()) / 1e3,
                    "error us": error,
                    "compute ms": compute / 1e3,
                    "kernel by profiler ms": kernel / 1e3,
                },
            )


def check_copies(report: Report, spin: Spin) -> None:
    """A copy on a side stream is hidden behind the compute; one on the compute stream is not."""

    def loader() -> Any:
        return DataLoader(Host(0, LARGE, pinned=True), batch_size=None)

    for name, made, hidden in (
        ("copy of 64 MB on a side stream", to_device(loader(), "cuda"), True),
        ("copy of 64 MB on the compute stream", loader(), False),
    ):
        run = Profiled(made, spin, synchronous=False, kernel_ms=12, non_blocking=True)
        true = run.trace.copy_us
        copy = float(np.median(run.recorded("device_copy_ns")))
        exposed = float(np.median(run.recorded("exposed_copy_ns")))
        near = abs(copy / true - 1) <= 0.1 and true > 500
        right = exposed <= max(0.05 * copy, 50) if hidden else abs(exposed / copy - 1) <= 0.05
        report.add(
            name,
            near and right,
            {"copy us": copy, "copy by profiler us": true, "exposed us": exposed},
        )


def check_synchronize(report: Report, spin: Spin) -> None:
    """Watching adds no call that waits for the device, and two events a step."""
    counts = [
        Profiled(
            to_device(DataLoader(Host(1, pinned=True), batch_size=None), "cuda"),
            spin,
            synchronous=False,
            watched=watched,
        ).trace.calls
        for watched in (False, True)
    ]
    added = {name: counts[1][name] - counts[0][name] for name in {*counts[0], *counts[1]}}
    waits = {name: count for name, count in sorted(added.items()) if "Synchronize" in name}
    report.add(
        "no synchronize added",
        not any(waits.values()),
        {f"{name} added": count for name, count in waits.items()}
        | {"events added a step": added.get("cudaEventRecord", 0) / PROFILED},
    )


def check_graph(report: Report, spin: Spin) -> None:
    """A graph captured inside a watched loop is right, and only the steps around it lack times."""
    at, inside, total = 60, 90, 130
    x = torch.ones(1024, device="cuda")
    _ = x * 2, x * 3  # kernels are loaded at their first use, which a capture does not allow
    graph, other = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()

    def batches() -> Iterator[int]:
        for index in range(total):
            time.sleep(0.005)
            yield index

    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "graph.db"
        with probe.run("graph", db=db):
            loop = iter(probe.watch(batches()))
            for step in range(total - 1):
                next(loop)
                spin(2)
                if step == at:
                    with torch.cuda.graph(graph):
                        y = x * 2
                        time.sleep(1)  # the writer thread would query events meanwhile
                if step == inside:
                    with torch.cuda.graph(other):
                        z = x * 3
                        next(loop)
                if step > at:
                    graph.replay()
                if step > inside:
                    other.replay()
                torch.cuda.current_stream().synchronize()
            del loop
        steps = _steps(db)
    unknown = set(np.flatnonzero(np.isnan(steps.exposed_wait_ns)).tolist())
    found_at = min(set(range(total)) - unknown, default=total)
    allowed = {*range(found_at), at, inside, inside + 1, len(steps) - 1}
    report.add(
        "graph captured inside a watched loop",
        found_at < at - 10
        and unknown <= allowed
        and {inside, inside + 1} <= unknown
        and bool((y == 2).all() and (z == 3).all()),
        {"steps": len(steps), "without device times": len(unknown), "before the clock": found_at},
    )


def check_cost(report: Report, spin: Spin) -> None:
    """What watching costs a step on the training thread, with the device clock and without."""

    def step_us(kind: str) -> float:
        def endless() -> Iterator[int]:
            while True:
                yield 0

        clock = writer.open_clock
        if kind == "host clock only":
            writer.open_clock = lambda: None
        try:
            with tempfile.TemporaryDirectory() as folder, probe.run("c", db=Path(folder) / "c.db"):
                loop = iter(endless() if kind == "bare" else probe.watch(endless()))
                times = []
                until = time.perf_counter() + 1.2
                while (began := time.perf_counter()) < until:
                    next(loop)
                    spin(0.2)
                    torch.cuda.current_stream().synchronize()
                    times.append(time.perf_counter() - began)
                del loop
        finally:
            writer.open_clock = clock
        return median(times[len(times) // 2 :]) * 1e6  # the device clock was found by then

    kinds = ("bare", "host clock only", "device clock")
    rounds = [{kind: step_us(kind) for kind in kinds} for _ in range(5)]
    added = {
        kind: median(found[kind] - found["bare"] for found in rounds)
        for kind in kinds
        if kind != "bare"
    }
    report.add(
        "cost of watching a step",
        added["device clock"] <= _COST_US,
        {"step us": median(found["bare"] for found in rounds)}
        | {f"{kind}: added us": value for kind, value in added.items()},
    )


def main() -> int:
    if not torch.cuda.is_available():
        print("This check needs a CUDA device, and torch sees none.", file=sys.stderr)
        return 2
    writer.FLUSH_SECONDS = 0.1
    began = time.monotonic()
    report = Report(torch.cuda.get_device_name(), torch.__version__)
    spin = Spin()
    for check in (
        check_strategies,
        check_copies,
        check_synchronize,
        check_graph,
        check_cost,
    ):
        report.attempt(check, spin)
    report.write(Path(os.environ.get("OUT") or "artifacts"), time.monotonic() - began)
    return not report.ok


if __name__ == "__main__":
    sys.exit(main())
