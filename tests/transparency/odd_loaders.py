"""Arrangements of home-made loaders, functions and iterators."""

from __future__ import annotations

import asyncio
import copy
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from odd_things import BothWays, Failing, Hostile, Particular, Settings
from session import Session, arrangement
from things import (
    Images,
    Keeping,
    OldSequence,
    OnlyNext,
    Reusing,
    SelfIterating,
    SimplePrefetcher,
    Slotted,
    batches,
)
from torch.utils.data import DataLoader


@arrangement("loader whose iter() returns itself")
def _(session: Session) -> None:
    loader = session.watch(SelfIterating())
    session.note("itself", iter(loader) is loader)
    session.train(loader, epochs=2)
    session.train(loader, stop=2)
    session.drive(loader, 4)
    session.note("epochs", loader.epoch)
    session.ask(loader)


@arrangement("kept iterators driven by next")
def _(session: Session) -> None:
    loader = session.watch(Keeping())
    iterators = [iter(loader) for _ in range(4)]
    session.note("kept", [[a is b for a in iterators] for b in iterators])
    for iterator in iterators:
        session.drive(iterator, 3)
    session.note("asked", loader.asked)


@arrangement("loader that re-uses its buffer and counts")
def _(session: Session) -> None:
    loader = session.watch(Reusing())
    for batch in loader:
        session.step(batch)
        session.note("same buffer", batch is loader.buffer)
        session.note("state", loader.state_dict())
        if loader.yielded == 3:
            break
    session.train(loader)
    session.ask(loader)


@arrangement("function that returns a batch")
def _(session: Session) -> None:
    def get_batch(split: str, size: int = 2) -> tuple[torch.Tensor, str]:
        """Draw a batch."""
        return torch.rand(size), split

    watched = session.watch(get_batch)
    for _ in range(4):
        session.step(watched("train", size=3))
    session.attempt("wrong arguments", lambda: watched(siz=1))
    session.ask(watched)


@arrangement("method, partial, lambda and built-in functions that return a batch")
def _(session: Session) -> None:
    source = Images()
    for function in (
        source.__getitem__,
        functools.partial(source.__getitem__, 1),
        lambda *_: source[2],
        iter([source[0]] * 3).__next__,
        batches(3).__next__,
        functools.lru_cache(source.__getitem__),
    ):
        watched = session.watch(function)
        session.attempt("batch", lambda watched=watched: session.step(watched(3)))
        session.attempt("batch", lambda watched=watched: session.step(watched()))
        session.ask(watched)


@arrangement("object that is called for a batch")
def _(session: Session) -> None:
    class Sampler:
        def __init__(self) -> None:
            self.calls = 0

        def __call__(self) -> torch.Tensor:
            self.calls += 1
            return torch.rand(2)

    watched = session.watch(Sampler())
    for _ in range(3):
        session.step(watched())
    session.note("calls", watched.calls)
    session.ask(watched)


@arrangement("old sequence protocol")
def _(session: Session) -> None:
    loader = session.watch(OldSequence())
    session.train(loader, epochs=2)
    session.train(loader, stop=2)
    session.step(loader[1])
    session.note("asked", loader.asked)
    session.attempt("beyond", lambda: loader[7])
    session.note("contained", isinstance(loader, dict))
    session.ask(loader)


@arrangement("iterator with nothing but __next__, and slots")
def _(session: Session) -> None:
    loader = session.watch(Slotted())
    session.train(loader, epochs=2)
    iterator = iter(loader)
    session.drive(iterator, 2)
    session.note("left", iterator.left)
    session.attempt("iter of it", lambda: iter(iterator))
    session.ask(iterator)
    session.ask(loader)
    alone = session.watch(OnlyNext(3), name="alone")
    session.ask(alone)
    session.drive(alone, 4)


@arrangement("built-in containers")
def _(session: Session) -> None:
    data = [torch.rand(2) for _ in range(4)]
    for container in (data, tuple(data), dict(enumerate(data)), {1, 2, 3}, range(4), "text", b"12"):
        watched = session.watch(container)
        session.train(watched, epochs=2)
        session.train(watched, stop=1)
        session.ask(watched)
        iterator = iter(watched)
        session.drive(iterator, 2)
        session.ask(iterator)
    watched = session.watch(data)
    session.note("slice", watched[1:3])
    watched.append(torch.ones(2))
    session.note("appended", len(data))
    watched += [torch.zeros(2)]
    session.train(watched)
    session.note("reversed", list(reversed(watched)))


@arrangement("map, filter, zip, enumerate, chain, islice, tee")
def _(session: Session) -> None:
    for make in (
        lambda: map(torch.neg, batches()),
        lambda: filter(lambda batch: batch.sum() > 2, batches()),
        lambda: zip(batches(), batches(3), strict=False),
        lambda: enumerate(batches()),
        lambda: itertools.chain(batches(2), batches(2)),
        lambda: itertools.islice(batches(), 1, 4),
        lambda: itertools.tee(batches())[0],
        lambda: itertools.repeat(torch.ones(2), 3),
        lambda: reversed([torch.ones(1), torch.zeros(1)]),
    ):
        watched = session.watch(make())
        session.ask(watched)
        session.train(watched, stop=2)
        session.drive(watched, 6)


