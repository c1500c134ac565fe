"""Fetches timed inside real worker processes, and the depth of real queues."""

from __future__ import annotations

import gc
import os
import queue
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from open_runs import finish_runs
from prefetch_generator import BackgroundGenerator
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

import probe
from probe.record import workers
from probe.record.loop import Loop
from probe.record.workers import WorkerInit
from probe.store.queries import Fetches, Steps, Store

MS = 1_000_000


class Sleeping(Dataset[torch.Tensor]):
    def __init__(self, length: int, seconds: float) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.full((2,), float(index))


class Burning(Sleeping):
    def __getitem__(self, index: int) -> torch.Tensor:
        until = time.thread_time() + self.seconds
        while time.thread_time() < until:
            pass
        return torch.full((2,), float(index))


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        for index in range(6):
            time.sleep(0.004)
            yield torch.full((2,), float(index + 100 * (info.id if info else 0)))


def read(name: str = "train") -> tuple[Fetches, Steps]:
    finish_runs()
    with Store("probe.db") as store:
        run = store.runs()[0]
        (loader,) = (found for found in store.loaders(run.id) if found.name == name)
        return store.fetches(run.id, loader.id), store.steps(run.id, loader.id)


def run_through(loader: Any, epochs: int = 1) -> tuple[Fetches, Steps]:
    watched = probe.watch(loader)
    for _ in range(epochs):
        for _ in watched:
            time.sleep(0.001)
    return read()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_each_batch_of_each_worker_is_timed(method: str) -> None:
    loader = DataLoader(
        Sleeping(24, 0.003), batch_size=2, num_workers=2, multiprocessing_context=method
    )
    fetches, _ = run_through(loader)
    assert sorted(zip(fetches.worker, fetches.seq, strict=True)) == [
        (worker, seq) for worker in (0, 1) for seq in range(6)
    ]
    assert np.all(fetches.wall_ns > 6 * MS)
    assert np.median(fetches.cpu_ns) < 2 * MS
    assert np.all(fetches.samples == 2)
    assert np.all(fetches.epoch == 0)


def test_work_on_a_core_is_told_from_waiting() -> None:
    fetches, _ = run_through(DataLoader(Burning(10, 0.005), batch_size=1, num_workers=1))
    assert len(fetches) == 10
    assert np.all(fetches.cpu_ns >= 4.9 * MS)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_of_later_epochs_count_on(persistent: bool) -> None:
    loader = DataLoader(
        Sleeping(8, 0.002), batch_size=1, num_workers=2, persistent_workers=persistent
    )
    fetches, steps = run_through(loader, epochs=3)
    assert len(fetches) == len(steps) == 24
    assert list(fetches.seq[fetches.worker == 0]) == list(range(12))
    assert [int((fetches.epoch == epoch).sum()) for epoch in range(3)] == [8, 8, 8]


def test_an_iterable_dataset_is_timed_too() -> None:
    fetches, steps = run_through(DataLoader(Stream(), batch_size=2, num_workers=2))
    assert len(steps) == 6
    assert len(fetches) == 6
    assert np.all(fetches.wall_ns > 8 * MS)


def test_without_workers_the_fetch_inside_next_is_timed() -> None:
    fetches, steps = run_through(DataLoader(Sleeping(10, 0.003), batch_size=1))
    assert len(fetches) == 10
    assert np.all(fetches.worker == 0)
    assert np.all(fetches.wall_ns <= steps.wait_ns)
    assert np.all(fetches.wall_ns > 3 * MS)


def test_workers_behind_a_prefetcher_are_timed() -> None:
    loader = DataLoader(Sleeping(12, 0.003), batch_size=1, num_workers=2)
    fetches, steps = run_through(probe.prefetch.background(loader))
    assert len(fetches) == len(steps) == 12


calls: list[int] = []


def user_init(worker: int) -> None:
    torch.manual_seed(worker + 7)


class Random(Sleeping):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.rand(1)


def test_the_users_own_worker_init_runs_as_before() -> None:
    def batches(wrap: Any) -> list[float]:
        torch.manual_seed(0)
        loader = DataLoader(Random(8, 0), batch_size=1, num_workers=2, worker_init_fn=user_init)
        found = [float(batch) for batch in wrap(loader)]
        assert loader.worker_init_fn is user_init
        return found

    assert batches(lambda loader: loader) == batches(probe.watch)


def test_the_loader_is_as_it_was_once_the_first_batch_has_come() -> None:
    loader = DataLoader(Sleeping(4, 0), num_workers=1)
    before = dict(vars(loader))
    for _ in probe.watch(loader):
        assert dict(vars(loader)) == before
    iter(probe.watch(loader))  # never asked for a batch
    assert dict(vars(loader)) == before


def failing_init(worker: int) -> None:
    raise OSError("no such mount")


