"""Loaders with the settings of a strategy, whichever way the user's function makes them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from probe import prefetch
from probe.racing.strategies import RaceError, Strategy
from probe.view import inner_of

MakeLoader = Callable[..., Iterable[Any]]

# What a DataLoader is made of, beside what its sampler decides.
_CARRIED = (
    "dataset",
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "pin_memory_device",
    "in_order",
)


def make(make_loader: MakeLoader, strategy: Strategy) -> Iterable[Any]:
    """Make the loader of a strategy, with everything that it puts around it.

    Settings that `make_loader` takes as keyword arguments are given to it. If it does not take all
    that the strategy names, the `DataLoader` that it returns is made once more with them.

    Raises:
        RaceError: The settings can be changed in neither way.
    """
    loader = _with_settings(make_loader, strategy)
    for wrapper in strategy.wrappers:
        loader = _AROUND[wrapper](loader)
    return loader if strategy.own is None else strategy.own(loader)


def code(make_loader: MakeLoader, strategy: Strategy) -> str:
    """Write a strategy as lines of Python that make `loader`."""
    given = _given(make_loader, strategy)
    if given is None:
        lines = [f"loader = DataLoader(..., {_arguments(strategy.wanted)})"]
    else:
        lines = [f"loader = {name_of(make_loader)}({_arguments(given)})"]
    for wrapper in strategy.wrappers:
        device = "" if wrapper == "background" else ", torch.accelerator.current_accelerator()"
        lines.append(f"loader = probe.prefetch.{wrapper}(loader{device})")
    if strategy.own is not None:
        own = getattr(strategy.own, "__name__", "")
        lines.append(f"loader = {own if own.isidentifier() else strategy.name}(loader)")
    return "\n".join(lines)


def name_of(make_loader: MakeLoader) -> str:
    """Return what a function is called in a sentence or in code."""
    name = getattr(make_loader, "__name__", "")
    return name if name.isidentifier() else "make_loader"


def to_accelerator(loader: Any) -> Any:
    """Put a side-stream copy to the accelerator around a loader."""
    device = sys.modules["torch"].accelerator.current_accelerator()
    return prefetch.to_device(loader, device)


_AROUND: dict[str, Callable[[Any], Any]] = {
    "background": prefetch.background,
    "to_device": to_accelerator,
}


def _with_settings(make_loader: MakeLoader, strategy: Strategy) -> Any:
    given = _given(make_loader, strategy)
    loader = inner_of(make_loader(**(given or {})))
    if given is not None:
        return loader
    if _is_plain_dataloader(loader):
        return _again(loader, strategy.wanted)
    settings = " and ".join(strategy.settings)
    raise RaceError(
        f"{strategy.name} sets {settings}: {name_of(make_loader)} must take {settings} as keyword"
        f" arguments, or return a torch DataLoader; it returned {type(loader).__name__}"
    )


def _given(make_loader: MakeLoader, strategy: Strategy) -> dict[str, Any] | None:
    """Return the arguments to call with; None if it does not take what the strategy names."""
    takes = _keywords(make_loader)
    if takes is None:
        return strategy.wanted
    if not takes.issuperset(strategy.settings):
        return None
    return {name: value for name, value in strategy.wanted.items() if name in takes}


def _arguments(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _keywords(function: MakeLoader) -> set[str] | None:
    """Return the keyword arguments that a function takes; None when it takes any."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not tell
        return set()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {parameter.name for parameter in parameters if parameter.kind in by_name}


def _is_plain_dataloader(loader: Any) -> bool:
    """Tell whether a loader is made as torch makes it, so that it can be made once more."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        return False
    return type(loader).__init__ is data.DataLoader.__init__


def _again(loader: Any, changes: dict[str, Any]) -> Any:
    """Make a DataLoader like this one, with some arguments changed."""
    arguments = {name: getattr(loader, name) for name in _CARRIED} | changes
    if not arguments["num_workers"]:  # what only worker processes have
        arguments |= {"timeout": 0, "multiprocessing_context": None, "prefetch_factor": None}
        arguments["persistent_workers"] = False
    data = sys.modules["torch.utils.data"]
    iterable = isinstance(loader.dataset, data.IterableDataset)
    if loader.batch_size is None and loader.batch_sampler is not None:
        arguments["batch_sampler"] = loader.batch_sampler
    else:
        arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        if not iterable:
            arguments["sampler"] = loader.sampler
    return type(loader)(**arguments)
