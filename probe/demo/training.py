"""The demo's training loop and the loaders that feed it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

import probe
from probe.demo.pictures import Pictures
from probe.demo.scenarios import Scenario, Strategy

_BATCHES_PER_EPOCH = 200


def dataloader(scenario: Scenario, pictures: Pictures, **settings: Any) -> DataLoader[Any]:
    """Build the `DataLoader` of a scenario; the settings are arguments of its own."""
    return DataLoader(
        pictures,
        batch_size=scenario.batch_size,
        # The files are few; drawing with replacement gives epochs of a usual length.
        sampler=RandomSampler(
            pictures, replacement=True, num_samples=scenario.batch_size * _BATCHES_PER_EPOCH
        ),
        **settings,
    )


def loader(
    strategy: Strategy, scenario: Scenario, pictures: Pictures, device: torch.device
) -> Iterable[Any]:
    """Build the watched loader of a strategy.

    Args:
        strategy: How batches reach the loop.
        scenario: What makes loading slow.
        pictures: The dataset.
        device: Where the training happens.
    """
    batches: Iterable[Any] = dataloader(
        scenario,
        pictures,
        num_workers=strategy.workers,
        prefetch_factor=scenario.prefetch_factor if strategy.workers else None,
        persistent_workers=strategy.workers > 0,
        pin_memory=device.type == "cuda",
    )
    if strategy.thread:
        batches = probe.prefetch.background(batches)
    if strategy.stream:
        batches = probe.prefetch.to_device(batches, device)
    return probe.watch(batches)


def training(device: torch.device) -> Callable[[Any], None]:
    """Return the training step of a small convolutional network, always from the same start.

    Args:
        device: Where to train.
    """
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 4),
    ).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step(batch: Any) -> None:
        pictures, labels = batch
        if device.type != "cpu":
            with probe.copy():
                pictures = pictures.to(device, non_blocking=True)
                labels = labels.to(device, non_blocking=True)
        loss = loss_of(model(pictures.permute(0, 3, 1, 2).float() / 255), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def train(
    loader: Iterable[Any], device: torch.device, seconds: float, show: Callable[..., object]
) -> None:
    """Train for a while.

    Args:
        loader: Batches of pictures and labels; read again when it ends.
        device: Where to train.
        seconds: For how long.
        show: Called after each step with the seconds so far as `completed`.
    """
    step = training(device)
    began = time.monotonic()
    while True:
        for batch in loader:
            step(batch)
            elapsed = time.monotonic() - began
            show(completed=elapsed)
            if elapsed >= seconds:
                return
