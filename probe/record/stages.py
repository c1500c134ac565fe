"""Times the stages of making a batch by name, inside workers; off unless `PROBE_STAGES=1`.

This is the one place where the worker's own copy of the user's data set is touched: each data set's
`__getitem__`, each transform that it holds, and the collate function are wrapped by a timer. Times
are inclusive: a data set's contain those of its transforms.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from time import perf_counter_ns as now
from typing import Any

# Where data sets keep what they apply to a sample.
_TRANSFORMS = ("transform", "target_transform")
_DEPTH = 8


class Timed:
    """A callable that is timed; to whoever looks, it has the attributes of what it wraps."""

    def __init__(self, name: str, function: Callable[..., Any], spent: dict[str, list[int]]):
        self._probe = name, function, spent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what is wrapped."""
        name, function, spent = self._probe
        began = now()
        try:
            return function(*args, **kwargs)
        finally:
            _add(spent, name, now() - began)

    def __getattr__(self, name: str) -> Any:
        if name == "_probe":  # not there yet while an instance is being copied
            raise AttributeError(name)
        return getattr(self._probe[1], name)


class Stages:
    """The stages of one worker, and the pipe that their times go through.

    Args:
        writer: The writing end; a line of JSON a batch, lost if the pipe is full.
        token: Says whose stages they are.
    """

    def __init__(self, writer: Connection, token: int) -> None:
        self._writer = writer
        self._token = token
        self._spent: dict[str, list[int]] = {}

    def wrap(self, dataset: Any) -> None:
        """Time a data set, those inside it, and their transforms."""
        for part in _inside(dataset):
            cls = type(part)
            if hasattr(cls, "__getitem__"):
                with contextlib.suppress(TypeError):  # a built-in type
                    cls.__getitem__ = _timed_method(cls.__name__, cls.__getitem__, self._spent)
            for name in _TRANSFORMS:
                with contextlib.suppress(Exception):
                    self._wrap_transform(part, name)

    def collating(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Time a collate function."""
        return function if isinstance(function, Timed) else Timed("collate", function, self._spent)

    def send(self) -> None:
        """Send what the batch at hand has spent."""
        line = json.dumps([self._token, self._spent]).encode() + b"\n"
        self._spent.clear()
        with contextlib.suppress(OSError):
            os.write(self._writer.fileno(), line)

    def _wrap_transform(self, dataset: Any, attribute: str) -> None:
        transform = getattr(dataset, attribute, None)
        inner = getattr(transform, "transforms", None)
        if isinstance(inner, list):  # Compose
            inner[:] = [Timed(_name(part), part, self._spent) for part in inner]
        elif callable(transform):
            setattr(dataset, attribute, Timed(_name(transform), transform, self._spent))


def read_lines(rest: bytes, data: bytes) -> tuple[bytes, list[tuple[int, dict[str, list[int]]]]]:
    """Split what came through the pipe into lines; what is not whole yet stays for the next time.

    Args:
        rest: What stayed the last time.
        data: What has come since.
    """
    *lines, rest = (rest + data).split(b"\n")
    found = []
    for line in lines:
        with contextlib.suppress(ValueError):
            token, spent = json.loads(line)
            found.append((token, spent))
    return rest, found


def _inside(dataset: Any) -> Iterator[Any]:
    """Give a data set and those inside it, outermost first, each class once."""
    seen: set[type] = set()
    waiting = [dataset]
    for _ in range(_DEPTH):
        if not waiting:
            return
        part = waiting.pop(0)
        if type(part) in seen:
            continue
        seen.add(type(part))
        yield part
        own = getattr(part, "__dict__", {})
        waiting += [own[name] for name in ("dataset",) if own.get(name) is not None]
        waiting += list(own.get("datasets") or ())


def _timed_method(
    name: str, method: Callable[..., Any], spent: dict[str, list[int]]
) -> Callable[..., Any]:
    def timed(self: Any, index: Any) -> Any:
        began = now()
        try:
            return method(self, index)
        finally:
            _add(spent, name, now() - began)

    return timed


def _add(spent: dict[str, list[int]], name: str, duration: int) -> None:
    entry = spent.setdefault(name, [0, 0])
    entry[0] += 1
    entry[1] += duration


def _name(function: Any) -> str:
    own = getattr(function, "__name__", None)
    return own if isinstance(own, str) else type(function).__name__
