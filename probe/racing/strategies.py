"""The strategies that a race knows by name, and what each stands for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Wrap = Callable[[Any], Iterable[Any]]
Strategies = Iterable[str | Mapping[str, Wrap]] | Mapping[str, Wrap]

_SETTINGS = ("workers", "prefetch_factor", "persistent_workers", "pin_memory")
_WRAPPERS = {"background": "background thread", "to_device": "side-stream copy"}
_KNOWN = (
    "plain, background, to_device, and workers=N, prefetch_factor=N, persistent_workers, pin_memory"
    ' with commas between them; "+" combines, as in workers=2+background'
)

# More than this rarely helps, and each costs memory and a start.
_MOST_WORKERS = 16


class RaceError(ValueError):
    """A race that cannot be run as asked; one sentence for the user."""


@dataclass(frozen=True)
class Strategy:
    """One way for batches to reach the training step.

    Attributes:
        name: What the user calls it.
        title: The same in words, as recorded in `runs.strategy`.
        settings: Arguments of the `DataLoader` that it names.
        implied: Arguments that go with these; they are set where the loader takes them.
        wrappers: What is put around the loader, in order: background, to_device.
        own: The user's callable, which is put around the loader.
    """

    name: str
    title: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    implied: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[str, ...] = ()
    own: Wrap | None = None

    @property
    def complexity(self) -> tuple[int, int, int, int]:
        """What to sort by so that the simplest comes first.

        An argument of the loader is simpler than something around it, and fewer workers are
        simpler than more.
        """
        around = len(self.wrappers) + (self.own is not None)
        workers = self.settings.get("num_workers", 0)
        ahead = self.settings.get("prefetch_factor") or 0
        return around, workers, ahead, len(self.settings)

    @property
    def wanted(self) -> dict[str, Any]:
        """The arguments that it names and those that go with them."""
        return {**self.settings, **self.implied}


def parse(asked: Strategies | None, cores: float) -> list[Strategy]:
    """Read the strategies of a race; the first one is its baseline.

    Args:
        asked: Names and dictionaries of callables, or None for what suits the machine.
        cores: How many cores this process may use.

    Raises:
        RaceError: A name is unknown or comes twice, or there are none.
    """
    accelerator = has_accelerator()
    if asked is None:
        asked = suitable(cores, accelerator)
    elif isinstance(asked, str):
        raise RaceError(f'strategies is the text {asked!r}: give a list, such as ["{asked}"]')
    elif isinstance(asked, Mapping):
        asked = [asked]
    found: list[Strategy] = []
    for item in asked:
        if isinstance(item, str):
            found.append(_named(item, accelerator))
        elif isinstance(item, Mapping):
            found += [_own(name, wrap) for name, wrap in item.items()]
        else:
            raise RaceError(
                f"{item!r} is no strategy: give its name, or a dictionary of names and callables"
            )
    titles = [strategy.title for strategy in found]
    twice = next((s.name for s in found if titles.count(s.title) > 1), None)
    if twice is not None:
        raise RaceError(f"the strategy {twice!r} is given twice")
    if not found:
        raise RaceError(f"there is no strategy to race: name some of {_KNOWN}")
    return found


def suitable(cores: float, accelerator: bool) -> list[str]:
    """Name the strategies that are worth trying on a machine.

    Workers that wait for storage need no core of their own, so there may be twice as many as cores.
    """
    most = min(_MOST_WORKERS, max(4, round(2 * cores)))
    counts = [count for count in (2, 4, 8, _MOST_WORKERS) if count <= most]
    names = ["plain", "background", *(f"workers={count}" for count in counts)]
    names.append("workers=2+background")
    if accelerator:
        names += ["to_device", f"workers={counts[-1]}+to_device"]
    return names


def has_accelerator() -> bool:
    """Tell whether torch is in use here and has a device to copy to."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.accelerator.is_available())


def _own(name: str, wrap: Wrap) -> Strategy:
    if not callable(wrap):
        raise RaceError(
            f"the strategy {name!r} is {wrap!r}: give a callable that takes the loader and returns"
            " what to iterate over"
        )
    return Strategy(name, name, own=wrap)


def _named(text: str, accelerator: bool) -> Strategy:
    name = "".join(text.split())
    settings: dict[str, Any] = {}
    wrappers: list[str] = []
    titles = []
    for part in name.split("+"):
        if part in _WRAPPERS:
            wrappers.append(part)
            titles.append(_WRAPPERS[part])
        elif part == "plain" == name:
            titles.append("plain")
        else:
            arguments = [_argument(text, word) for word in part.split(",")]
            settings.update((argument, value) for argument, value, _ in arguments)
            titles.append(", ".join(title for *_, title in arguments))
    if "to_device" in wrappers and not accelerator:
        raise RaceError(f"the strategy {text!r} needs an accelerator, and torch sees none here")
    return Strategy(name, " + ".join(titles), settings, _implied(settings, wrappers), (*wrappers,))


def _argument(strategy: str, word: str) -> tuple[str, Any, str]:
    """Read one setting: the argument of the loader, its value, and how it reads in words."""
    key, _, value = word.partition("=")
    if key not in _SETTINGS:
        raise RaceError(f"there is no strategy {strategy!r}: name some of {_KNOWN}")
    if key in ("persistent_workers", "pin_memory") and not value:
        return key, True, key.replace("_", " ").replace("pin ", "pinned ")
    if not value.isdecimal() or key not in ("workers", "prefetch_factor"):
        raise RaceError(f"there is no setting {word!r} ({strategy!r}): name some of {_KNOWN}")
    number = int(value)
    if key == "workers":
        return "num_workers", number, f"{number} worker{'' if number == 1 else 's'}"
    return key, number, f"prefetch_factor {number}"


def _implied(settings: dict[str, Any], wrappers: list[str]) -> dict[str, Any]:
    implied: dict[str, Any] = {}
    if settings.get("num_workers") == 0:
        implied = {"prefetch_factor": None, "persistent_workers": False}
    elif "num_workers" in settings:
        # A race reads a short epoch many times; starting workers each time is not what it compares.
        implied = {"persistent_workers": True}
    if "to_device" in wrappers:
        implied["pin_memory"] = True
    return {name: value for name, value in implied.items() if name not in settings}