@arrangement("generator with send, throw, close and a return value")
def _(session: Session) -> None:
    def talking() -> Iterator[Any]:
        try:
            got = yield torch.rand(2)
            session.note("got", got)
            try:
                yield torch.rand(2)
            except ValueError as error:
                yield error
            yield torch.rand(1)
        finally:
            session.note("closed", True)
        return "result"

    def delegate() -> Iterator[Any]:
        session.note("result", (yield from session.watch(talking())))

    for generator in (delegate(), session.watch(talking()), iter(session.watch(talking()))):
        session.step(next(generator))
        session.step(generator.send("sent"))
        session.note("thrown", generator.throw(ValueError("thrown in")))
        session.ask(generator)
        session.drive(generator, 3)
    generator = session.watch(talking())
    next(generator)
    del generator
    session.note("closed by then", True)


@arrangement("errors of every kind, and their moment")
def _(session: Session) -> None:
    error = ValueError("corrupt")
    error.__cause__ = OSError("disk")
    for failure in (error, StopAsyncIteration("odd"), MemoryError, lambda: RuntimeError("late")):
        loader = session.watch(Failing(failure))
        session.attempt("the epoch", lambda loader=loader: session.train(loader))
        session.note("calls", loader.calls)
        session.drive(loader, 5)
    for fatal in (KeyboardInterrupt("stop"), SystemExit(3), GeneratorExit("closing")):
        loader = session.watch(Failing(fatal))
        try:
            session.train(loader)
        except BaseException as caught:
            session.note("the same error", caught is fatal)
            session.note("caught", caught)
        session.drive(loader, 5)


@arrangement("StopIteration inside a generator, and of a loader without end")
def _(session: Session) -> None:
    def leaky() -> Iterator[Any]:
        yield torch.rand(1)
        next(iter([]))

    iterator = iter(session.watch(leaky()))
    session.drive(iterator, 3)

    def around() -> Iterator[Any]:
        inner = session.watch(batches(1), name="inner")
        while True:
            yield next(inner)

    session.drive(session.watch(around()), 3)


@arrangement("None as a batch, and tuples of None")
def _(session: Session) -> None:
    odd = [None, None, (None, None), [], (), {}, torch.rand(1), None]
    session.train(session.watch(odd), epochs=2)
    session.train(iter(session.watch(odd)))
    draw = session.watch(iter(odd).__next__)
    for _ in range(8):
        session.step(draw())


@arrangement("loader that is a dataclass")
def _(session: Session) -> None:
    loader = session.watch(Settings(count=3))
    session.train(loader, epochs=2)
    session.ask(loader)
    session.note("equal", loader == Settings(count=3))


@arrangement("loader for loops of both kinds, async and plain", recorded=False)
def _(session: Session) -> None:
    loader = session.watch(BothWays())

    async def loop() -> None:
        async for batch in loader:
            session.step(batch)

    asyncio.run(loop())
    session.train(loader)
    session.ask(loader)


@arrangement("loader with answers of its own to everything")
def _(session: Session) -> None:
    inner = Particular()
    loader = session.watch(inner)
    session.note("nothing was asked of it", inner.asked)
    session.train(loader, epochs=2)
    session.note("nothing was asked of it by iter and next", inner.asked)
    session.ask(loader)
    session.note("class attributes", (type(loader).default, type(loader).catalogue))
    session.note("made", type(loader).made().number)
    session.note("is one", (isinstance(inner, type(loader)), issubclass(Particular, type(loader))))
    session.note("equal", (loader == inner, inner == loader, loader == Particular(9)))
    with loader as entered:
        session.note("itself", entered is loader)
        session.train(entered)
    loader += 5
    session.train(loader)
    session.train(copy.copy(loader), stop=2)
    session.note("asked", inner.asked)


@arrangement("object whose every unknown attribute is an error")
def _(session: Session) -> None:
    loader = session.watch(Hostile())
    while (batch := loader.next()) is not None:
        session.step(batch)
    session.attempt("unknown", lambda: loader.unknown)
    # The method found late, through a wrapper of the user.

    class Proxy:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    proxy = session.watch(Proxy(SimplePrefetcher([(torch.ones(2), 1), (torch.zeros(2), 2)])))
    while (pair := proxy.next())[0] is not None:
        session.step(pair)


@arrangement("watched twice, and watched anew in every epoch")
def _(session: Session) -> None:
    loader = DataLoader(Images(6), batch_size=2, shuffle=True)
    for _ in range(3):
        session.train(session.watch(session.watch(loader)))


@arrangement("a strong reference from elsewhere, none")
def _(session: Session) -> None:
    iterator = iter(session.watch(DataLoader(Images(), batch_size=3)))
    session.note("begun, the loader dropped", [ref() is not None for _, ref in session.loaders])
    session.drive(iterator, 1)
    session.note("one batch on", [ref() is not None for _, ref in session.loaders])
