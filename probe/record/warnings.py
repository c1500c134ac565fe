"""How probe speaks up inside a training run: once, through logging, never by raising."""

from __future__ import annotations

import logging

_logger = logging.getLogger("probe")
_said: set[str] = set()


def warn(message: str) -> None:
    """Say once that something of ours does not work; training goes on."""
    if message not in _said:
        _said.add(message)
        _logger.warning("probe: %s", message)


def inform(message: str) -> None:
    """Say something that is good to know and no fault."""
    _logger.info("probe: %s", message)
