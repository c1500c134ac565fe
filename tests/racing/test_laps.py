"""A turn reads what a strategy delivers, and leaves nothing behind."""

from __future__ import annotations

import gc
import sqlite3
from collections.abc import Iterator
from multiprocessing import active_children
from typing import Any

import pytest
import torch
from races import BATCH, WARM_UP, loader, race
from torch.utils.data import DataLoader

from probe.racing.strategies import RaceError

# Python 3.12 warns when a process that has threads forks workers, as every recorded loop does.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def test_batches_from_memory_are_real_ones() -> None:
    seen: list[list[int]] = []
    race("plain", train_step=lambda batch: seen.append(batch.tolist()), repeats=1, steps=40)
    # The ceiling has the first turn; what is kept is a few batches of the loader, over and over.
    ceiling = seen[: 40 + WARM_UP]
    assert len(ceiling) == 60
    assert {tuple(batch) for batch in ceiling} == {
        tuple(range(first, first + BATCH)) for first in range(0, 16, BATCH)
    }


def test_a_loader_that_ends_is_read_again_and_one_that_stays_empty_is_refused() -> None:
    # 15 batches an epoch; a generator has to be made anew for each.
    found = race({"generator": lambda loader: (batch for batch in loader)}, repeats=1)
    assert found.failed == {}
    with sqlite3.connect("race.db") as db:
        epochs = "SELECT count(*), sum(epoch_start) FROM steps GROUP BY run_id, loader_id"
        made = db.execute(epochs).fetchall()
    assert made[0] == (41, 3)  # 20 of warm-up, 20 that count, 1 that begins an epoch
    with pytest.raises(RaceError, match="the loader gave no batch"):
        race("plain", make_loader=list)
    with pytest.raises(RaceError, match="the loader gives a single batch an epoch"):
        race("plain", make_loader=lambda: [1])
    once = iter(range(5))
    with pytest.raises(RaceError, match="the loader gave 5 batches and cannot be read again"):
        race({"once": lambda loader: once})


def test_callables_of_the_user_get_the_loader_and_are_iterated_over() -> None:
    given: list[Any] = []
    seen: list[Any] = []

    def doubled(loader: Any) -> Iterator[Any]:
        given.append(loader)
        return (batch * 2 for batch in loader)

    race({"doubled": doubled}, train_step=lambda batch: seen.append(batch.max().item()), repeats=1)
    assert all(type(loader) is DataLoader for loader in given)
    assert max(seen) == 118


def test_no_worker_outlives_its_turn() -> None:
    alive: list[int] = []

    def train_step(batch: Any) -> None:
        alive.append(len(active_children()))

    race("workers=2", "workers=1", "plain", train_step=train_step, repeats=1, steps=60)
    turn = 60 + WARM_UP
    late = [max(alive[i + WARM_UP : i + turn]) for i in range(0, 4 * turn, turn)]
    assert late[1:] == [2, 1, 0]
    assert active_children() == []


class Cyclic:
    """Keeps itself alive until the garbage collector comes, and with it its workers."""

    def __init__(self, loader: Any) -> None:
        self.loader, self.itself = loader, self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)


def test_what_only_the_garbage_collector_frees_does_not_outlive_its_turn_either() -> None:
    seen: set[int] = set()

    def train_step(batch: Any) -> None:
        seen.add(len(active_children()))

    def make_loader() -> DataLoader[torch.Tensor]:
        return loader(num_workers=1, persistent_workers=True)

    gc.disable()
    try:
        race({"cyclic": Cyclic}, "plain", make_loader=make_loader, train_step=train_step)
    finally:
        gc.enable()
    assert seen == {0, 1}
