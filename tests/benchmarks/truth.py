"""What really happened in each step, by a clock that knows nothing of probe.

An arrangement injects pieces of waiting, copying, computing and other work. Each piece is timed
where it happens, so a sleep that ends late is the truth too. Where a worker or a thread of a
library loads, nothing can be injected; there the truth is how long `next` blocked, by a clock
around the call.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns as now
from typing import Any

import numpy as np
import torch

from probe.insight.summary import PHASES, WARM_UP_STEPS
from probe.record import copies
from probe.store.queries import Steps

# The promise: a cell is right within 1 % of the step or 50 µs, whichever is larger.
SHARE_OF_STEP = 0.01
AT_LEAST_NS = 50_000


class Truth:
    """The pieces of each step of each loader, ns."""

    def __init__(self) -> None:
        self.steps: dict[str, list[dict[str, int]]] = defaultdict(list)
        self._early: dict[str, dict[str, int]] = defaultdict(_nothing)

    def begin(self, *loaders: str) -> None:
        """Begin the next step of a loader; what came before its first belongs to that one."""
        for loader in loaders:
            self.steps[loader].append(self._early.pop(loader, _nothing()))

    def add(self, ns: int, **phases: str) -> None:
        """Add time to the step that each loader is in: `add(ns, train="wait", val="other")`."""
        for loader, phase in phases.items():
            self._open(loader)[phase] += ns

    @contextmanager
    def timed(self, **phases: str) -> Iterator[None]:
        """Time a piece of the program."""
        began = now()
        yield
        self.add(now() - began, **phases)

    def spend(self, ms: float, **phases: str) -> None:
        """Inject a piece that lasts about so long."""
        began = now()
        # Looked up first: what follows the last clock read is time that nobody injected.
        pieces = [(self._open(loader), phase) for loader, phase in phases.items()]
        time.sleep(ms / 1000)
        took = now() - began
        for step, phase in pieces:
            step[phase] += took

    def _open(self, loader: str) -> dict[str, int]:
        steps = self.steps[loader]
        return steps[-1] if steps else self._early[loader]

    def drive(self, watched: Iterable[Any], loader: str) -> Iterator[Any]:
        """Loop as `for` does, with a clock around `iter()` and each `next()`."""
        with self.timed(**{loader: "wait"}):
            batches = iter(watched)
        while True:
            began = now()
            batch = next(batches, self)
            blocked = now() - began
            if batch is not self:
                self.begin(loader)
            self.add(blocked, **{loader: "wait"})
            if batch is self:
                return
            yield batch

    def phase(self, loader: str, phase: str) -> np.ndarray:
        """Return one phase of every step of a loader, ns."""
        return np.array([step[phase] for step in self.steps[loader]])

    def stall_share(self, loader: str) -> float:
        """Return the share of waiting in the steps after warm-up.

        Without a device clock nobody knows whether a copy held anything back, so copies are not
        part of it.
        """
        counted = self.steps[loader][WARM_UP_STEPS:]
        return sum(step["wait"] for step in counted) / sum(sum(step.values()) for step in counted)


def _nothing() -> dict[str, int]:
    return dict.fromkeys(PHASES, 0)


class Source:
    """A loader that can be iterated again: each batch takes a while on the thread that asks.

    Args:
        truth: Gets what it does.
        loader: Its name there.
        count: Batches an epoch.
        wait_ms: How long one takes.
        also: What that time is to other loaders.
    """

    def __init__(self, truth: Truth, loader: str, count: int, wait_ms: float, **also: str) -> None:
        self.truth, self.loader, self.count, self.wait_ms = truth, loader, count, wait_ms
        self.also = also

    def __iter__(self) -> Iterator[Any]:
        for _ in range(self.count):
            began = now()
            self.truth.begin(self.loader)
            time.sleep(self.wait_ms / 1000)
            batch = torch.zeros(4, 3)
            self.truth.add(now() - began, **{self.loader: "wait"}, **self.also)
            yield batch


class Producer(Source):
    """A source whose batches are taken by a prefetcher: what that does is its compute."""

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            began = now()
            yield batch
            self.truth.add(now() - began, **{self.loader: "compute"})


@contextmanager
def slow_copies(truth: Truth, ms: float) -> Iterator[None]:
    """Let the meta device play an accelerator, to which each copy takes a while."""
    real, real_rule = torch.Tensor.to, copies.is_on_device

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args[0] != "meta":
            return real(self, *args, **kwargs)
        with truth.timed(train="copy"):
            time.sleep(ms / 1000)
            return real(self, *args, **kwargs)

    torch.Tensor.to = to  # type: ignore[method-assign]
    copies.is_on_device = lambda tensor: tensor.is_meta
    try:
        yield
    finally:
        torch.Tensor.to = real  # type: ignore[method-assign]
        copies.is_on_device = real_rule


@dataclass(frozen=True, slots=True)
class Cell:
    """One phase of one loader: mean ms a step, and the error, ns."""

    phase: str
    true_ms: float
    recorded_ms: float
    error_ns: float
    limit_ns: float
    step_ns: float

    @property
    def right(self) -> bool:
        """Tell whether it keeps the promise."""
        return self.error_ns <= self.limit_ns


def compare(truth: Truth, loader: str, recorded: Steps) -> list[Cell]:
    """Compare a loader's recorded steps with the true ones.

    The error of a cell is the larger of two: the median over the steps of |recorded − true|, and
    the difference of the sums, per step.

    Raises:
        AssertionError: Another number of steps was recorded.
    """
    count = len(truth.steps[loader])
    assert len(recorded) == count, f"{loader}: {len(recorded)} steps recorded, {count} made"
    step_ns = float(recorded.step_ns.mean())
    cells = []
    for phase in PHASES:
        found, true = getattr(recorded, f"{phase}_ns"), truth.phase(loader, phase)
        error = max(float(np.median(np.abs(found - true))), abs(float((found - true).mean())))
        limit = max(SHARE_OF_STEP * step_ns, AT_LEAST_NS)
        cells.append(Cell(phase, true.mean() / 1e6, found.mean() / 1e6, error, limit, step_ns))
    return cells
