"""Arrangements of loaders, prefetchers and trainers from PyPI."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import datasets
import lightning.pytorch
import torch
import torchdata.nodes
import webdataset
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from lightning.fabric import Fabric
from prefetch_generator import BackgroundGenerator, background
from session import Session, arrangement
from things import Images, Stream, batches
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from tqdm import tqdm

import probe

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    from ignite.engine import Engine, Events

tqdm.monitor_interval = 0  # its own thread would be new in the first run only


class Threaded(DataLoader[Any]):
    """The usual subclass whose iterator is made by a thread."""

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return BackgroundGenerator(super().__iter__(), max_prefetch=2)


@arrangement("BackgroundGenerator around an iterator", inside=True, racing=True)
def _(session: Session) -> None:
    loader = session.watch_inside(DataLoader(Images(), batch_size=2, shuffle=True))
    threaded = session.watch(BackgroundGenerator(iter(loader)))
    session.note("itself", iter(threaded) is threaded)
    session.train(threaded)
    session.drive(threaded, 1)
    session.ask(threaded)


@arrangement("BackgroundGenerator left early, its thread blocked", racing=True)
def _(session: Session) -> None:
    threaded = session.watch(BackgroundGenerator(torch.full((2,), float(i)) for i in range(50)))
    session.train(threaded, stop=3)
    session.note("queue", threaded.queue.qsize() <= 1)
    session.left_over()


@arrangement("BackgroundGenerator, an error in its thread", racing=True)
def _(session: Session) -> None:
    loader = session.watch(BackgroundGenerator(iter(DataLoader(Images(broken=5), batch_size=2))))
    session.attempt("the epoch", lambda: session.train(loader))


@arrangement("DataLoader subclass that returns a BackgroundGenerator", racing=True)
def _(session: Session) -> None:
    loader = session.watch(Threaded(Images(), batch_size=2))
    session.train(loader, epochs=2)
    session.ask(loader)
    session.left_over()


@arrangement("DataLoader subclass that returns a BackgroundGenerator, 2 workers", racing=True)
def _(session: Session) -> None:
    session.train(session.watch(Threaded(Images(), batch_size=2, num_workers=2)), epochs=2)
    session.left_over()


@arrangement("prefetch_generator.background as a decorator", racing=True)
def _(session: Session) -> None:
    @background(max_prefetch=3)
    def draw() -> Iterator[torch.Tensor]:
        yield from batches()

    session.train(session.watch(draw()))


@arrangement("probe.prefetch.background", inside=True, racing=True)
def _(session: Session) -> None:
    loader = session.watch_inside(DataLoader(Images(), batch_size=2, num_workers=2))
    threaded = session.watch(probe.prefetch.background(loader, max_prefetch=2))
    session.train(threaded)
    session.train(threaded, stop=2)
    session.left_over()
    session.ask(threaded)


@arrangement("tqdm around a watched loader", inside=True, recorded=False)
def _(session: Session) -> None:
    bar = tqdm(session.watch_inside(DataLoader(Images(), batch_size=4)), file=io.StringIO())
    session.train(bar)
    session.note("total", (bar.total, bar.n, len(bar)))


@arrangement("watched tqdm around a loader", inside=True)
def _(session: Session) -> None:
    loader = session.watch_inside(DataLoader(Images(), batch_size=4))
    bar = session.watch(tqdm(loader, file=io.StringIO()))
    session.train(bar)
    session.note("total", (bar.total, bar.n, len(bar)))
    with session.watch(tqdm(batches(), file=io.StringIO())) as other:
        for batch in other:
            session.step(batch)
            other.set_postfix(loss=1.0)
    session.note("generator", (other.total, other.n))


def lightning_fit(session: Session, *, hooks: bool, **options: Any) -> None:
    class Model(lightning.pytorch.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            session.note("train batch", batch)
            return self.layer(batch[0]).square().mean()

        def validation_step(self, batch: Any, index: int) -> None:
            session.note("val batch", batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    class WithHooks(Model):
        def train_dataloader(self) -> Any:
            return train()

        def val_dataloader(self) -> Any:
            return val()

    def train() -> Any:
        return session.watch(DataLoader(Images(), batch_size=2, shuffle=True))

    def val() -> Any:
        return session.watch(DataLoader(Images(4), batch_size=2), name="val")

    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    trainer = lightning.pytorch.Trainer(
        max_epochs=2,
        val_check_interval=3,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
    model = WithHooks() if hooks else Model()
    trainer.fit(model, *(() if hooks else (train(), val())))
    session.note("lightning's weights", dict(model.named_parameters()))
    session.note("steps", trainer.global_step)
    session.note("loader", trainer.train_dataloader.__class__)


@arrangement("Lightning Trainer.fit with validation inside the epoch")
def _(session: Session) -> None:
    lightning_fit(session, hooks=False)


@arrangement("Lightning with loaders from hooks, rebuilt by overfit_batches")
def _(session: Session) -> None:
    lightning_fit(session, hooks=True, overfit_batches=4)


@arrangement("Lightning Fabric setup_dataloaders")
def _(session: Session) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    inside = session.watch(DataLoader(Images(), batch_size=2, shuffle=True))
    loader = fabric.setup_dataloaders(inside)
    session.train(loader, epochs=2)
    session.ask(inside)


@arrangement("accelerate, watched after prepare")
def _(session: Session) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True)
    loader = session.watch(accelerator.prepare(DataLoader(Images(), batch_size=3, shuffle=True)))
    session.train(loader, epochs=2)
    session.train(loader, stop=2)
    session.note("end", accelerator.gradient_state.end_of_dataloader)
    session.note("total", loader.total_dataset_length)
    session.ask(loader)
    session.train(accelerator.skip_first_batches(loader, 2))


@arrangement("accelerate, watched before prepare", recorded=False)
def _(session: Session) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    accelerator = Accelerator(cpu=True)
    before = session.watch(DataLoader(Images(), batch_size=3, shuffle=True))
    session.train(accelerator.prepare(before), epochs=2)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, before)
    for image, _ in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(image.float()).square().mean())
            optimizer.step()
            optimizer.zero_grad()
    session.note("accelerate's weights", dict(model.named_parameters()))


def resume(session: Session, make: Any, *, copies: bool = True) -> None:
    loader = session.watch(make())
    iterator = iter(loader)
    session.drive(iterator, 3)
    state = loader.state_dict()
    session.note("state in the middle", state)
    session.drive(iterator, 9)
    again = session.watch(make())
    again.load_state_dict(state)
    session.train(again)
    session.ask(again, effects=copies)


@arrangement("torchdata StatefulDataLoader, state in the middle of an epoch")
def _(session: Session) -> None:
    resume(session, lambda: StatefulDataLoader(Images(), batch_size=2))


@arrangement("torchdata StatefulDataLoader, state in the middle of an epoch, 2 workers")
def _(session: Session) -> None:
    resume(session, lambda: StatefulDataLoader(Stream(), batch_size=2, num_workers=2))
    session.left_over()


@arrangement("torchdata.nodes with a prefetching thread", racing=True)
def _(session: Session) -> None:
    def make() -> Any:
        nodes = torchdata.nodes
        node = nodes.Batcher(nodes.IterableWrapper(range(20)), batch_size=4)
        return nodes.Loader(nodes.Prefetcher(node, prefetch_factor=2))

    resume(session, make, copies=False)  # a copy of its nodes is broken, and says so when it dies
    session.left_over()


@arrangement("ignite Engine", recorded=True)
def _(session: Session) -> None:
    def step(_: Any, batch: Any) -> None:
        session.step(batch)

    loader = session.watch(DataLoader(Images(), batch_size=3, shuffle=True))
    trainer, evaluator = Engine(step), Engine(step)
    val = session.watch(DataLoader(Images(4), batch_size=2), name="val")
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=2), lambda: evaluator.run(val))
    state = trainer.run(loader, max_epochs=2)
    session.note("state", (state.iteration, state.epoch_length))
    trainer.run(session.watch(batches(4)), max_epochs=1)


@arrangement("webdataset WebLoader with chained stages")
def _(session: Session) -> None:
    inner = webdataset.WebLoader(Stream(), batch_size=2, num_workers=0)
    loader = session.watch(inner.with_epoch(4))
    session.train(loader, epochs=2)
    session.note("itself", loader.with_epoch(3) == loader)
    session.ask(loader)


@arrangement("datasets.Dataset with a format and a DataLoader")
def _(session: Session) -> None:
    data = datasets.Dataset.from_dict({"x": [float(i) for i in range(12)], "y": list(range(12))})
    direct = session.watch(data.with_format("torch"))
    session.train(direct)
    session.note("row", direct[3])
    session.note("shape", (len(direct), direct.column_names, direct.format))
    session.train(session.watch(DataLoader(direct, batch_size=5), name="batches"))
    session.train(session.watch(direct.iter(batch_size=4), name="iter"))


@arrangement("datasets.IterableDataset, shuffled, state in the middle")
def _(session: Session) -> None:
    data = datasets.Dataset.from_dict({"x": [float(i) for i in range(12)]}).to_iterable_dataset()
    loader = session.watch(data.shuffle(seed=3, buffer_size=5).with_format("torch"))
    loader.set_epoch(2)
    session.train(loader, stop=3)
    session.note("state", loader.state_dict())
    session.train(loader)
