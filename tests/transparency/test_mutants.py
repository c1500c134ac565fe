"""The comparison notices each of the usual mistakes of a wrapper."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import odd_loaders  # noqa: F401 - fills the table
import pytest
import torch_loaders  # noqa: F401
from session import ARRANGEMENTS, differences

# Some in which the mistake can be seen, and none that starts processes.
NAMES = (
    "DataLoader, map-style",
    "DataLoader, an error in the middle",
    "generator with send, throw, close and a return value",
    "loader whose iter() returns itself",
    "loader that re-uses its buffer and counts",
    "errors of every kind, and their moment",
)

# `probe.watch` names the function; this is its module.
hooks: Any = sys.modules["probe.watch"]
real_next, real_iter, real_view_class = hooks._next, hooks._iter, hooks.view_class


def fetching_one_ahead() -> Callable[..., Any]:
    ahead: dict[int, list[Any]] = {}

    def mutant(self: Any) -> Any:
        queue = ahead.setdefault(id(self), [])
        if not queue:
            queue.append(real_next(self))
        batch = queue.pop()
        with contextlib.suppress(StopIteration):
            queue.append(real_next(self))
        return batch

    return mutant


def holding_the_last_batch() -> Callable[..., Any]:
    held: dict[int, Any] = {}

    def mutant(self: Any) -> Any:
        held[id(self)] = batch = real_next(self)
        return batch

    return mutant


def swallowing_an_exception() -> Callable[..., Any]:
    def mutant(self: Any) -> Any:
        try:
            return real_next(self)
        except Exception:
            raise StopIteration from None

    return mutant


def calling_iter_once_more() -> Callable[..., Any]:
    def mutant(self: Any) -> Any:
        iter(self._probe_inner)
        return real_iter(self)

    return mutant


def having_a_length() -> Callable[..., Any]:
    def mutant(base: Any, cls: type, own: dict[str, Any]) -> Any:
        own = {"__len__": lambda self: len(self._probe_inner), **own}
        return real_view_class(base, cls, own)

    return mutant


@pytest.mark.parametrize(
    ("hook", "mutant"),
    [
        ("_next", fetching_one_ahead),
        ("_next", holding_the_last_batch),
        ("_next", swallowing_an_exception),
        ("_iter", calling_iter_once_more),
        ("view_class", having_a_length),
    ],
)
def test_a_mistake_of_the_wrapper_is_noticed(
    hook: str, mutant: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, hook, mutant())
    monkeypatch.setattr(hooks, "_iterator_classes", {})
    tried = [arrangement for arrangement in ARRANGEMENTS if arrangement.name in NAMES]
    assert len(tried) == len(NAMES)
    noticed = [arrangement.name for arrangement in tried if differences(arrangement)]
    assert noticed, f"{mutant.__name__} was not noticed by any of {NAMES}"
    print(f"{mutant.__name__}: noticed by {len(noticed)} of {len(tried)} arrangements")
