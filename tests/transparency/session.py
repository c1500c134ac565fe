"""One program, run unwatched and watched, and everything of it that somebody could notice.

A program is a small function that is given a `Session`. It asks the session to watch what it reads
from, trains on the batches, and notes what it sees. `differences` runs it twice and compares.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import hashlib
import multiprocessing
import pickle
import random
import re
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from questions import answers, plain_text

import probe

Program = Callable[["Session"], None]

# How long threads and processes may take to end after whatever ended them.
_SETTLE_S = 0.05


@dataclasses.dataclass(frozen=True)
class Arrangement:
    """A program of the table.

    Args:
        name: What it arranges, in words.
        program: The program.
        inside: It also has something to watch inside the outermost loader.
        recorded: Watching the outermost object records steps.
        light: It starts no process and needs no library; the mutants are tried on these.
        racing: A thread of the loader works while the program trains, so that the state of the
            global generators and the life of a batch in the middle of an epoch are left to chance.
    """

    name: str
    program: Program
    inside: bool = False
    recorded: bool = True
    racing: bool = False


ARRANGEMENTS: list[Arrangement] = []


def arrangement(name: str, **options: bool) -> Callable[[Program], Program]:
    """Put a program into the table."""

    def add(program: Program) -> Program:
        ARRANGEMENTS.append(Arrangement(name, program, **options))
        return program

    return add


class Session:
    """What a program does and what it sees.

    Args:
        outside: Whether `watch` watches.
        inside: Whether `watch_inside` watches.
        racing: See `Arrangement`.
    """

    def __init__(self, *, outside: bool, inside: bool, racing: bool) -> None:
        self.seen: list[tuple[str, Any]] = []
        self._outside, self._inside, self._racing = outside, inside, racing
        self._model = torch.nn.Linear(3, 1)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)
        self.loaders: list[tuple[str, weakref.ref[Any]]] = []
        self._batch: list[weakref.ref[Any]] = []
        self._threads = set(threading.enumerate())
        self._children = set(multiprocessing.active_children())

    def watch(self, loader: Any, **settings: Any) -> Any:
        """The line that a user adds."""
        return self._watched(loader, settings, self._outside)

    def watch_inside(self, loader: Any, **settings: Any) -> Any:
        """The same line around what a prefetcher reads from."""
        return self._watched(loader, {"name": "inside", **settings}, self._inside)

    def _watched(self, loader: Any, settings: dict[str, Any], really: bool) -> Any:
        for obj in (loader, getattr(loader, "__dict__", {}).get("dataset")):
            if obj is not None:
                with contextlib.suppress(TypeError):  # lists and other built-in types
                    self.loaders.append((type(obj).__name__, weakref.ref(obj)))
        return probe.watch(loader, **settings) if really else loader

    def note(self, what: str, value: Any) -> None:
        """Put something down that must be the same."""
        self.seen.append((what, canonical(value)))

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        """Note what an action returns or raises."""
        try:
            self.note(what, action())
        except Exception as error:
            self.note(what, error)

    def step(self, batch: Any) -> None:
        """Train on a batch."""
        self.note("batch", batch)
        if not self._racing:
            self.note("random state", random_state())
        tensors = list(_tensors(batch))
        self._batch = [weakref.ref(tensor) for tensor in tensors]
        for tensor in tensors:
            numbers = tensor.detach().double()
            if numbers.numel():
                features = torch.stack([numbers.mean(), numbers.max(), numbers.min()]).float()
                self._optimizer.zero_grad()
                self._model(features / 100).square().sum().backward()
                self._optimizer.step()

    def released(self) -> None:
        """Note whether the batch is alive though the program has dropped it."""
        if not self._racing:
            self.note("batch alive after its step", [ref() is not None for ref in self._batch])

    def train(self, loader: Any, *, epochs: int = 1, stop: int | None = None) -> None:
        """Loop over a loader as most programs do.

        Args:
            loader: The loader.
            epochs: How often.
            stop: Leave each epoch after so many steps.
        """
        for epoch in range(epochs):
            self.note("epoch", epoch)
            count = 0  # by hand: `enumerate` would keep the batch
            for batch in loader:
                self.step(batch)
                del batch
                self.released()
                count += 1  # noqa: SIM113
                if count == stop:
                    break
            self.note("random state after the epoch", None if self._racing else random_state())

    def drive(self, iterator: Any, steps: int) -> None:
        """Fetch so many batches by `next`, and note the error that ends it early."""
        for _ in range(steps):
            try:
                batch = next(iterator)
            except Exception as error:
                self.note("ended by", error)
                return
            self.step(batch)
            del batch
            self.released()

    def ask(self, obj: Any, *, effects: bool = True) -> None:
        """Note how an object answers; see `answers`."""
        for question, answer in answers(obj, effects=effects).items():
            self.note(question, answer)

    def left_over(self) -> None:
        """Note the threads and processes that are still there."""
        time.sleep(_SETTLE_S)
        threads = [
            re.sub(r"\d+", "#", thread.name)
            for thread in set(threading.enumerate()) - self._threads
            if not thread.name.startswith("probe-")
        ]
        children = set(multiprocessing.active_children()) - self._children
        self.note("threads left", sorted(threads))
        self.note("processes left", len(children))

    def end(self) -> None:
        """Note what holds after the program has returned."""
        self.left_over()
        self.note(
            "loaders and data sets alive", [(name, ref() is not None) for name, ref in self.loaders]
        )
        self.note("weights", dict(self._model.named_parameters()))
        self.note("random state at the end", random_state())


def differences(
    arrangement: Arrangement, *, outside: bool = True, inside: bool = False
) -> list[str]:
    """Run a program without and with `watch` and say what is not the same."""
    plain = run(arrangement, outside=False, inside=False)
    watched = run(arrangement, outside=outside, inside=inside)
    found = []
    for (what, before), (also, after) in zip(plain, watched, strict=False):
        if (what, before) != (also, after):
            found.append(
                f"{what}: {_excerpt(before, after)} became {also}: {_excerpt(after, before)}"
            )
    if len(plain) != len(watched):
        longer = max(plain, watched, key=len)
        found.append(f"{len(plain)} observations became {len(watched)}: {longer[-1]!r:.300}")
    return found


def _excerpt(mine: Any, other: Any) -> str:
    """Show a value from shortly before the place at which it differs."""
    text = repr(mine)
    pairs = enumerate(zip(text, repr(other), strict=False))
    common = next((index for index, (a, b) in pairs if a != b), 0)
    return text[max(0, common - 60) : common + 120]


def run(arrangement: Arrangement, *, outside: bool, inside: bool) -> list[tuple[str, Any]]:
    """Run a program once and return what it saw."""
    random.seed(11)
    np.random.seed(12)
    torch.manual_seed(13)
    _leave_imports_alone()
    gc.collect()
    session = Session(outside=outside, inside=inside, racing=arrangement.racing)
    # Without the collector only what is in no cycle goes, and always at the same moment.
    gc.disable()
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                arrangement.program(session)
            except Exception as error:
                session.note("the program ended by", error.with_traceback(None))
            session.end()
        session.note("warnings", [(w.category, str(w.message)) for w in said])
    finally:
        gc.enable()
    return session.seen


@functools.cache
def _leave_imports_alone() -> None:
    """Keep the collector from walking every library again for each run."""
    gc.collect()
    gc.freeze()


def random_state() -> str:
    """Digest the state of the global generators of torch, NumPy and Python."""
    state = (torch.get_rng_state().tolist(), np.random.get_state(legacy=False), random.getstate())
    state[1]["state"]["key"] = state[1]["state"]["key"].tolist()
    return hashlib.sha256(pickle.dumps(repr(state))).hexdigest()[:12]


def canonical(value: Any) -> Any:
    """Turn a value into one that compares, and keep nothing of it alive."""
    if value is None or type(value) in (bool, int, float, bytes):
        return value
    if type(value) is str:
        return plain_text(value)
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    cls = canonical(value.__class__)
    if isinstance(value, torch.Tensor):
        numbers = value.detach().double().tolist()
        return cls, str(value.dtype), tuple(value.shape), value.is_pinned(), numbers
    if isinstance(value, np.ndarray):
        return cls, str(value.dtype), value.tolist()
    if isinstance(value, BaseException):
        causes = (canonical(type(value.__cause__)), canonical(type(value.__context__)))
        return cls, _without_our_frames(plain_text(value)), *causes
    if isinstance(value, Mapping):
        return cls, [(canonical(key), canonical(item)) for key, item in value.items()]
    if isinstance(value, (tuple, list)):
        return cls, [canonical(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return cls, sorted(map(repr, value))
    if hasattr(value, "__dict__"):
        return cls, canonical(dict(vars(value)))
    return cls, plain_text(value)


def _without_our_frames(text: str) -> str:
    """Take the frame that times a worker's fetch out of the traceback that its error carries."""
    return re.sub(r'  File "[^"]*probe/record/workers.py".*\n.*\n( +\^+\n)?', "", text)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(item)
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        yield from _tensors(vars(value))
