"""Data sets and home-made loaders, as they are found in the wild; light to import in a worker."""

from __future__ import annotations

import random
from collections import namedtuple
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info

Pair = namedtuple("Pair", ["image", "label"])


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Samples with random augmentation from all three global generators."""

    def __init__(self, length: int = 12, broken: int | None = None) -> None:
        self.length, self.broken = length, broken

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == self.broken:
            raise OSError(f"sample {index} cannot be read")
        noise = torch.rand(2).sum() + float(np.random.rand()) + random.random()
        return torch.tensor([float(index), float(index) + 0.5]) + noise, index


class Stream(IterableDataset[torch.Tensor]):
    """A sharded stream."""

    def __init__(self, length: int = 10) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for index in range(first, self.length, step):
            yield torch.rand(2) + index


class Understated(Stream):
    """A stream whose length is a lie: reading on past it is warned about."""

    def __len__(self) -> int:
        return 4


def batches(count: int = 5) -> Iterator[torch.Tensor]:
    """Random batches from a generator."""
    for index in range(count):
        yield torch.rand(3) + index


class SimplePrefetcher:
    """apex's, in its 2-tuple form: the constructor reads the first batch, None is the end."""

    def __init__(self, loader: Any) -> None:
        self.loader = iter(loader)
        self.preload()

    def preload(self) -> None:
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        self.next_input = self.next_input.float().sub_(0.1)

    def next(self) -> tuple[Any, Any]:
        image, label = self.next_input, self.next_target
        self.preload()
        return image, label


class WidePrefetcher:
    """A child of it: five items, the last of which stays on the host."""

    def __init__(self, loader: Any) -> None:
        self.loader = iter(loader)
        self.preload()

    def preload(self) -> None:
        try:
            image, label = next(self.loader)
            self.batch: Any = (
                image,
                label,
                image * 2,
                label + 1,
                {"path": f"{label.tolist()}.png"},
            )
        except StopIteration:
            self.batch = (None,) * 5

    def next(self) -> tuple[Any, ...]:
        batch = self.batch
        self.preload()
        return batch


class StuckPrefetcher(SimplePrefetcher):
    """The mutant: it never resets its fields and repeats the last batch for ever."""

    def preload(self) -> None:
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            return


class IterablePrefetcher(SimplePrefetcher):
    """A child that can also be iterated over, and raises at its end."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[Any, Any]:
        image, label = self.next()
        if image is None:
            raise StopIteration
        return image, label


class Endless:
    """Restarts its loader whenever it is at its end, in the middle of an epoch of the user."""

    def __init__(self, loader: Any, steps: int) -> None:
        self.loader, self.steps, self.restarts = loader, steps, 0
        self.iterator = iter(loader)

    def __len__(self) -> int:
        return self.steps

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.steps):
            try:
                yield next(self.iterator)
            except StopIteration:
                self.restarts += 1
                self.iterator = iter(self.loader)
                yield next(self.iterator)


class SelfIterating:
    """`iter()` rewinds, counts epochs and returns the loader itself."""

    def __init__(self, length: int = 4) -> None:
        self.length, self.epoch, self.index = length, 0, 0

    def __iter__(self) -> Self:
        self.epoch += 1
        self.index = 0
        return self

    def __next__(self) -> torch.Tensor:
        if self.index == self.length:
            raise StopIteration
        self.index += 1
        return torch.rand(2) + self.epoch


class Keeping:
    """Keeps two iterators and hands them out in turn."""

    def __init__(self) -> None:
        self.kept = [batches(8), batches(8)]
        self.asked = 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        self.asked += 1
        return self.kept[self.asked % 2]


class Reusing:
    """Fills one buffer again and again, and counts what it has yielded."""

    def __init__(self) -> None:
        self.buffer, self.yielded = torch.zeros(3), 0

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(5):
            self.yielded += 1
            yield self.buffer.fill_(index)

    def state_dict(self) -> dict[str, int]:
        return {"yielded": self.yielded}


class OldSequence:
    """Iterated over by index until IndexError; has no `__iter__`."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked.append(index)
        if index >= 4:
            raise IndexError(index)
        return torch.rand(2) + index


class OnlyNext:
    """All that Python asks of an iterator: `__next__`."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def __next__(self) -> torch.Tensor:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return torch.rand(2)


class Slotted:
    """No `__dict__`, no weak references."""

    __slots__ = ("length",)

    def __init__(self, length: int = 4) -> None:
        self.length = length

    def __iter__(self) -> OnlyNext:
        return OnlyNext(self.length)
