"""Ways to arrange loaders, prefetchers, validation and other work around a training step.

Each is a function that runs one loop and tells `Truth` what it does. Those marked `field` are the
ones that other profilers were seen to get wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from prefetch_generator import BackgroundGenerator
from torch.utils.data import DataLoader, Dataset
from truth import Producer, Source, Truth, slow_copies

import probe
from probe.prefetch import background

STEPS = 80
BATCH = torch.zeros(4, 3)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One row of the truth table."""

    name: str
    run: Callable[[Truth], None]
    field: bool
    fast: bool


ARRANGEMENTS: list[Arrangement] = []


def arrangement(
    name: str, *, field: bool = False, fast: bool = False
) -> Callable[[Callable[[Truth], None]], Callable[[Truth], None]]:
    """Register an arrangement; `fast` ones are also run by the test suite."""

    def register(run: Callable[[Truth], None]) -> Callable[[Truth], None]:
        ARRANGEMENTS.append(Arrangement(name, run, field, fast))
        return run

    return register


class Slow(Dataset[torch.Tensor]):
    """Items that take a while, as from a disk."""

    def __init__(self, count: int, item_ms: float) -> None:
        self.count, self.item_ms = count, item_ms

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.item_ms / 1000)
        return torch.full((3,), float(index))


class DataLoaderX(DataLoader[torch.Tensor]):
    """The wrapper that the documentation of prefetch_generator recommends."""

    def __iter__(self) -> Any:
        return BackgroundGenerator(super().__iter__())


def slow_loader(steps: int = STEPS, batch_ms: float = 4, **settings: Any) -> Any:
    return DataLoader(Slow(4 * steps, batch_ms / 4), batch_size=4, **settings)


@arrangement("DataLoader, 0 workers", field=True)
def data_loader(truth: Truth) -> None:
    for _ in truth.drive(probe.watch(slow_loader()), "train"):
        truth.spend(8, train="compute")


@arrangement("DataLoader, 2 workers that are too slow")
def two_workers(truth: Truth) -> None:
    loader = slow_loader(batch_ms=24, num_workers=2)
    for _ in truth.drive(probe.watch(loader), "train"):
        truth.spend(8, train="compute")


@arrangement("plain generator", field=True, fast=True)
def generator(truth: Truth) -> None:
    for _ in probe.watch(iter(Source(truth, "train", STEPS, 3.5))):
        truth.spend(7, train="compute")


@arrangement("BackgroundGenerator over a DataLoader, stopped mid-epoch", field=True)
def background_generator(truth: Truth) -> None:
    watched = probe.watch(BackgroundGenerator(slow_loader(2 * STEPS)))
    for step, _ in enumerate(truth.drive(watched, "train")):
        truth.spend(10, train="compute")
        if step == STEPS:
            break


@arrangement("the same by a DataLoader subclass, stopped mid-epoch", field=True)
def background_subclass(truth: Truth) -> None:
    loader = DataLoaderX(Slow(8 * STEPS, 1), batch_size=4)
    for step, _ in enumerate(truth.drive(probe.watch(loader), "train")):
        truth.spend(10, train="compute")
        if step == STEPS:
            break


@arrangement("the same, the loader inside watched too: producer and consumer", fast=True)
def producer_and_consumer(truth: Truth) -> None:
    inside = probe.watch(Producer(truth, "producer", STEPS, 6), name="producer")
    for _ in truth.drive(probe.watch(background(inside)), "train"):
        truth.spend(4, train="compute")


@arrangement("prefetcher with .next(), copies inside", field=True, fast=True)
def next_prefetcher(truth: Truth) -> None:
    class Prefetcher:
        def __init__(self) -> None:
            self.left = STEPS
            self.upcoming: Any = BATCH

        def next(self) -> Any:
            batch, self.upcoming = self.upcoming, None
            if batch is not None:
                truth.begin("train")
            self.left -= 1
            if self.left > 0:
                truth.spend(3, train="wait")
                with probe.copy():
                    truth.spend(1, train="copy")
                self.upcoming = BATCH
            return batch

    prefetcher = probe.watch(Prefetcher())
    while (batch := prefetcher.next()) is not None:
        truth.spend(8, train="compute")
        del batch


