"""A strategy's settings reach the loader, however the user's function makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from races import Slow, loader, parsed
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

import probe
from probe.racing.loaders import code, make
from probe.racing.strategies import RaceError, Strategy, parse

# Python 3.12 warns when a process that has threads forks workers, as every recorded loop does.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def test_settings_are_given_to_a_function_that_takes_them() -> None:
    calls: list[dict[str, Any]] = []

    def any_(**settings: Any) -> list[int]:
        calls.append(settings)
        return [1]

    def some(num_workers: int = 7, seed: int = 0) -> list[int]:
        calls.append({"num_workers": num_workers, "seed": seed})
        return [1]

    for name in ("plain", "workers=2", "workers=4,prefetch_factor=8", "workers=0", "pin_memory"):
        make(any_, parsed(name))
    make(some, parsed("plain"))
    make(some, parsed("workers=2"))
    assert calls == [
        {},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 4, "prefetch_factor": 8, "persistent_workers": True},
        {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False},
        {"pin_memory": True},
        {"num_workers": 7, "seed": 0},
        {"num_workers": 2, "seed": 0},
    ]


class Fancy(DataLoader[Any]):
    """As `DataLoaderX`: a subclass that keeps torch's constructor."""


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(100))


def collate(samples: list[Any]) -> tuple[Any, ...]:
    return tuple(samples)


def test_a_dataloader_is_made_once_more_with_the_settings() -> None:
    data, generator = Slow(), torch.Generator()
    first = Fancy(
        data,
        batch_size=8,
        shuffle=True,
        drop_last=True,
        collate_fn=collate,
        timeout=30,
        num_workers=1,
        multiprocessing_context="spawn",
        generator=generator,
        in_order=False,
    )
    found: Any = make(lambda: first, parsed("workers=2,prefetch_factor=3,pin_memory"))
    assert found is not first
    assert type(found) is Fancy
    for name in ("dataset", "sampler", "batch_size", "drop_last", "collate_fn", "generator"):
        assert getattr(found, name) is getattr(first, name)
    assert (found.num_workers, found.prefetch_factor, found.pin_memory) == (2, 3, True)
    assert (found.persistent_workers, found.timeout, found.in_order) == (True, 30, False)
    assert found.multiprocessing_context.get_start_method() == "spawn"
    without: Any = make(lambda: first, parsed("workers=0"))
    assert (without.num_workers, without.prefetch_factor, without.timeout) == (0, None, 0)
    assert len(next(iter(without))) == 8
    assert make(lambda: first, parsed("plain")) is first


@pytest.mark.parametrize(
    "first",
    [
        DataLoader(Slow(), batch_sampler=BatchSampler(SequentialSampler(range(20)), 5, False)),
        DataLoader(Slow(length=20), batch_size=None),
        DataLoader(Stream(), batch_size=5),
        DataLoader(Stream(), batch_size=None),
    ],
    ids=["batch sampler", "unbatched", "iterable", "iterable unbatched"],
)
def test_other_kinds_of_dataloader_are_made_once_more_too(first: DataLoader[Any]) -> None:
    found: Any = make(lambda: first, parsed("workers=1"))
    assert found.num_workers == 1
    batches = [np.asarray(batch).tolist() for batch in found]
    assert batches == [np.asarray(batch).tolist() for batch in first]


def test_a_watched_loader_is_taken_for_what_it_is() -> None:
    found: Any = make(lambda: probe.watch(loader()), parsed("workers=1"))
    assert type(found) is DataLoader
    assert found.num_workers == 1


def test_what_can_take_no_settings_is_told_in_one_sentence() -> None:
    class Own(DataLoader[Any]):
        def __init__(self) -> None:
            super().__init__(Slow())

    def make_loader(num_workers: int = 0) -> list[int]:
        return [1, 2]

    with pytest.raises(RaceError) as told:
        make(make_loader, parsed("workers=2,prefetch_factor=4"))
    assert str(told.value) == (
        "workers=2,prefetch_factor=4 sets num_workers and prefetch_factor: make_loader must take"
        " num_workers and prefetch_factor as keyword arguments, or return a torch DataLoader;"
        " it returned list"
    )
    with pytest.raises(RaceError, match="it returned Own"):
        make(Own, parsed("workers=2"))


def test_the_code_makes_the_loader_that_was_raced() -> None:
    def plain_loader() -> DataLoader[torch.Tensor]:
        return DataLoader(Slow())

    def fast(loader: Any) -> Any:
        return loader

    def written(make_loader: Any, strategy: Strategy) -> list[str]:
        return code(make_loader, strategy).splitlines()

    assert written(loader, parsed("plain")) == ["loader = loader()"]
    both = "workers=2+background"
    around = "loader = probe.prefetch.background(loader)"
    settings = "num_workers=2, persistent_workers=True"
    assert written(loader, parsed(both)) == [f"loader = loader({settings})", around]
    assert written(plain_loader, parsed(both)) == [f"loader = DataLoader(..., {settings})", around]
    mine, nameless = parse([{"mine": fast, "other": lambda loader: loader}], cores=2)
    assert written(plain_loader, mine) == ["loader = plain_loader()", "loader = fast(loader)"]
    assert written(plain_loader, nameless)[1] == "loader = other(loader)"