def test_an_error_of_the_users_worker_init_arrives_unchanged() -> None:
    loader = DataLoader(Sleeping(4, 0), num_workers=1, worker_init_fn=failing_init)
    with pytest.raises(OSError, match="no such mount"):
        list(probe.watch(loader))
    assert loader.worker_init_fn is failing_init


def test_a_worker_that_dies_ends_as_it_would_have() -> None:
    loader = DataLoader(Sleeping(40, 0.02), batch_size=1, num_workers=1)
    batches = iter(probe.watch(loader))
    for _ in range(4):
        next(batches)
    (child,) = batches._workers  # type: ignore[attr-defined]
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(batches)
    del batches
    fetches, steps = read()
    assert len(steps) >= 4
    assert len(fetches) >= 4


def test_a_full_pipe_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = workers._Channel()
    report = workers._Reporter(channel.writer, 1, 0)
    began = time.perf_counter()
    for _ in range(5_000):
        report.begin()
        report(0, 1, 1, None)
        report.end()
    assert time.perf_counter() - began < 1
    channel.drain()


def test_how_many_batches_lay_ready_is_recorded() -> None:
    loader = DataLoader(Sleeping(30, 0.002), batch_size=1, num_workers=2, prefetch_factor=2)
    for _ in probe.watch(loader):
        time.sleep(0.020)
    _, steps = read()
    # The workers are ten times as fast: all they may prepare is there, 2 × 2.
    assert np.isnan(steps.ready[0]) or steps.ready[0] == 0
    assert set(steps.ready[5:-5]) <= {3.0, 4.0}


def test_a_slow_loader_has_nothing_ready() -> None:
    loader = DataLoader(Sleeping(20, 0.020), batch_size=1, num_workers=1)
    for _ in probe.watch(loader):
        pass
    _, steps = read()
    assert np.median(steps.ready[2:]) == 0


def test_the_queue_of_a_background_thread_is_seen() -> None:
    def batches() -> Iterator[int]:
        for index in range(30):
            time.sleep(0.001)
            yield index

    for _ in probe.watch(BackgroundGenerator(batches(), max_prefetch=3)):
        time.sleep(0.010)
    _, steps = read()
    assert np.all(steps.ready[5:-5] == 3)


def test_any_iterator_that_keeps_a_queue_is_seen() -> None:
    class Queued:
        def __init__(self) -> None:
            self.buffer: queue.Queue[int] = queue.Queue()
            for index in range(5):
                self.buffer.put(index)

        def __iter__(self) -> Queued:
            return self

        def __next__(self) -> int:
            try:
                return self.buffer.get_nowait()
            except queue.Empty:
                raise StopIteration from None

    for _ in probe.watch(Queued()):
        pass
    _, steps = read()
    assert list(steps.ready) == [5, 4, 3, 2, 1]


def test_a_worker_init_calls_the_users_function_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.utils.data._utils import fetch

    for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
        monkeypatch.setattr(fetcher, "fetch", fetcher.fetch)
    seen: list[int] = []
    channel = workers._Channel()
    WorkerInit(seen.append, channel.writer, 1)(3)
    assert seen == [3]


class Nested(Sleeping):
    def __getitem__(self, index: int) -> torch.Tensor:
        inner = DataLoader(Sleeping(4, 0), batch_size=1)
        return torch.stack(list(inner)).sum()


def test_a_loader_inside_a_data_set_adds_no_fetches() -> None:
    fetches, steps = run_through(DataLoader(Nested(6, 0), batch_size=1, num_workers=1))
    assert len(fetches) == len(steps) == 6


def test_two_loops_over_one_loader_keep_their_own_fetches() -> None:
    watched = probe.watch(DataLoader(Sleeping(6, 0.001), batch_size=1))
    for _ in zip(watched, watched, strict=True):
        pass
    finish_runs()
    with Store("probe.db") as store:
        counts = {row.name: len(store.fetches(1, row.id)) for row in store.loaders(1)}
    assert counts == {"train": 6, "train (2)": 6}


def test_a_background_thread_over_a_plain_loader_is_timed() -> None:
    loader = DataLoader(Sleeping(12, 0.003), batch_size=1)
    fetches, steps = run_through(probe.prefetch.background(loader))
    assert len(steps) == 12
    assert len(fetches) >= 9  # the thread begins before its loop is known
    assert np.all(fetches.wall_ns > 3 * MS)
    assert not np.isnan(steps.ready[1:]).any()


def test_loops_that_have_ended_are_let_go() -> None:
    def ended() -> int:
        gc.collect()
        return sum(type(obj) is Loop and obj.ended for obj in gc.get_objects())

    before = ended()
    for _ in range(20):
        list(probe.watch(DataLoader(Sleeping(3, 0), batch_size=1)))
    finish_runs()
    assert ended() - before <= 1
