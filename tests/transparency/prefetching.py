"""Arrangements of prefetchers with a `next()` method, and of loaders without end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from session import Session, arrangement
from things import (
    Endless,
    Images,
    IterablePrefetcher,
    SimplePrefetcher,
    StuckPrefetcher,
    WidePrefetcher,
)
from torch.utils.data import DataLoader


def images(session: Session, **settings: Any) -> Any:
    return session.watch_inside(DataLoader(Images(), batch_size=3, **settings))


def until_none(session: Session, prefetcher: Any) -> None:
    batch = prefetcher.next()
    while batch[0] is not None:
        session.step(batch)
        batch = prefetcher.next()
    session.note("the end", batch)
    session.note("after the end", prefetcher.next())
    session.ask(prefetcher)


@arrangement("apex prefetcher, 2-tuple", inside=True)
def _(session: Session) -> None:
    until_none(session, session.watch(SimplePrefetcher(images(session, shuffle=True))))


@arrangement("apex prefetcher, 5-tuple with a meta object", inside=True)
def _(session: Session) -> None:
    until_none(session, session.watch(WidePrefetcher(images(session, num_workers=2))))


@arrangement("apex prefetcher that repeats its last batch for ever", inside=True)
def _(session: Session) -> None:
    prefetcher = session.watch(StuckPrefetcher(images(session)))
    for _ in range(8):
        session.step(prefetcher.next())
    session.note("bound alike", prefetcher.next == prefetcher.next)


@arrangement("apex prefetcher that can be iterated over", inside=True)
def _(session: Session) -> None:
    prefetcher = session.watch(IterablePrefetcher(images(session)))
    session.step(prefetcher.next())
    session.train(prefetcher)
    session.ask(prefetcher)


@arrangement("endless loader that restarts in the middle", inside=True)
def _(session: Session) -> None:
    loader = session.watch(Endless(images(session, shuffle=True), 6))
    session.train(loader, epochs=2)
    session.note("restarts", loader.restarts)
    session.ask(loader)


@arrangement("endless generator left by a counter", inside=True)
def _(session: Session) -> None:
    def forever(loader: Any) -> Iterator[Any]:
        while True:
            yield from loader

    iterator = iter(session.watch(forever(images(session))))
    for _ in range(7):
        session.step(next(iterator))
    iterator.close()
    session.drive(iterator, 1)