@arrangement("validation loop between epochs", field=True)
def validation_between(truth: Truth) -> None:
    train = probe.watch(Source(truth, "train", STEPS // 4, 0.05))
    val = probe.watch(Source(truth, "val", 12, 4), name="val")
    for _ in range(4):
        for _ in train:
            truth.spend(16, train="compute")
        for _ in val:
            truth.spend(2, val="compute")


@arrangement("validation loop inside the epoch", field=True, fast=True)
def validation_inside(truth: Truth) -> None:
    val = probe.watch(Source(truth, "val", 5, 3), name="val")
    for step, _ in enumerate(probe.watch(Source(truth, "train", STEPS, 1))):
        truth.spend(5, train="compute")
        if step % 10 == 9:
            with truth.timed(train="other"):
                for _ in val:
                    truth.spend(2, val="compute")


@arrangement("2 workers, started again at every epoch", field=True)
def worker_restart(truth: Truth) -> None:
    loader = probe.watch(slow_loader(10, num_workers=2))
    for _ in range(16):
        for _ in truth.drive(loader, "train"):
            truth.spend(4, train="compute")


@arrangement("30 ms of other work between steps, no waiting", field=True)
def other_work(truth: Truth) -> None:
    for _ in probe.watch(Source(truth, "train", STEPS, 0.05)):
        truth.spend(5, train="compute")
        with probe.exclude("logging"):
            truth.spend(30, train="other")


@arrangement("one batch of all cannot be counted", field=True)
def uncountable(truth: Truth) -> None:
    def batches() -> Iterator[Any]:
        for step, batch in enumerate(Source(truth, "train", STEPS, 3.5)):
            yield object() if step == STEPS // 2 else batch

    for _ in probe.watch(batches()):
        truth.spend(7, train="compute")


@arrangement("one next fails and is tried again", field=True, fast=True)
def failed_next(truth: Truth) -> None:
    class Flaky:
        def __init__(self) -> None:
            self.batches = iter(Source(truth, "train", STEPS, 3.5))
            self.asked = 0

        def __iter__(self) -> Flaky:
            return self

        def __next__(self) -> Any:
            self.asked += 1
            if self.asked == STEPS // 2:
                truth.spend(3.5, train="wait")
                raise OSError("read error")
            return next(self.batches)

    batches = iter(probe.watch(Flaky()))
    while True:
        try:
            next(batches)
        except OSError:
            continue
        except StopIteration:
            break
        truth.spend(7, train="compute")


@arrangement("a generator around a watched loader, one thread")
def nested(truth: Truth) -> None:
    inside = probe.watch(Producer(truth, "producer", STEPS, 3, train="wait"), name="producer")

    def augmented() -> Iterator[Any]:
        batches = iter(inside)
        for _ in range(STEPS):
            truth.begin("train")
            batch = next(batches)
            truth.spend(1, train="wait")
            yield batch
        next(batches, None)

    for _ in probe.watch(augmented()):
        truth.spend(10, train="compute")


@arrangement("copies inside next")
def copies_inside(truth: Truth) -> None:
    def prefetcher() -> Iterator[Any]:
        for batch in Source(truth, "train", STEPS, 4):
            yield batch.to("meta")

    with slow_copies(truth, 1.5):
        for _ in probe.watch(prefetcher()):
            truth.spend(6, train="compute")


@arrangement("copies in the body, one tensor of two")
def copies_in_body(truth: Truth) -> None:
    with slow_copies(truth, 1.5):
        for batch in probe.watch(Source(truth, "train", STEPS, 1)):
            batch.to("meta")
            truth.spend(3, train="compute")
            with truth.timed(train="compute"):
                batch.to(torch.float64)  # moves nothing
            batch.to("meta", non_blocking=True)
            truth.spend(3, train="compute")


@arrangement("copies in another thread")
def copies_elsewhere(truth: Truth) -> None:
    def moved() -> Iterator[Any]:
        for batch in Source(Truth(), "hidden", STEPS, 2):
            yield batch.to("meta")

    with slow_copies(Truth(), 1.5):
        for _ in truth.drive(probe.watch(background(moved())), "train"):
            truth.spend(6, train="compute")


@arrangement("zip of two loaders")
def zipped(truth: Truth) -> None:
    a = probe.watch(Source(truth, "a", STEPS, 2, b="other"), name="a")
    b = probe.watch(Source(truth, "b", STEPS, 3, a="other"), name="b")
    for _ in zip(a, b, strict=True):
        truth.spend(8, a="compute", b="compute")


@arrangement("function get_batch()")
def function(truth: Truth) -> None:
    def get_batch() -> torch.Tensor:
        truth.begin("train")
        truth.spend(2.5, train="wait")
        return BATCH

    watched = probe.watch(get_batch)
    for _ in range(STEPS):
        watched()
        truth.spend(7, train="compute")


@arrangement("excluded blocks, one inside another, with copies")
def exclusion(truth: Truth) -> None:
    for step, _ in enumerate(probe.watch(Source(truth, "train", STEPS, 4))):
        with probe.copy():
            truth.spend(1, train="copy")
        truth.spend(8, train="compute")
        if step % 8 == 7:
            with truth.timed(train="other"), probe.exclude("validation"):
                time.sleep(0.004)
                with probe.exclude("checkpoint"), probe.copy():
                    time.sleep(0.004)


@arrangement("gradient accumulation, four fetches an update")
def accumulation(truth: Truth) -> None:
    batches = iter(probe.watch(Source(truth, "train", STEPS, 0.5)))
    for _ in range(STEPS // 4):
        for _ in range(4):
            next(batches)
            truth.spend(5, train="compute")
        truth.spend(6, train="compute")


@arrangement("a kept iterator that is begun again mid-way")
def kept_iterator(truth: Truth) -> None:
    loader = probe.watch(Source(truth, "train", 32, 2.5))
    batches = iter(loader)
    for _ in range(STEPS):
        try:
            next(batches)
        except StopIteration:
            batches = iter(loader)
            next(batches)
        truth.spend(7, train="compute")


@arrangement("work between iter() and the first batch")
def late_start(truth: Truth) -> None:
    batches = iter(probe.watch(Source(truth, "train", STEPS, 2.5)))
    truth.spend(100, train="other")
    for _ in batches:
        truth.spend(7, train="compute")
