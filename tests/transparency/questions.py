"""What a program may ask of a loader, and what it answers."""

from __future__ import annotations

import collections.abc
import contextlib
import copy
import dataclasses
import inspect
import operator
import pickle
import re
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

_KINDS = (
    collections.abc.AsyncIterable,
    collections.abc.Callable,
    collections.abc.Collection,
    collections.abc.Container,
    collections.abc.Generator,
    collections.abc.Hashable,
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Mapping,
    collections.abc.Reversible,
    collections.abc.Sequence,
    collections.abc.Sized,
    contextlib.AbstractContextManager,
    DataLoader,
    IterableDataset,
    torch.utils.data.Dataset,
    list,
    tuple,
    dict,
)

# What Python adds to a class when it is first asked for it, or when an instance is pickled.
_MADE_BY_ASKING = {"__annotations__", "__slotnames__"}

# Names that wrappers tend to have and loaders tend not to.
_NAMES = """
    __add__ __aiter__ __anext__ __array__ __bool__ __call__ __class_getitem__
    __contains__ __copy__ __deepcopy__ __delitem__ __enter__ __exit__ __get__ __getitem__
    __getitems__ __getnewargs__ __getstate__ __iter__ __len__ __length_hint__ __name__ __next__
    __reduce__ __reversed__ __set_name__ __setitem__ __setstate__ __slots__ __weakref__
    __wrapped__ batch_size close dataset next queue reset sampler send shutdown state_dict
    load_state_dict throw total
"""


def answers(obj: Any, *, effects: bool = True) -> dict[str, Any]:
    """Ask an object everything that does not read from it.

    Args:
        obj: A loader or an iterator.
        effects: Also ask what may have effects on the object or take a copy of it.
    """
    # The class by which Python finds special methods; a view's cannot be the loader's own.
    cls = type(obj)
    found: dict[str, Any] = {
        "class": obj.__class__,
        "class by its name": (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__),
        "class of its class": isinstance(obj.__class__, type),
        "instance of its class": (isinstance(obj, cls), isinstance(obj, obj.__class__)),
        "kinds": [kind.__name__ for kind in _KINDS if isinstance(obj, kind)],
        "dir": sorted(set(dir(obj)) - _MADE_BY_ASKING),
        "names": [name for name in _NAMES.split() if _has(obj, name)],
        "names of the class": [
            name for name in _NAMES.split() if name != "__copy__" and _has(cls, name)
        ],
        "attributes": [(name, _kind_of(obj, name)) for name in _public(obj)],
        "documentation": (obj.__doc__, getattr(obj, "__module__", None)),
        "dataclass": dataclasses.is_dataclass(obj),
        "callable": callable(obj),
        "inspect": [
            name
            for name, test in inspect.getmembers(inspect, inspect.isfunction)
            if name.startswith("is") and test(obj)
        ],
        "equal": (obj == obj, obj != obj, obj == object(), obj in [obj]),
        "signature": _try(lambda: inspect.signature(obj)),
        "signature of the class": _try(lambda: inspect.signature(cls)),
        "signature of init": _try(lambda: inspect.signature(cls.__init__)),
        "signature of bound init": _try(lambda: inspect.signature(obj.__init__)),
        "vars": _try(lambda: {name: value.__class__ for name, value in vars(obj).items()}),
        "hash": _try(lambda: isinstance(hash(obj), int)),
        "unknown attribute": _try(lambda: obj.no_such_thing),
        "weak reference": _try(lambda: weakref.ref(obj)() is obj) if _has_dict(obj) else None,
        "add": _try(lambda: obj + object()),
        "call": None if callable(obj) else _try(obj),
        "with": None if _has(obj, "__enter__") else _try(lambda: _enter(obj)),
        "set": _try(lambda: _set_and_delete(obj)),
    }
    if effects:
        found |= {
            "len": _try(lambda: len(obj)),
            "bool": _try(lambda: bool(obj)),
            "length hint": _try(lambda: operator.length_hint(obj, -1)),
            "repr": _try(lambda: (repr(obj), str(obj), f"{obj}")),
            "state": _try(lambda: type(obj.__getstate__())),
            "pickle": _try(lambda: _about(pickle.loads(pickle.dumps(obj)))),
            "copy": _try(lambda: _copied(obj, copy.copy)),
            "deep copy": _try(lambda: _copied(obj, copy.deepcopy)),
        }
    return found


def _try(question: Callable[[], Any]) -> Any:
    try:
        answer = question()
    except Exception as error:
        return type(error), plain_text(error)
    return answer if isinstance(answer, (dict, bool, int)) else plain_text(answer)


def plain_text(value: Any) -> str:
    """Give the text of a value without addresses, and numbers of processes and threads."""
    text = re.sub(r"0x[0-9a-f]+", "0x", str(value))
    text = re.sub(r"\b\d{5,}\b|(?<=Thread-)\d+", "#", text)
    # The messages of C name its own types with their modules, others without.
    return re.sub(r"'(?:\w+\.)+(\w+)'", r"'\1'", text)


def _has(obj: Any, name: str) -> bool:
    try:
        return hasattr(obj, name)
    except Exception:  # an attribute may raise anything
        return False


def _has_dict(obj: Any) -> bool:
    return hasattr(obj, "__dict__")


def _public(obj: Any) -> list[str]:
    return [name for name in sorted(set(dir(obj))) if not name.startswith("__")]


def _kind_of(obj: Any, name: str) -> Any:
    return _try(lambda: type(getattr(obj, name)).__name__)


def _enter(obj: Any) -> None:
    with obj:
        pass


def _set_and_delete(obj: Any) -> tuple[Any, ...]:
    obj.set_by_a_test = 1
    held = "set_by_a_test" in vars(obj), obj.set_by_a_test
    del obj.set_by_a_test
    return *held, hasattr(obj, "set_by_a_test")


def _about(obj: Any) -> tuple[Any, ...]:
    return obj.__class__, sorted(getattr(obj, "__dict__", ())), _try(lambda: len(obj))


def _copied(obj: Any, how: Callable[[Any], Any]) -> tuple[Any, ...]:
    twin = how(obj)
    about = _about(twin)
    if not _has_dict(obj):
        return about
    twin.set_by_a_test = 1
    return *about, hasattr(obj, "set_by_a_test")
