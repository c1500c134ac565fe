"""Loaders that answer Python's questions in ways of their own."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import torch


class Registered(type):
    """A metaclass with something of its own."""

    made: list[str] = []  # noqa: RUF012 - shared on purpose

    @property
    def catalogue(cls) -> str:
        return f"catalogue of {cls.__name__}"


class Particular(metaclass=Registered):
    """Answers of its own to everything: attributes, equality, length, truth, copying."""

    default = 3

    def __init__(self, number: int = 4) -> None:
        self.number, self.asked = number, []

    @classmethod
    def made(cls) -> Particular:
        return cls(2)

    @property
    def dataset(self) -> Any:
        raise AttributeError("there is no data set here")

    @property
    def broken(self) -> Any:
        raise KeyError("broken")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("next", "number", "asked"):
            raise AttributeError(name)
        if name == "no_such_thing":
            raise RuntimeError("asked for too much")
        self.asked.append(name)
        return f"made up {name}"

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.number))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Particular) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        raise RuntimeError("nobody knows")

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> Particular:
        return type(self)(self.number + 100)

    def __deepcopy__(self, memo: dict[int, Any]) -> Particular:
        return type(self)(self.number + 200)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.number = 0

    def __iadd__(self, more: int) -> Self:
        self.number += more
        return self


@dataclasses.dataclass
class Settings:
    """A loader that is a dataclass."""

    count: int = 4
    scale: float = 2.0

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(self.count):
            yield torch.rand(2) * self.scale + index


class BothWays(Settings):
    """Can be iterated over by `async for` too."""

    async def __aiter__(self) -> AsyncIterator[torch.Tensor]:
        for batch in self:
            yield batch


class Hostile:
    """Has a `next` method, and every other attribute raises something unexpected."""

    def __init__(self) -> None:
        self.left = 3

    def next(self) -> int | None:
        self.left -= 1
        return self.left if self.left >= 0 else None

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Failing:
    """Raises in the middle, and goes on if it is asked again."""

    def __init__(self, error: BaseException | Callable[[], BaseException]) -> None:
        self.error, self.calls = error, 0

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> torch.Tensor:
        self.calls += 1
        if self.calls == 3:
            raise self.error if isinstance(self.error, BaseException) else self.error()
        if self.calls > 5:
            raise StopIteration("that was all")
        return torch.rand(2)
