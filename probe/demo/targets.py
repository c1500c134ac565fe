"""The demo's loaders and its training step as functions to race.

probe race probe.demo.targets:make_storage_loader --step probe.demo.targets:train_step
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils.data import DataLoader

from probe.demo.pictures import Pictures, folder
from probe.demo.scenarios import SCENARIOS
from probe.demo.training import dataloader, training


def make_storage_loader(**settings: Any) -> DataLoader[Any]:
    """Make the loader of slow storage; the settings are arguments of `DataLoader`."""
    return _loader("storage", settings)


def make_decode_loader(**settings: Any) -> DataLoader[Any]:
    """Make the loader of costly decoding; the settings are arguments of `DataLoader`."""
    return _loader("decode", settings)


def make_burst_loader(**settings: Any) -> DataLoader[Any]:
    """Make the loader of bursts; the settings are arguments of `DataLoader`."""
    return _loader("burst", settings)


def train_step(batch: Any) -> None:
    """Train the demo's network on one batch, on a CUDA device if there is one."""
    _training()(batch)


def _loader(name: str, settings: dict[str, Any]) -> DataLoader[Any]:
    return dataloader(SCENARIOS[name], _pictures(name), **settings)


@cache
def _pictures(name: str) -> Pictures:
    scenario = SCENARIOS[name]
    files = folder(scenario.pixels, iter)
    return Pictures(files, scenario.read_ms, scenario.spread, scenario.augment)


@cache
def _training() -> Callable[[Any], None]:
    # As in the demo: compute that takes all cores would blur what is compared.
    torch.set_num_threads(1)
    return training(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
