"""Small races for tests: a loader, a step, and what was recorded."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import probe
from probe.racing.strategies import Strategy, parse

BATCH = 4
STEPS = 20
WARM_UP = 20


class Slow(Dataset[torch.Tensor]):
    """Samples that take a while each; one of them may be broken."""

    def __init__(self, ms: float = 0.0, broken: int | None = None, length: int = 60) -> None:
        self.ms, self.broken, self.length = ms, broken, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.broken:
            raise ValueError(f"sample {index} is broken")
        time.sleep(self.ms / 1000)
        return torch.tensor(index)


def loader(**settings: Any) -> DataLoader[torch.Tensor]:
    return DataLoader(Slow(), batch_size=BATCH, **settings)


def step(batch: Any) -> None:
    pass


def race(
    *strategies: Any, make_loader: Any = loader, train_step: Any = step, **options: Any
) -> Any:
    options = {"steps": STEPS, "repeats": 2, "progress": False, "db": "race.db"} | options
    return probe.race(make_loader, train_step, strategies or None, **options)


def runs(what: str = "name, strategy, status, tags, experiment") -> list[Any]:
    with sqlite3.connect("race.db") as db:
        return db.execute(f"SELECT {what} FROM runs ORDER BY id").fetchall()


def parsed(name: str) -> Strategy:
    (found,) = parse([name], cores=2)
    return found
