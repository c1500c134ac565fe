"""Times the stages of making a batch by name, inside workers; off unless `PROBE_STAGES=1`.

This is the one place where the worker's own copy of the user's data set is touched: each data set's
`__getitem__`, each transform that it holds, and the collate function are wrapped by a timer. Times
are inclusive: a data set's contain those of its transforms.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from time import perf_counter_ns as now
from typing import Any

# Where data sets keep what they apply to a sample.
_TRANSFORMS = ("transform", "target_transform")
_MANY = 100


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
            for method in ("__getitem__", "__getitems__"):
                with contextlib.suppress(Exception):  # a built-in type, which cannot be changed
                    self._wrap_method(type(part), method)
            for name in _TRANSFORMS:
                with contextlib.suppress(Exception):
                    self._wrap_transform(part, name)

    def collating(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Time a collate function."""
        return self._timed("collate", function)

    def send(self) -> None:
        """Send what the batch at hand has spent."""
        line = json.dumps([self._token, self._spent]).encode() + b"\n"
        self._spent.clear()
        with contextlib.suppress(OSError):
            os.write(self._writer.fileno(), line)

    def _wrap_transform(self, dataset: Any, attribute: str) -> None:
        transform: Any = getattr(dataset, attribute, None)
        inner = getattr(transform, "transforms", None)
        if isinstance(inner, (list, tuple)):  # Compose
            transform.transforms = type(inner)(self._wrapped(part) for part in inner)
        elif callable(transform):
            setattr(dataset, attribute, self._wrapped(transform))

    def _wrapped(self, transform: Any) -> Any:
        """Time a transform: an object by its class, so that it stays itself; else a function."""
        cls = type(transform)
        if cls.__module__ == "builtins" or isinstance(transform, functools.partial):
            return self._timed(getattr(transform, "__name__", cls.__name__), transform)
        self._wrap_method(cls, "__call__")
        return transform

    def _wrap_method(self, cls: type, method: str) -> None:
        found = getattr(cls, method, None)
        if found is None or (method in cls.__dict__ and hasattr(found, "_probe_timed")):
            return
        # A base class may have been wrapped already: its time is not to count twice.
        setattr(cls, method, self._timed(cls.__name__, getattr(found, "_probe_timed", found)))

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if hasattr(function, "_probe_timed"):
            return function
        spent = self._spent

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = now()
            try:
                return function(*args, **kwargs)
            finally:
                entry = spent.setdefault(name, [0, 0])
                entry[0] += 1
                entry[1] += now() - began

        timed._probe_timed = function  # type: ignore[attr-defined]
        return timed


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
    """Give a data set and those inside it, outermost first."""
    seen: set[int] = set()
    waiting = [dataset]
    while waiting and len(seen) < _MANY:
        part = waiting.pop(0)
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        own = getattr(part, "__dict__", {})
        waiting.append(own.get("dataset"))
        several = own.get("datasets")
        waiting += several if isinstance(several, (list, tuple)) else ()
