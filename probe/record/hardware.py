"""Samples of the GPUs that the run uses and of the machine, five times a second.

NVML utilisation is the share of time in which at least one kernel ran, refreshed by the driver
every 1/6 to 1 s: coarse evidence beside the step times, never part of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import Any

from probe.record.buffer import LIMIT
from probe.record.cores import allowed_cores, usable_cores
from probe.record.gpus import Gpus, open_nvml
from probe.record.warnings import attempt

PERIOD_SECONDS = 0.2

# Finding this process's children reads the whole process table, over 1 ms: once a second is enough.
_TREE_PERIOD_NS = 1_000_000_000


class Sampler:
    """A thread that samples until it is stopped; its rows are taken by the writer.

    Args:
        origin_ns: The run's start on the host clock.
        gpus: Opens the source of GPU samples, or gives None when there is none.
    """

    def __init__(self, origin_ns: int, gpus: Callable[[], Gpus | None] | None = None) -> None:
        self._origin_ns = origin_ns
        self._open_gpus = gpus or open_nvml
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="probe-sampler", daemon=True)
        self.gpu_rows: list[tuple[Any, ...]] = []
        self.host_rows: list[tuple[Any, ...]] = []
        self.driver: str | None = None
        self.cpu_ns = 0

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and wait a moment for a sample in the making."""
        self._stop.set()
        self._thread.join(2 * PERIOD_SECONDS)

    def _run(self) -> None:
        host = attempt(Host)
        gpus = attempt(self._open_gpus)
        self.driver = gpus.driver if gpus else None
        while not self._stop.wait(PERIOD_SECONDS):
            time_ns = now() - self._origin_ns
            if host is not None and len(self.host_rows) < LIMIT:
                self.host_rows.append((time_ns, *host.sample()))
            if gpus is not None and len(self.gpu_rows) < LIMIT:
                for gpu, *values in attempt(gpus.sample) or ():
                    self.gpu_rows.append((gpu, time_ns, *values))
            self.cpu_ns = thread_time_ns()


def preload() -> None:
    """Import what sampling needs, before the first step is timed.

    An import holds the interpreter for tens of milliseconds; in the sampling thread that would be
    taken from the loop's first steps.
    """
    for name in ("psutil", "pynvml"):
        attempt(partial(import_module, name))


class Host:
    """The machine as psutil sees it; shares are of the cores that this process may use."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        self._process = psutil.Process()
        self._cores = allowed_cores()
        self._usable = usable_cores()
        self._times = psutil.cpu_times(percpu=True)
        self._tree = (now(), self._tree_seconds())
        self._disk = self._read_bytes()

    def sample(self) -> tuple[Any, ...]:
        """Return cpu, tree_cpu, iowait, disk_read and memory_used since the last call."""
        cpu, iowait = attempt(self._cpu) or (None, None)
        return (
            cpu,
            attempt(self._tree_cpu),
            iowait,
            attempt(self._disk_read),
            attempt(lambda: int(self._psutil.virtual_memory().used)),
        )

    def _cpu(self) -> tuple[float | None, float | None]:
        before, self._times = self._times, self._psutil.cpu_times(percpu=True)
        total = idle = iowait = 0.0
        for core in self._cores:
            if core >= len(before) or core >= len(self._times):
                continue
            old, new = before[core], self._times[core]
            # Guest time is part of user time already.
            total += sum(new[:8]) - sum(old[:8])
            idle += new.idle - old.idle
            iowait += getattr(new, "iowait", 0.0) - getattr(old, "iowait", 0.0)
        if total <= 0:
            return None, None
        waits = hasattr(self._times[0], "iowait")
        return _share(1 - (idle + iowait) / total), _share(iowait / total) if waits else None

    def _tree_cpu(self) -> float | None:
        before, seconds = self._tree
        if now() - before < _TREE_PERIOD_NS:
            return None
        self._tree = (at, busy) = (now(), self._tree_seconds())
        return _share((busy - seconds) / ((at - before) / 1e9 * self._usable))

    def _tree_seconds(self) -> float:
        """Return the CPU time of this process and its children, so far.

        What a child has spent stays in the sum when it ends: whoever waited for it inherits that.
        """
        found = 0.0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                times = process.cpu_times()
                found += times.user + times.system
                found += getattr(times, "children_user", 0.0)
                found += getattr(times, "children_system", 0.0)
            except self._psutil.Error:
                continue
        return found

    def _disk_read(self) -> int | None:
        before, self._disk = self._disk, self._read_bytes()
        if before is None or self._disk is None or self._disk[1] < before[1]:
            return None
        return int((self._disk[1] - before[1]) * 1e9 / max(1, self._disk[0] - before[0]))

    def _read_bytes(self) -> tuple[int, int] | None:
        counters = self._psutil.disk_io_counters()
        return None if counters is None else (now(), counters.read_bytes)


def _share(value: float) -> float:
    return min(1.0, max(0.0, value))
