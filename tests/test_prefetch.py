from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections import defaultdict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.utils.data import DataLoader

import probe
from probe.prefetch import background, to_device
from probe.store.queries import Store

Pair = namedtuple("Pair", "x y")


@dataclass(frozen=True)
class Sample:
    image: torch.Tensor
    name: str


class Moves:
    def __init__(self, data: torch.Tensor) -> None:
        self.data = data

    def to(self, device: torch.device) -> Moves:
        return Moves(self.data.to(device))


class Fails:
    def __iter__(self) -> Iterator[int]:
        yield 0
        yield 1
        raise ValueError("batch 2 is broken")


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_background_gives_the_same_objects_in_the_same_order() -> None:
    batches = [object() for _ in range(50)]
    loader = background(batches)
    for _ in range(2):
        assert all(a is b for a, b in zip(loader, batches, strict=True))


@pytest.mark.parametrize("workers", [0, 2])
def test_background_over_a_data_loader(workers: int) -> None:
    loader = DataLoader(list(range(20)), batch_size=4, num_workers=workers)
    ahead: Any = background(loader, max_prefetch=2)
    assert len(ahead) == 5
    assert ahead.num_workers == workers
    assert ahead.dataset is loader.dataset
    for _ in range(2):
        assert [batch.tolist() for batch in ahead] == [batch.tolist() for batch in loader]


def test_background_makes_the_next_batch_while_the_loop_computes() -> None:
    def slow() -> Iterator[int]:
        for i in range(10):
            time.sleep(0.02)
            yield i

    began = time.perf_counter()
    for _ in background(slow()):
        time.sleep(0.02)
    # One after the other is 0.4 s; side by side it is 0.22 s.
    assert time.perf_counter() - began < 0.33


def test_a_loader_without_length_has_none() -> None:
    loader = background(iter([1]))
    with pytest.raises(TypeError, match="list_iterator"):
        len(loader)  # type: ignore[arg-type]
    assert loader
    assert not background([])
    assert list(loader) == [1]


def test_missing_attributes_are_missing() -> None:
    with pytest.raises(AttributeError, match="sampler"):
        _ = background([1]).sampler  # type: ignore[attr-defined]


@pytest.mark.parametrize("loader", [background(Fails()), to_device(Fails(), "meta")])
def test_an_error_comes_after_the_batches_before_it(loader: Any) -> None:
    batches = iter(loader)
    assert [next(batches), next(batches)] == [0, 1]
    with pytest.raises(ValueError, match="batch 2 is broken") as caught:
        next(batches)
    assert caught.traceback[-1].name == "__iter__"  # where it happened, not where it surfaced
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("wrap", [background, lambda loader: to_device(loader, "meta")])
def test_an_exhausted_iterator_stays_exhausted(wrap: Any) -> None:
    iterator = iter(wrap([1]))
    assert next(iterator) == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize("max_prefetch", [1, 3])
def test_a_break_ends_the_thread_and_lets_go_of_the_loader(max_prefetch: int) -> None:
    made = []

    def endless() -> Iterator[int]:
        while True:
            made.append(len(made))
            yield made[-1]

    before = threads()
    source = endless()
    gone = weakref.ref(source)
    for batch in background(source, max_prefetch):
        if batch == 3:
            time.sleep(0.05)  # long enough to block the thread on its full queue
            break
    del source
    assert threads() == before
    assert gone() is None
    assert len(made) <= 4 + max_prefetch + 2


def test_dropping_an_iterator_needs_no_garbage_collector() -> None:
    before = threads()
    gc.disable()
    try:
        for wrap in (background, lambda loader: to_device(loader, "meta")):
            iterator = iter(wrap(Fails()))
            assert [next(iterator), next(iterator)] == [0, 1]  # it may know of the error by now
            gone = weakref.ref(iterator)
            del iterator
            assert gone() is None
        assert threads() == before
    finally:
        gc.enable()


def test_closing_an_iterator_ends_it() -> None:
    before = threads()
    iterator: Any = iter(background([1, 2, 3]))
    assert next(iterator) == 1
    iterator.close()
    iterator.close()
    assert threads() == before
    with pytest.raises(StopIteration):
        next(iterator)


def test_the_queue_can_be_looked_at() -> None:
    iterator: Any = iter(background([1, 2, 3], max_prefetch=2))
    next(iterator)
    deadline = time.monotonic() + 5
    while iterator.queue.qsize() < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert iterator.queue.qsize() == 2


def test_to_device_on_the_cpu_is_the_loader_itself() -> None:
    loader = DataLoader([1, 2])
    assert to_device(loader, "cpu") is loader


