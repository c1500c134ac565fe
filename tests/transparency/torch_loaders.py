"""Arrangements of torch's own DataLoader."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from typing import Any

import torch
from session import Session, arrangement
from things import Images, Pair, Stream, Understated
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, WeightedRandomSampler


def epochs_and_break(session: Session, loader: Any) -> None:
    session.train(loader, epochs=2)
    session.train(loader, epochs=2, stop=2)
    session.left_over()
    session.ask(loader)
    session.train(loader)


@arrangement("DataLoader, map-style")
def _(session: Session) -> None:
    epochs_and_break(session, session.watch(DataLoader(Images(), batch_size=4, shuffle=True)))


@arrangement("DataLoader, map-style, 2 workers by fork")
def _(session: Session) -> None:
    loader = DataLoader(
        Images(), batch_size=3, shuffle=True, num_workers=2, multiprocessing_context="fork"
    )
    epochs_and_break(session, session.watch(loader))


@arrangement("DataLoader, map-style, 2 workers by spawn, persistent")
def _(session: Session) -> None:
    loader = session.watch(
        DataLoader(
            Images(),
            batch_size=2,
            num_workers=2,
            persistent_workers=True,
            multiprocessing_context="spawn",
        )
    )
    session.train(loader)
    session.train(loader, stop=2)
    session.left_over()


@arrangement("DataLoader, iterable-style, 2 workers by forkserver")
def _(session: Session) -> None:
    loader = session.watch(
        DataLoader(Stream(), batch_size=2, num_workers=2, multiprocessing_context="forkserver")
    )
    session.train(loader, stop=3)
    session.left_over()


@arrangement("DataLoader, iterable-style")
def _(session: Session) -> None:
    epochs_and_break(session, session.watch(DataLoader(Stream(), batch_size=3)))


@arrangement("DataLoader, iterable-style, 2 workers by fork")
def _(session: Session) -> None:
    epochs_and_break(session, session.watch(DataLoader(Stream(), batch_size=2, num_workers=2)))


@arrangement("DataLoader, persistent workers")
def _(session: Session) -> None:
    loader = session.watch(
        DataLoader(Images(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
    )
    session.note("same iterator again", iter(loader) is iter(loader))
    session.note("kept", loader._iterator == iter(loader))
    epochs_and_break(session, loader)
    del loader
    session.left_over()


@arrangement("DataLoader, batch_size=None")
def _(session: Session) -> None:
    epochs_and_break(session, session.watch(DataLoader(Images(5), batch_size=None)))


@arrangement("DataLoader, batch_sampler")
def _(session: Session) -> None:
    sampler = BatchSampler(RandomSampler(range(10)), 3, drop_last=True)
    epochs_and_break(session, session.watch(DataLoader(Images(), batch_sampler=sampler)))


@arrangement("DataLoader, weighted sampler, own generator, pinned memory asked for")
def _(session: Session) -> None:
    generator = torch.Generator().manual_seed(5)
    sampler = WeightedRandomSampler([1.0, 2.0, 3.0], 9, generator=generator)
    loader = session.watch(
        DataLoader(Images(), 2, sampler=sampler, generator=generator, pin_memory=True)
    )
    epochs_and_break(session, loader)
    session.note("generator", generator.get_state())


def as_pairs(samples: list[Any]) -> Pair:
    return Pair(torch.stack([image for image, _ in samples]), [label for _, label in samples])


@arrangement("DataLoader, named tuples from a collate function")
def _(session: Session) -> None:
    loader = DataLoader(Images(), batch_size=5, collate_fn=as_pairs, drop_last=True)
    epochs_and_break(session, session.watch(loader))


@arrangement("DataLoader, more batches than its length says")
def _(session: Session) -> None:
    loader = session.watch(DataLoader(Understated(), batch_size=2))
    session.train(loader)  # nobody has asked for the length: no warning
    session.note("length", len(loader))
    session.train(loader)  # now there is one


@arrangement("DataLoader, an error in the middle")
def _(session: Session) -> None:
    iterator = iter(session.watch(DataLoader(Images(broken=5), batch_size=2)))
    for _ in range(6):
        session.drive(iterator, 1)


@arrangement("DataLoader, an error in a worker")
def _(session: Session) -> None:
    iterator = iter(session.watch(DataLoader(Images(broken=5), batch_size=2, num_workers=2)))
    session.drive(iterator, 2)
    session.drive(iterator, 1)
    session.drive(iterator, 9)
    iterator._shutdown_workers()  # torch's error keeps the iterator in a cycle
    session.left_over()


@arrangement("DataLoader, a training step that raises")
def _(session: Session) -> None:
    loader = session.watch(DataLoader(Images(), batch_size=2, num_workers=2))

    def diverge() -> None:
        for batch in loader:
            session.step(batch)
            raise ArithmeticError("loss is nan")

    session.attempt("the epoch", diverge)
    session.left_over()


@arrangement("DataLoader, iterator driven by next")
def _(session: Session) -> None:
    iterator = iter(session.watch(DataLoader(Images(), batch_size=4)))
    session.ask(iterator)
    session.note("own iterator", iter(iterator) is iterator)
    session.drive(iterator, 5)
    session.ask(iterator)


@arrangement("DataLoader, iterator with workers driven by next, then dropped")
def _(session: Session) -> None:
    iterator = iter(session.watch(DataLoader(Images(), batch_size=2, num_workers=2)))
    session.drive(iterator, 2)
    session.ask(iterator)
    del iterator
    session.left_over()


@arrangement("DataLoader, gradient accumulation and validation in the epoch")
def _(session: Session) -> None:
    train = session.watch(DataLoader(Images(), batch_size=1, shuffle=True))
    val = session.watch(DataLoader(Images(6), batch_size=2), name="val")
    iterator = iter(train)
    for _ in range(3):
        session.drive(iterator, 4)
        session.train(val)


@arrangement("DataLoader, zip of two")
def _(session: Session) -> None:
    a = session.watch(DataLoader(Images(6), batch_size=2, shuffle=True), name="a")
    b = session.watch(DataLoader(Images(9), batch_size=2, shuffle=True), name="b")
    for pair in zip(a, b, strict=False):
        session.step(pair)
    session.train(enumerate(zip(a, b, strict=False)), stop=2)


@arrangement("DataLoader, two loops at once")
def _(session: Session) -> None:
    loader = session.watch(DataLoader(Images(6), batch_size=2, shuffle=True))
    for outer in loader:
        session.step(outer)
        session.train(loader)


@arrangement("DataLoader, rebuilt by its class as trainers do")
def _(session: Session) -> None:
    loader = session.watch(DataLoader(Images(), batch_size=3))
    settings = {name: vars(loader)[name] for name in ("dataset", "batch_size", "num_workers")}
    again = type(loader)(**settings, shuffle=True)
    session.train(again)
    session.ask(again)
    session.train(loader.__class__(**settings))


@arrangement("DataLoader, attributes set and deleted")
def _(session: Session) -> None:
    inner = DataLoader(Images(), batch_size=3)
    loader = session.watch(inner)
    loader.note = "ours"
    session.note("reaches it", inner.note)
    session.attempt("forbidden", lambda: setattr(loader, "batch_size", 5))
    session.attempt("no such", lambda: delattr(loader, "nothing"))
    inner.dataset.length = 5
    session.note("length", len(loader))
    del loader.note
    session.note("gone", hasattr(inner, "note"))
    session.train(loader)


@arrangement("DataLoader, pickled, copied, deep-copied")
def _(session: Session) -> None:
    loader = session.watch(DataLoader(Images(), batch_size=3, shuffle=True))
    for twin in (pickle.loads(pickle.dumps(loader)), copy.copy(loader), copy.deepcopy(loader)):
        session.note("shares its data set", twin.dataset is loader.dataset)
        session.train(twin)
        session.ask(twin)
    session.train(loader)


def first_sum(loader: Any, results: Any) -> None:
    results.put(float(sum(image.sum() for image, _ in loader)))


@arrangement("DataLoader, sent to a spawned process", recorded=False)
def _(session: Session) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    loader = session.watch(DataLoader(Images(4), 2))
    process = context.Process(target=first_sum, args=(loader, results))
    process.start()
    process.join()
    session.note("came back", results.empty() is False and isinstance(results.get(), float))
    session.note("ended", process.exitcode)


@arrangement("DataLoader over a watched data set, 2 workers", inside=True)
def _(session: Session) -> None:
    dataset = session.watch_inside(Stream())
    session.note("is a stream", isinstance(dataset, torch.utils.data.IterableDataset))
    session.train(session.watch(DataLoader(dataset, batch_size=2, num_workers=2)))


@arrangement("DataLoader over a watched map-style data set", inside=True)
def _(session: Session) -> None:
    dataset = session.watch_inside(Images())
    session.ask(dataset)
    session.train(session.watch(DataLoader(dataset, batch_size=2, shuffle=True)))
