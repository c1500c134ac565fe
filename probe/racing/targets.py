"""Functions named on the command line, as `package.module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

from probe.racing.strategies import RaceError


def find(target: str) -> Callable[..., Any]:
    """Import what a target names; the current directory comes first on the import path.

    Raises:
        RaceError: There is no such module, it cannot be imported, or it has no such function.
    """
    module_name, _, path = target.partition(":")
    if not (module_name and path):
        raise RaceError(f"{target!r} names no function: write it as package.module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise RaceError(
            f"{target!r} cannot be imported from {here}: {type(error).__name__}: {error}"
        ) from error
    try:
        function = reduce(getattr, path.split("."), module)
    except AttributeError:
        raise RaceError(f"{module.__file__} has no {path}") from None
    if not callable(function):
        raise RaceError(f"{target!r} is {function!r:.80}, no function")
    return function
