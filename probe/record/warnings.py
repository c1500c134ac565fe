"""What probe does with its own faults in a training run: it speaks up once and never raises."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter_ns as now
from typing import TypeVar

T = TypeVar("T")

_logger = logging.getLogger("probe")
_said: set[str] = set()


def warn(message: str) -> None:
    """Say once that something of ours does not work; training goes on."""
    if message not in _said:
        _said.add(message)
        attempt(lambda: _logger.warning("probe: %s", message))  # a handler may raise
        from probe.run import current

        run = current()
        if run is not None:
            run.event("warning", message, now(), None)


def inform(message: str) -> None:
    """Say something that is good to know and no fault."""
    _logger.info("probe: %s", message)


def attempt(call: Callable[[], T]) -> T | None:
    """Call something that may fail by itself, and has no answer then."""
    try:
        return call()
    except Exception:
        return None
