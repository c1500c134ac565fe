"""Simulated time, in which work shares the cores there are.

With more demand than cores all work on them slows down alike (processor sharing). Work off the core
(storage, a device) is as long as ever, and so is work that comes first, as the scheduler lets
whoever has slept go before those who have been computing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

import numpy as np

# Share of the cores that work which comes first cannot take from the rest.
_LEAST_LEFT = 0.1


class Clock:
    """Time, and the work under way; a job is first off the core, then on it.

    Args:
        cores: How many cores the work on them shares.
    """

    def __init__(self, cores: float) -> None:
        self._cores = cores
        self._now = 0.0
        self._served = 0.0  # how much on-core work anyone who always had work has got done
        self._demand = 0.0
        self._taken = 0.0  # cores in use by work that comes first
        self._number = count()
        self._off: list[tuple[float, int, float, float, float, Callable[[], None]]] = []
        self._on: list[tuple[float, int, float, Callable[[], None]]] = []

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def start(
        self,
        off: float,
        on: float,
        then: Callable[[], None],
        cores: float = 1.0,
        first: float = 0.0,
    ) -> None:
        """Begin a job of `off` and then `on` seconds; its end calls `then`.

        On the core it keeps `cores` cores busy, and off it `first`, before anyone else.
        """
        self._taken += first
        end = self._now + off
        heapq.heappush(self._off, (end, next(self._number), on, cores, first, then))

    def run(self, until: Callable[[], bool]) -> None:
        """Let time pass."""
        off, on = self._off, self._on
        while not until():
            left = max(self._cores - self._taken, _LEAST_LEFT * self._cores)
            slowdown = max(1.0, self._demand / left)
            done_at = self._now + (on[0][0] - self._served) * slowdown if on else np.inf
            if off and off[0][0] <= done_at:
                at, number, work, cores, first, then = heapq.heappop(off)
                self._served += (at - self._now) / slowdown
                self._now = at
                self._taken = self._taken - first if off else 0.0
                if work <= 0:
                    then()
                    continue
                heapq.heappush(on, (self._served + work, number, cores, then))
                self._demand += cores
            else:
                self._served, _, cores, then = heapq.heappop(on)
                self._now = done_at
                # Without work left there is no demand, whatever rounding says.
                self._demand = self._demand - cores if on else 0.0
                then()
