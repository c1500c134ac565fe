"""How much of the possible overlap the shipped prefetchers reach, and the bare libraries.

    python tests/benchmarks/prefetchers.py

The storage scenario: reading a batch waits and computes nothing. Training on it either waits too,
as for a device, or computes on the host. What is possible is the smaller of two rates, of reading
without training and of training without reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import page
import torch
from prefetch_generator import BackgroundGenerator
from torch.utils.data import DataLoader, Dataset

from probe.prefetch import background, to_device

ROUNDS = 9
BATCHES = 20
TRAIN_MS = 8

Step = Callable[[Any], None]


class Storage(Dataset[torch.Tensor]):
    """Batches that take a while to read."""

    def __init__(self, count: int, ms: float) -> None:
        self.count, self.ms = count, ms

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.ms / 1000)
        return torch.zeros(16, 64)


class Bare:
    """`BackgroundGenerator` as its own documentation has it, begun again at each epoch."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        return iter(BackgroundGenerator(iter(self.loader)))


def _loader(ms: float, workers: int = 0) -> DataLoader[torch.Tensor]:
    # Two workers deliver twice as fast, so each takes twice as long here.
    return DataLoader(Storage(BATCHES, ms * max(workers, 1)), batch_size=None, num_workers=workers)


STRATEGIES: dict[str, Callable[[float], Iterable[Any]]] = {
    "plain DataLoader": _loader,
    "prefetch_generator.BackgroundGenerator": lambda ms: Bare(_loader(ms)),
    "probe.prefetch.background": lambda ms: background(_loader(ms)),
    "DataLoader, 2 workers": lambda ms: _loader(ms, 2),
    "to_device(DataLoader, 2 workers) on the CPU": lambda ms: to_device(_loader(ms, 2), "cpu"),
    "to_device(background) on the CPU": lambda ms: to_device(background(_loader(ms)), "cpu"),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Batches per second of one round."""

    read: float
    train: float
    both: float

    @property
    def overlap(self) -> float:
        """What was reached of what is possible."""
        return self.both / min(self.read, self.train)


def rate(loader: Iterable[Any], step: Step) -> float:
    """Return batches per second from the first batch to the last: start and end do not count."""
    count, began, came = 0, 0.0, 0.0
    for batch in loader:
        came = perf_counter()
        began = began or came
        count += 1
        step(batch)
    return (count - 1) / (came - began)


def measure(strategy: Callable[[float], Iterable[Any]], read_ms: float, step: Step) -> Rates:
    """Measure reading, training and both, one after the other."""
    batch = torch.zeros(16, 64)
    read = rate(strategy(read_ms), lambda _: None)
    before = rate([batch] * BATCHES, step)
    both = rate(strategy(read_ms), step)
    # Before and after: the speed of a machine that does other things drifts.
    return Rates(read, (before + rate([batch] * BATCHES, step)) / 2, both)


def on_a_device(batch: Any) -> None:
    """Wait for a device that trains."""
    time.sleep(TRAIN_MS / 1000)


def on_the_host(ms: float) -> Step:
    """Return a step of matrix products that takes about so long."""
    weights = torch.randn(384, 384)

    def step(batch: Any) -> None:
        for _ in range(repeats):
            weights @ weights

    repeats = 1
    while (took := _shortest(step)) < ms / 1000:
        repeats = max(repeats + 1, round(repeats * min(ms / 1000 / took, 4)))
    return step


def _shortest(step: Step) -> float:
    times = []
    for _ in range(7):
        began = perf_counter()
        step(None)
        times.append(perf_counter() - began)
    return min(times)


def main() -> None:
    torch.set_num_threads(1)
    scenarios: dict[str, tuple[float, Step]] = {
        "device, reading 0.8 of training": (0.8 * TRAIN_MS, on_a_device),
        "device, reading as long": (TRAIN_MS, on_a_device),
        "host, reading as long": (TRAIN_MS, on_the_host(TRAIN_MS)),
    }
    rows = {name: [name] for name in STRATEGIES}
    for read_ms, step in scenarios.values():
        found: dict[str, list[Rates]] = {name: [] for name in STRATEGIES}
        for _ in range(ROUNDS):
            for name, strategy in STRATEGIES.items():
                found[name].append(measure(strategy, read_ms, step))
        for name, rounds in found.items():
            overlaps = [rates.overlap for rates in rounds]
            rows[name].append(f"{median(overlaps):.3f} ({min(overlaps):.3f}–{max(overlaps):.3f})")
    text = f"{page.measured_on()}\n\n{page.table(['', *scenarios], list(rows.values()))}"
    page.write("prefetchers", text)
    print(text)


if __name__ == "__main__":
    main()
