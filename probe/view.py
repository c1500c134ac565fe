"""A stand-in that answers as the object it stands for.

A view of a loader has the loader's class, attributes, length, equality, hash and pickled form as
far as Python lets an object answer for another; only `iter`, `next` and, for a function, the call
go through the hooks of the subclass made here. Special methods exist on a view exactly where the
inner class has them, so `hasattr`, `len` and `bool` answer as before.

What Python does not let a view answer: `type(view) is Class`, `issubclass(type(view), Class)`, and
the type checks that C code makes on its own types (`[1] + view_of_a_list`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

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
        "__init_subclass__",
        "__iter__",
        "__module__",
        "__new__",
        "__next__",
        "__orig_bases__",
        "__parameters__",
        "__reduce_ex__",
        "__setattr__",
        "__slots__",
        "__static_attributes__",
        "__subclasshook__",
        "__weakref__",
    }
)

# `object` has these itself, so they would never reach `__getattr__`.
_FROM_OBJECT = frozenset(
    {
        "__dir__",
        "__eq__",
        "__format__",
        "__getstate__",
        "__hash__",
        "__init__",
        "__ne__",
        "__reduce__",
        "__repr__",
        "__str__",
    }
)

# What these return stands for the object itself, as in `with loader as it` and `loader += more`.
_OPERATORS = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"
_RETURN_SELF = frozenset({"__enter__", *(f"__i{name}__" for name in _OPERATORS.split())})

C = TypeVar("C", bound=type)


class ViewType(type):
    """The class of the classes of views: it answers for the inner class what it can."""

    _probe_class: type | None

    def __getattr__(cls, name: str) -> Any:
        if cls._probe_class is None:
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        return getattr(cls._probe_class, name)

    def __dir__(cls) -> Iterable[str]:
        return super().__dir__() if cls._probe_class is None else dir(cls._probe_class)

    def __instancecheck__(cls, obj: object) -> bool:
        if cls._probe_class is None:
            return super().__instancecheck__(obj)
        return isinstance(obj, cls._probe_class)

    def __subclasscheck__(cls, other: type) -> bool:
        if cls._probe_class is None:
            return super().__subclasscheck__(other)
        return issubclass(other, cls._probe_class)

    @property
    def __signature__(cls) -> inspect.Signature:
        if cls._probe_class is None:
            raise AttributeError("__signature__")
        return inspect.signature(cls._probe_class)


def bare(cls: C) -> C:
    """Take from a class of views what `hasattr` would find on a view and not on its loader."""
    for name in ("__annotations__", "__slots__", "__weakref__"):
        if name in vars(cls):
            delattr(cls, name)
    return cls


@bare
class View(metaclass=ViewType):
    """The base of all views: what stays the same whatever the inner class is."""

    __slots__ = ("__weakref__", "_probe_inner")

    _probe_class = None
    _probe_inner: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(_inner(self), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(_inner(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_inner(self), name)

    @property
    def __class__(self) -> type:
        inner = _inner(self)
        real: Any = type(inner)
        said: Any = inner.__class__
        cls: type = said if said is real or is_view(inner) else _both(real, said)
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
    return type(type(obj)) is ViewType


def view_class(base: type[View], cls: type, own: dict[str, Any]) -> type[View]:
    """Make the class of views of `cls`.

    Args:
        base: A subclass of `View` that holds the state.
        cls: The inner object's class.
        own: What the views answer themselves.
    """
    if type(cls) is ViewType and cls._probe_class is not None:
        cls = cls._probe_class
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__doc__": _Either("__doc__", cls),
        "__module__": _Either("__module__", cls),
        "__qualname__": cls.__qualname__,
        "__new__": lambda _, *args, **kwargs: cls(*args, **kwargs),
        "_probe_class": cls,
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
    namespace.update(own)
    made: Any = ViewType(cls.__name__, (base,), namespace)
    return cast(type[View], bare(made))


class OfClass:
    """A method that Python finds on the class of a view, and `hasattr` not on the view."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, view: View | None, cls: type) -> Callable[..., Any]:
        if view is not None:
            raise AttributeError  # and so the inner object is asked
        return self._function


class _Either:
    """An attribute that a class has and an instance may have too: `__doc__` of a function."""

    def __init__(self, name: str, cls: type) -> None:
        self._name, self._cls = name, cls

    def __get__(self, view: View | None, cls: type) -> Any:
        return getattr(self._cls if view is None else _inner(view), self._name)


def _forward(name: str, like: Any) -> Callable[..., Any]:
    def method(self: View, *args: Any, **kwargs: Any) -> Any:
        return getattr(_inner(self), name)(*args, **kwargs)

    def method_of_self(self: View, *args: Any, **kwargs: Any) -> Any:
        inner = _inner(self)
        result = getattr(inner, name)(*args, **kwargs)
        return self if result is inner else result

    return functools.wraps(like)(method_of_self if name in _RETURN_SELF else method)


@functools.lru_cache(maxsize=64)
def _both(real: type, said: type) -> type:
    """Make the class of an object that answers for another class than its own.

    accelerate's loaders do so; `isinstance` holds for both classes, and must for a view of them.
    """
    namespace = {
        "__module__": said.__module__,
        "__qualname__": said.__qualname__,
        "__new__": lambda _, *args, **kwargs: said(*args, **kwargs),
    }
    try:
        return type(said.__name__, (real, said), namespace)
    except Exception:  # classes that do not go together
        return said


def _equal(name: str) -> Callable[[View, object], Any]:
    """Compare the objects behind two views; a view equals what it stands for."""

    def method(self: View, other: object) -> Any:
        inner = _inner(self)
        return getattr(inner, name)(inner_of(other))

    method.__name__ = name
    return method
