"""What `check_device.py` trains with: loaders that wait, prefetchers, a kernel of known length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from probe.prefetch import background, to_device

BATCHES = 95
SMALL = 1 << 20  # float32 values in a batch of 4 MB


class Host(Dataset[torch.Tensor]):
    """Batches that the host waits for."""

    def __init__(self, wait_ms: float, size: int = SMALL, *, pinned: bool = False) -> None:
        self.wait_ms, self.pinned = wait_ms, pinned
        self.batch = torch.ones(size, pin_memory=pinned)

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.wait_ms / 1000)
        return self.batch


class Prefetcher:
    """The side-stream prefetcher with `next()` that came with apex and was copied everywhere."""

    def __init__(self, loader: Iterable[torch.Tensor]) -> None:
        self.batches = iter(loader)
        self.stream = torch.cuda.Stream()
        self._preload()

    def next(self) -> torch.Tensor | None:
        compute = torch.cuda.current_stream()
        compute.wait_stream(self.stream)
        batch = self.upcoming
        if batch is not None:
            batch.record_stream(compute)
        self._preload()
        return batch

    def _preload(self) -> None:
        batch = next(self.batches, None)
        with torch.cuda.stream(self.stream):
            self.upcoming = None if batch is None else batch.to("cuda", non_blocking=True)


def _plain(wait_ms: float) -> Any:
    return DataLoader(Host(wait_ms), batch_size=None)


STRATEGIES: dict[str, Callable[[float], Any]] = {
    "plain": _plain,
    "background": lambda ms: background(_plain(ms)),
    "2 workers": lambda ms: DataLoader(Host(2 * ms), batch_size=None, num_workers=2),
    "2 workers, pinned": lambda ms: DataLoader(
        Host(2 * ms), batch_size=None, num_workers=2, pin_memory=True
    ),
    "to_device": lambda ms: to_device(DataLoader(Host(ms, pinned=True), batch_size=None), "cuda"),
    "prefetcher with next()": lambda ms: Prefetcher(
        DataLoader(Host(ms, pinned=True), batch_size=None)
    ),
}
COPIES_INSIDE = ("to_device", "prefetcher with next()")


class Spin:
    """A kernel that keeps the device busy for a known time."""

    def __init__(self) -> None:
        cycles = 50_000_000
        times = []
        for _ in range(4):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            torch.cuda._sleep(cycles)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        self._cycles_per_ms = cycles / min(times)

    def __call__(self, ms: float) -> None:
        torch.cuda._sleep(int(ms * self._cycles_per_ms))