def test_to_device_moves_every_tensor_and_nothing_else() -> None:
    x = torch.zeros(2, 3)
    label = object()
    batch = {
        "tuple": (x, 1, "text"),
        "list": [x, None],
        "pair": Pair(x, label),
        "sample": Sample(x, "name"),
        "default": defaultdict(list, {"a": x}),
        "object": Moves(x),
        "class": Moves,
    }
    (moved,) = to_device([batch], "meta")
    assert moved["tuple"][0].is_meta
    assert moved["tuple"][1:] == (1, "text")
    assert moved["list"][0].is_meta
    assert moved["list"][1] is None
    assert type(moved["pair"]) is Pair
    assert moved["pair"].x.is_meta
    assert moved["pair"].y is label
    assert type(moved["sample"]) is Sample
    assert moved["sample"].image.is_meta
    assert moved["sample"].name == "name"
    assert moved["default"].default_factory is list
    assert moved["default"]["a"].is_meta
    assert moved["object"].data.is_meta
    assert moved["class"] is Moves
    assert batch["sample"].image is x  # the loader's own batch is left alone


def test_to_device_lets_a_packed_sequence_move_itself() -> None:
    packed = pack_sequence([torch.zeros(3), torch.zeros(2)])
    (moved,) = to_device([packed], "meta")
    assert isinstance(moved, PackedSequence)
    assert moved.data.is_meta
    assert not moved.batch_sizes.is_meta  # its contract: sizes stay on the host


def test_to_device_delivers_a_short_last_batch() -> None:
    loader = DataLoader(torch.arange(10.0), batch_size=4)
    assert [len(batch) for batch in to_device(loader, "meta")] == [4, 4, 2]


def test_to_device_works_one_batch_ahead() -> None:
    asked = []

    def source() -> Iterator[int]:
        for i in range(3):
            asked.append(i)
            yield i

    iterator = iter(to_device(source(), "meta"))
    assert asked == []
    assert next(iterator) == 0
    assert asked == [0, 1]


def test_the_work_of_to_device_counts_as_copy(tmp_path: Any) -> None:
    class SlowToMove:
        def to(self, device: torch.device) -> SlowToMove:
            time.sleep(0.01)
            return self

    db = tmp_path / "probe.db"
    with probe.run("copy", db=db):
        for _ in probe.watch(to_device([SlowToMove() for _ in range(10)], "meta")):
            pass
    with Store(db) as store:
        (run,) = store.runs()
        (loader,) = store.loaders(run.id)
        steps = store.steps(run.id, loader.id)
    assert len(steps) == 10
    assert 0.1e9 <= steps.copy_ns.sum() < 0.2e9
    assert steps.wait_ns.sum() < 0.05e9


def test_the_side_stream_is_waited_for_and_its_memory_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The order of calls, on a device without data; what they do is seen on a GPU below."""
    calls: list[Any] = []

    class Streams:
        class Stream:
            def __init__(self, device: torch.device | None = None) -> None:
                self.name = "side" if device else "compute"

            def wait_stream(self, other: Streams.Stream) -> None:
                calls.append(f"{self.name} waits for {other.name}")

        @staticmethod
        def stream(stream: Streams.Stream) -> contextlib.AbstractContextManager[None]:
            calls.append(f"on {stream.name}")
            return contextlib.nullcontext()

        @staticmethod
        def current_stream(device: torch.device) -> Streams.Stream:
            return Streams.Stream()

    monkeypatch.setattr(torch, "meta", Streams, raising=False)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: calls.append("pin") or self)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda self, stream: calls.append(("keep", id(self)))
    )
    x = torch.zeros(2)
    batch = [(x, {"a": [x], "p": Pair(x, 1)}), Sample(x, "name"), Moves(x), "text"]
    batches = iter(to_device([batch, batch], "meta"))
    (a, rest), sample, moves, _ = next(batches)
    issue = ["on side", *["pin"] * 4]
    kept = [("keep", id(t)) for t in (a, rest["a"][0], rest["p"].x, sample.image, moves.data)]
    assert calls == [*issue, "compute waits for side", *kept, *issue]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("pinned", [False, True])
def test_side_stream_batches_arrive_whole(pinned: bool) -> None:
    batches = [(torch.full((1 << 20,), float(i)), {"i": i}) for i in range(40)]
    loader = DataLoader(batches, batch_size=None, pin_memory=pinned)
    heavy = torch.randn(2048, 2048, device="cuda")
    sums = []
    for x, meta in to_device(loader, "cuda"):
        assert x.is_cuda
        for _ in range(5):
            heavy = (heavy @ heavy).clamp(-1, 1)  # keeps the compute stream behind the copies
        sums.append((x.sum(), meta["i"]))
    assert all(total.item() == i * (1 << 20) for total, i in sums)
