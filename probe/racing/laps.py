"""One recorded run of a race: so many steps over what a strategy delivers."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from time import monotonic
from typing import Any

from probe.insight.summary import WARM_UP_STEPS
from probe.racing.loaders import MakeLoader, make, to_accelerator
from probe.racing.strategies import RaceError, Strategy, has_accelerator
from probe.watch import watch

# Batches that the ceiling replays: few enough for any memory, more than one so that they differ.
_KEPT = 4


@dataclass(frozen=True, slots=True)
class Lap:
    """What one run of a race does.

    Attributes:
        name: What to call it, before the number of the repeat.
        title: How batches reach the step, in words.
        tag: race, ceiling or io-only.
        open: Makes what to iterate over.
        step: Called with each batch.
    """

    name: str
    title: str
    tag: str
    open: Callable[[], Iterable[Any]]
    step: Callable[[Any], object]


def laps(
    strategies: list[Strategy], make_loader: MakeLoader, train_step: Callable[[Any], object]
) -> tuple[list[Lap], list[Lap], Lap]:
    """List the runs of a race: those that train, those that only read, and the ceiling."""

    def opening(strategy: Strategy) -> Callable[[], Iterable[Any]]:
        return lambda: make(make_loader, strategy)

    racing = [Lap(s.name, s.title, "race", opening(s), train_step) for s in strategies]
    reading = [
        Lap(f"{s.name} io-only", s.title, "io-only", opening(s), _nothing) for s in strategies
    ]
    replay = _Replay(racing[0].open)
    ceiling = Lap("ceiling", "batches from memory", "ceiling", replay.open, train_step)
    return racing, reading, ceiling


def drive(lap: Lap, steps: int, deadline: float, tick: Callable[[], None]) -> bool:
    """Make the steps of one run, reading the loader again when it ends.

    Args:
        lap: What to do.
        steps: How many are to count: neither warm-up nor the first of an epoch does.
        deadline: When to stop early, on `time.monotonic`.
        tick: Called after each step.

    Returns:
        Whether all steps were made.

    Raises:
        RaceError: The loader gives too few batches.
    """
    made = counted = 0
    for batches in _epochs(lap.open):
        first = made
        for batch in batches:
            lap.step(batch)
            counted += made >= WARM_UP_STEPS and made > first
            made += 1
            if counted == steps:
                # Within the last step, so that what the device still had to do counts.
                _synchronize()
                return True
            tick()
            if monotonic() > deadline:
                return False
        if made == first:
            again = f"{made} batches and cannot be read again" if made else "no batch"
            raise RaceError(f"the loader gave {again}")
        if made == first + 1:
            raise RaceError(
                "the loader gives a single batch an epoch, and the first of an epoch does not"
                " count: make it longer"
            )
    raise AssertionError("epochs never end")


def settle() -> None:
    """Let the workers and threads of a run that is over go before the next one begins."""
    gc.collect()


def sentence_of(error: Exception) -> str:
    """Say in one line what went wrong, and where."""
    if isinstance(error, RaceError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # An error from a worker process holds its traceback; what was raised is its last line.
    said = lines[-1] if lines else "no message"
    kind = type(error).__name__
    named = said if said.startswith(f"{kind}: ") else f"{kind}: {said}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{named} ({frame.filename}:{frame.lineno})"


def _epochs(open_: Callable[[], Iterable[Any]]) -> Iterator[Iterable[Any]]:
    """Give what to iterate over, once an epoch; an iterator is made anew for each."""
    once = True
    batches: Any = None
    while True:
        if once:
            batches = None  # its workers end before others begin
            batches = open_()
            once = isinstance(batches, Iterator)
            batches = watch(batches)
        yield batches


class _Replay:
    """A few real batches, over and over: what the step could do if it never waited."""

    def __init__(self, open_: Callable[[], Iterable[Any]]) -> None:
        self._open = open_
        self._kept: list[Any] = []

    def open(self) -> Iterator[Any]:
        if not self._kept:
            self._kept = list(islice(self._open(), _KEPT))
            if not self._kept:
                raise RaceError("the loader gave no batch")
            if has_accelerator():
                # Without the copy: the ceiling is what computing alone could reach.
                self._kept = list(to_accelerator(self._kept))
        return cycle(self._kept)


def _nothing(batch: Any) -> None:
    """Train on nothing: what is left is reading."""


def _synchronize() -> None:
    if has_accelerator():
        sys.modules["torch"].accelerator.synchronize()
