"""`probe.watch`: the one line around a loader, and the moments at which a step begins and ends."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial, wraps
from inspect import getattr_static, isfunction
from threading import get_ident
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary, ref

from probe.environment import disabled
from probe.record import snapshot, workers
from probe.record.batch import measure
from probe.record.buffer import LIMIT, LoaderRecord
from probe.record.loop import COST_SAMPLE_MASK, Loop, split
from probe.record.warnings import warn
from probe.run import current, for_source
from probe.view import OfClass, View, bare, is_view, slot, view_class

if TYPE_CHECKING:
    from pathlib import Path

    from probe.run import Run
    from probe.run import run as named_run

L = TypeVar("L")


def watch(
    loader: L,
    name: str = "train",
    *,
    run: str | named_run | None = None,
    strategy: str | None = None,
    device: str | None = None,
    db: str | Path | None = None,
) -> L:
    """Record how long the loop waits for each batch of a loader.

    The object that comes back behaves as the loader did: the same batches in the same order, the
    same errors, length, attributes and class. Watch the outermost object that the loop reads from;
    a loader watched inside a prefetcher is recorded as its producer. Inside an epoch loop, watching
    the same loader again continues the same record.

    Args:
        loader: Anything to iterate over, an iterator, a prefetcher with a `next()` method, or a
            function that returns a batch.
        name: What the loader is for: train, val, …
        run: Name of the run, or an open `probe.run`; default `PROBE_RUN`. Inside
            `with probe.run(...)` that run is used. A new name begins a new run.
        strategy: How batches reach the loop, in words; default `PROBE_STRATEGY`.
        device: Name of the device to note in the run; default what torch uses.
        db: The file to record to; default `PROBE_DB`, else `probe.db` in the current directory.

    Returns:
        The watched loader; the loader itself when `PROBE_DISABLE=1`.

    Raises:
        TypeError: The object can neither be iterated over nor called.
    """
    if disabled() or is_view(loader):
        return loader
    cls = type(loader)
    iterable = any(_has(cls, name) for name in ("__iter__", "__next__", "__getitem__"))
    if isinstance(loader, type) or not (iterable or callable(loader) or _has_next(loader)):
        raise TypeError(
            "probe.watch needs a loader to iterate over, an iterator, or a function that returns"
            f" a batch; it was given {loader!r:.80} of type {cls.__name__}"
        )
    source = Source(name, run, strategy, device, db)
    try:
        return cast(L, _watched(loader, source))
    except Exception as error:  # a metaclass may do anything
        warn(f"{cls.__name__} cannot be watched: {error}")
        return loader


class Source:
    """What `watch` was told, and what it needs to begin a loop."""

    __slots__ = (
        "_description",
        "_home",
        "db",
        "device",
        "memo",
        "name",
        "run",
        "strategy",
    )

    def __init__(
        self,
        name: str,
        run: str | named_run | None,
        strategy: str | None,
        device: str | None,
        db: str | Path | None,
    ) -> None:
        self.name, self.run, self.strategy, self.device, self.db = name, run, strategy, device, db
        self._home = get_ident()
        self._description: dict[str, Any] | None = None
        self.memo: WeakValueDictionary[int, Watched] = WeakValueDictionary()

    def settings(self) -> dict[str, Any]:
        """What a copy of the watched loader in another process is watched with."""
        name = self.run if isinstance(self.run, str) else None
        return {
            "name": self.name,
            "run": name,
            "strategy": self.strategy,
            "device": self.device,
            "db": self.db,
        }

    def begin(self, inner: Any, *, again: bool = False) -> Loop | None:
        """Begin a loop over `inner`, or return None when nothing is to be recorded.

        Args:
            inner: The loader itself.
            again: The iterator goes on after its end: continue in the run there is, begin none.
                A prefetcher's thread that outlives its run goes on unrecorded.
        """
        try:
            if not again:
                run = for_source(self)
            else:
                run = current() if get_ident() == self._home else None
            if run is None:
                return None
            if self._description is None:
                self._description = snapshot.loader(inner)
        except Exception as error:
            warn(f"this loop is not recorded: {error}")
            return None
        loop = Loop(partial(self._attach, _reference(inner), run))
        try:
            loader = workers.dataloader_in(inner)
            if loader is not None:
                loop.undo = workers.watch_workers(loader, loop)
            loop.depth = workers.queue_depth(inner)
        except Exception as error:
            warn(f"workers are not timed: {error}")
        return loop

    def opened(self, inner: Any, iterator: Any, loop: Loop) -> None:
        """Note what an iterator that `iter()` has given shows of its queue and its fetches."""
        try:
            loop.depth = workers.queue_depth(iterator)
            loader = workers.dataloader_in(inner)
            if loader is not None and not loop.undo:
                workers.watch_fetcher(iterator, loader, loop)
            workers.hide(iterator)
        except Exception as error:
            warn(f"fetches are not timed: {error}")

    def _attach(self, inner: Callable[[], Any], run: Run, loop: Loop) -> LoaderRecord | None:
        try:
            assert self._description is not None
            record = run.loader(self.name, inner(), self._description, loop)
            if record is not None and (loop.nested or get_ident() != self._home):
                record.role = "producer"
            return record
        except Exception as error:
            warn(f"this loop is not recorded: {error}")
            return None


@bare
class Watched(View):
    """A view that times: a loader, an iterator of one, or a function that returns a batch."""

    __slots__ = ("_probe_fetch", "_probe_loop", "_probe_root", "_probe_source")

    _probe_fetch: Any
    _probe_loop: Loop | None
    _probe_root: bool
    _probe_source: Source

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._probe_inner, name)
        if name == "next" and callable(value):  # found by a `__getattr__` of the loader's own
            return wraps(value)(partial(_fetch_call, self, value))
        return value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _watch_again, (self._probe_inner, self._probe_source.settings())

    def __del__(self) -> None:
        loop = self._probe_loop
        if loop is not None:
            loop.end()


_set_inner = slot(View, "_probe_inner").__set__
_set_fetch = slot(Watched, "_probe_fetch").__set__
_set_loop = slot(Watched, "_probe_loop").__set__
_set_root = slot(Watched, "_probe_root").__set__
_set_source = slot(Watched, "_probe_source").__set__

_iterator_classes: dict[type, type[View]] = {}


def _watched(loader: Any, source: Source) -> Watched:
    """Make the view that `watch` returns; its class is its own, so that `type(x)(...)` watches."""
    cls = type(loader)

    def new(_: type, *args: Any, **kwargs: Any) -> Any:
        return watch(cls(*args, **kwargs), **source.settings())

    own = _hooks(cls)
    own["__new__"] = new
    if not own.keys() & {"__iter__", "__next__", "next"}:
        if _has(cls, "__getitem__"):
            own["__getitem__"] = _item
        elif callable(loader):
            own["__call__"] = _method("__call__", getattr_static(cls, "__call__"))
    return _make(view_class(Watched, cls, own), loader, source, loop=None, root=True)


def _iterator(inner: Any, source: Source, loop: Loop | None) -> Watched:
    cls = type(inner)
    made = _iterator_classes.get(cls)
    if made is None:
        made = _iterator_classes[cls] = view_class(Watched, cls, _hooks(cls))
    return _make(made, inner, source, loop, root=False)


def _make(cls: type[View], inner: Any, source: Source, loop: Loop | None, *, root: bool) -> Watched:
    view = cast(Watched, object.__new__(cls))
    _set_inner(view, inner)
    _set_source(view, source)
    _set_loop(view, loop)
    _set_root(view, root)
    _set_fetch(view, inner.__next__ if _has(type(inner), "__next__") else None)
    return view


def _hooks(cls: type) -> dict[str, Any]:
    own: dict[str, Any] = {"__copy__": OfClass(_copied)}
    if _has(cls, "__deepcopy__"):
        own["__deepcopy__"] = _deep_copied
    if _has(cls, "__iter__"):
        own["__iter__"] = _iter
    if _has(cls, "__next__"):
        own["__next__"] = _next
    method = getattr_static(cls, "next", None)
    if isfunction(method):
        own["next"] = _method("next", method)
    return own


def _has(cls: type, name: str) -> bool:
    return getattr(cls, name, None) is not None


def _has_next(loader: Any) -> bool:
    try:
        return callable(getattr(loader, "next", None))
    except Exception:  # an attribute that is not there may raise anything
        return False


def _iter(self: Watched) -> Any:
    inner, source = self._probe_inner, self._probe_source
    if not self._probe_root:
        iterator = iter(inner)
        return self if iterator is inner else iterator
    loop = source.begin(inner)
    if loop is None:
        iterator = iter(inner)
    else:
        iterator = loop.open(partial(iter, inner))
        source.opened(inner, iterator, loop)
    view = self if iterator is inner else source.memo.get(id(iterator))
    if view is None:
        view = source.memo[id(iterator)] = _iterator(iterator, source, loop)
        return view
    # The loader keeps one iterator and has just begun it anew.
    if view._probe_loop is not None:
        view._probe_loop.end(None if loop is None else loop.begun)
    _set_loop(view, loop)
    return view


def _next(self: Watched) -> Any:
    loop = self._probe_loop
    if loop is None or not loop.simple or loop.owner != get_ident():
        return _fetch(self, self._probe_fetch)
    # The path of nearly every step: nothing else is open on this thread. `Loop.fetch` does the
    # same in general; here it is written out, because each call would cost as much as the work.
    depth = loop.depth
    ready = None if depth is None else depth()
    asked = loop.entered = now()
    copied = copying = loop.copy
    loop.in_next = True
    try:
        batch = self._probe_fetch()
    except BaseException as error:
        loop.failed(asked, copied, now(), complete=isinstance(error, StopIteration))
        raise
    got = now()
    rows = loop.rows
    if not loop.simple or len(rows) >= LIMIT:
        loop.ready_when_asked(ready)
        loop.settle(asked, copied, got, batch)
        return batch
    loop.in_next = False
    loop.entered = got
    start, wait, other, step = loop.start, loop.wait, loop.other, loop.step
    compute = asked - start - wait - copied - other
    if compute < 0:
        wait, copied, compute, other = split(asked - start, wait, copied, other)
    rows.append(
        (
            step,
            loop.epoch,
            loop.first,
            start - loop.origin,
            wait,
            copied,
            compute,
            other,
            loop.samples,
            loop.bytes,
            loop.ready,
        )
    )
    loop.step = step + 1
    loop.first = loop.other = 0
    loop.start = asked
    loop.copy = copied = loop.copy - copying
    loop.wait = got - asked - copied
    loop.samples, loop.bytes = measure(batch)
    loop.ready = ready
    if not step & COST_SAMPLE_MASK:
        loop.cost(got)
    return batch


def _item(self: Watched, index: Any) -> Any:
    """Old sequences are iterated over by their indices, 0 and up, until IndexError."""
    getitem = partial(self._probe_inner.__getitem__, index)
    if type(index) is not int:
        return getitem()
    if index == 0:
        _end(self)
    try:
        return _fetch(self, getitem)
    except IndexError:
        _end(self, complete=True)
        raise


def _end(self: Watched, *, complete: bool = False) -> None:
    loop = self._probe_loop
    if loop is not None:
        loop.end(complete=complete)
        _set_loop(self, None)


def _method(name: str, like: Any) -> Callable[..., Any]:
    """Make the method that times `name`, a method that returns a batch."""

    def method(self: Watched, *args: Any, **kwargs: Any) -> Any:
        return _fetch_call(self, getattr(self._probe_inner, name), *args, **kwargs)

    return wraps(like)(method)


def _fetch_call(self: Watched, function: Any, *args: Any, **kwargs: Any) -> Any:
    return _fetch(self, partial(function, *args, **kwargs), ends=_is_end)


def _fetch(self: Watched, next_: Any, ends: Any = None) -> Any:
    loop = self._probe_loop
    if loop is None and not self._probe_root:
        return next_()
    if loop is None or loop.ended:
        loop = self._probe_source.begin(self._probe_inner, again=loop is not None)
        if loop is None:
            return next_()
        _set_loop(self, loop)
    return loop.fetch(next_, ends)


def _is_end(batch: Any) -> bool:
    """Tell whether a prefetcher's `next()` has said that the epoch is over."""
    if batch is None:
        return True
    return type(batch) in (tuple, list) and bool(batch) and all(item is None for item in batch)


def _copied(self: Watched) -> Any:
    return _like(self, copy.copy(self._probe_inner))


def _deep_copied(self: Watched, memo: dict[int, Any]) -> Any:
    return _like(self, copy.deepcopy(self._probe_inner, memo))


def _like(self: Watched, twin: Any) -> Any:
    if twin is self._probe_inner:
        return self
    if type(twin) is not type(self._probe_inner):
        return twin
    return _make(type(self), twin, self._probe_source, loop=None, root=self._probe_root)


def _reference(inner: Any) -> Callable[[], Any]:
    """Refer to a loader without keeping it alive; a nameless object stands for one that is gone."""
    try:
        reference = ref(inner)
    except TypeError:  # lists and other built-in types
        return lambda: inner

    def get() -> Any:
        found = reference()
        return object() if found is None else found

    return get


def _watch_again(inner: Any, settings: dict[str, Any]) -> Any:
    return watch(inner, **settings)
