"""A stand-in that answers as the object it stands for.

A view of a loader has the loader's class, attributes, length, equality, hash and pickled form as
far as Python lets an object answer for another; only `iter`, `next` and, for a function, the call
go through the hooks of the subclass made here. Special methods exist on a view exactly where the
inner class has them, so `hasattr`, `len` and `bool` answer as before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

# Python looks these up on the type while it makes, destroys or lays out an object; they are the
# view's own and must not reach the inner object.
_OWN = frozenset(
    {
        "__abstractmethods__",
        "__annotations__",
        "__class__",
        "__class_getitem__",
        "__del__",
        "__delattr__",
        "__dict__",
        "__doc__",
        "__firstlineno__",
        "__getattr__",
        "__getattribute__",
        "__getstate__",
        "__init__",
        "__init_subclass__",
        "__iter__",
        "__module__",
        "__new__",
        "__next__",
        "__orig_bases__",
        "__parameters__",
        "__reduce__",
        "__reduce_ex__",
        "__setattr__",
        "__setstate__",
        "__slots__",
        "__static_attributes__",
        "__subclasshook__",
        "__weakref__",
    }
)

# `object` has these itself, so they would never reach `__getattr__`.
_FROM_OBJECT = ("__dir__", "__eq__", "__format__", "__hash__", "__ne__", "__repr__", "__str__")


class View:
    """The base of all views: what stays the same whatever the inner class is."""

    __slots__ = ("__weakref__", "_probe_inner")

    _probe_inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(_inner(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_inner(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_inner(self), name)

    @property
    def __class__(self) -> type:
        cls: type = _inner(self).__class__
        return cls

    @__class__.setter
    def __class__(self, cls: type) -> None:
        _inner(self).__class__ = cls

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        namespace: dict[str, Any] = _inner(self).__dict__
        return namespace


def slot(cls: type, name: str) -> Any:
    """Return the descriptor of a slot: a view's own state, past its forwarded attributes."""
    return inspect.getattr_static(cls, name)


_inner = slot(View, "_probe_inner").__get__


def inner_of(obj: object) -> Any:
    """Return the object behind a view, or the object itself."""
    return _inner(obj) if is_view(obj) else obj


def is_view(obj: object) -> bool:
    """Tell whether an object is a view; `isinstance` would ask the inner object."""
    return issubclass(type(obj), View)


def view_class(base: type[View], cls: type, own: dict[str, Any]) -> type[View]:
    """Make the class of views of `cls`.

    Args:
        base: A subclass of `View` that holds the state.
        cls: The inner object's class.
        own: Special methods that the views answer themselves.
    """
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__doc__": cls.__doc__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    for name in dir(cls):
        if name in _OWN or not (name.startswith("__") and name.endswith("__")):
            continue
        value = inspect.getattr_static(cls, name)
        if inspect.getattr_static(object, name, None) is value and name not in _FROM_OBJECT:
            continue
        if value is None:
            namespace[name] = None
        elif callable(value):
            namespace[name] = _forward(name, value)
    namespace["__eq__"], namespace["__ne__"] = _equal("__eq__"), _equal("__ne__")
    namespace["__init__"] = _forward("__init__", inspect.getattr_static(cls, "__init__"))
    namespace.update(own)
    return type(cls.__name__, (base,), namespace)


def _forward(name: str, like: Any) -> Callable[..., Any]:
    def method(self: View, *args: Any, **kwargs: Any) -> Any:
        return getattr(_inner(self), name)(*args, **kwargs)

    return functools.wraps(like)(method)


def _equal(name: str) -> Callable[[View, object], Any]:
    """Compare the objects behind two views; a view equals what it stands for."""

    def method(self: View, other: object) -> Any:
        inner = _inner(self)
        return getattr(inner, name)(inner_of(other))

    method.__name__ = name
    return method
