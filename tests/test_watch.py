"""What `watch` records of real loaders, read back from the file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from open_runs import finish_runs
from prefetch_generator import BackgroundGenerator
from torch.utils.data import DataLoader, Dataset

import probe
from probe.store.queries import Loader, Run, Steps, Store

MS = 1_000_000


class Slow(Dataset[torch.Tensor]):
    """Samples that take a known time to load."""

    def __init__(self, length: int, seconds: float = 0.0) -> None:
        self.length, self.seconds = length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        return torch.full((3,), float(index))


def read(name: str = "train", db: str | Path = "probe.db") -> tuple[Run, Loader, Steps]:
    finish_runs()
    with Store(db) as store:
        run = store.runs()[0]
        (loader,) = (found for found in store.loaders(run.id) if found.name == name)
        return run, loader, store.steps(run.id, loader.id)


def busy(seconds: float) -> None:
    """Work that takes a known time: sleeping would be late by a random amount."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@pytest.mark.parametrize("workers", [0, 2])
def test_steps_add_up_to_the_wall_time_of_their_loop(workers: int) -> None:
    loader = probe.watch(DataLoader(Slow(40, 0.001), batch_size=4, num_workers=workers))
    walls = []
    with probe.run():  # beginning a run takes its time before the loop's first step
        for _ in range(3):
            began = time.perf_counter_ns()
            for _ in loader:
                time.sleep(0.002)
            walls.append(time.perf_counter_ns() - began)
    _, row, steps = read()
    assert (row.length, len(steps), row.num_workers) == (10, 30, workers)
    for epoch, wall in enumerate(walls):
        mine = steps.epoch == epoch
        assert 0 <= wall - steps.step_ns[mine].sum() < 5 * MS
        ends = steps.start_ns[mine] + steps.step_ns[mine]
        np.testing.assert_array_equal(ends[:-1], steps.start_ns[mine][1:])
        assert list(steps.epoch_start[mine]) == [True] + [False] * 9
    assert np.all(steps.samples == 4)
    assert np.all(steps.bytes == 4 * 3 * 4)


def test_known_wait_of_a_plain_loader_is_measured_within_one_percent() -> None:
    for _ in probe.watch(DataLoader(Slow(60, 0.020), batch_size=1)):
        busy(0.040)
    _, _, steps = read()
    # The median, since another program may take the core away from a step.
    assert np.median(steps.wait_ns / steps.step_ns) == pytest.approx(1 / 3, abs=0.01)


def test_a_background_thread_hides_the_wait_it_hides() -> None:
    loader = DataLoader(Slow(60, 0.020), batch_size=1)
    # The loop sleeps: a device computes while the host waits, and the thread may load.
    for _ in probe.watch(BackgroundGenerator(iter(loader))):
        time.sleep(0.040)
    _, _, steps = read()
    assert np.median(steps.wait_ns / steps.step_ns) < 0.03


def test_work_that_is_excluded_is_not_wait() -> None:
    excluded = []
    for _ in probe.watch([torch.zeros(3)] * 60):  # ready: any wait would be invented
        busy(0.010)
        began = time.perf_counter_ns()
        with probe.exclude("logging"):
            busy(0.030)
        excluded.append(time.perf_counter_ns() - began)
    _, _, steps = read()
    assert np.median(steps.wait_ns / steps.step_ns) < 0.01
    assert np.median(steps.other_ns) == pytest.approx(np.median(excluded), rel=0.01)


def test_worker_start_up_is_wait_of_the_first_step_of_an_epoch() -> None:
    loader = DataLoader(Slow(8), batch_size=1, num_workers=1, multiprocessing_context="spawn")
    for _ in probe.watch(loader):
        time.sleep(0.001)
    _, row, steps = read()
    assert row.start_method == "spawn"
    # A spawned worker imports torch before it can serve.
    assert steps.wait_ns[0] > 300 * MS
    assert steps.wait_ns[1:].max() < steps.wait_ns[0]


def test_a_loop_left_early_ends_there() -> None:
    loader = probe.watch(DataLoader(Slow(100), batch_size=1))
    for index, _ in enumerate(loader):
        time.sleep(0.005)
        if index == 9:
            break
    time.sleep(0.3)
    _, row, steps = read()
    assert len(steps) == 10
    assert row.length is None
    assert steps.compute_ns[-1] < 100 * MS


def test_training_and_validation_are_two_loaders_of_one_run() -> None:
    train = probe.watch(DataLoader(Slow(6), batch_size=1), name="train")
    val = probe.watch(DataLoader(Slow(4, 0.005), batch_size=1), name="val")
    for _ in range(2):
        for _ in train:
            time.sleep(0.001)
        for _ in val:
            time.sleep(0.001)
    run, _, steps = read("train")
    assert len(steps) == 12
    assert steps.other_ns[1:6].sum() == 0
    _, _, val_steps = read("val")
    assert len(val_steps) == 8
    assert val_steps.wait_ns.min() > 4 * MS
    with Store("probe.db") as store:
        assert len(store.runs()) == 1
        kinds = [(event.kind, event.label) for event in store.events(run.id)]
    assert kinds == [("epoch", "train"), ("epoch", "val")] * 2


def test_a_step_holds_the_batch_it_was_given_and_nothing_longer() -> None:
    class Token:
        alive = 0

        def __init__(self) -> None:
            Token.alive += 1

        def __del__(self) -> None:
            Token.alive -= 1

    def tokens() -> Iterator[Token]:
        for _ in range(5):
            assert Token.alive == 0, "a batch outlived its step"
            yield Token()

    for token in probe.watch(tokens()):
        del token
    assert len(read()[2]) == 5


def test_errors_of_the_loader_arrive_unchanged() -> None:
    error = ValueError("corrupt image")

    def broken() -> Iterator[int]:
        yield 1
        raise error

    watched = iter(probe.watch(broken()))
    assert next(watched) == 1
    with pytest.raises(ValueError, match="corrupt image") as caught:
        next(watched)
    assert caught.value is error


def test_a_run_names_itself_and_says_where_it_ran() -> None:
    with probe.run(
        "baseline", strategy="plain", experiment="sweep", tags=["a100"], notes="first"
    ) as run:
        for _ in probe.watch(DataLoader(Slow(4), batch_size=2, drop_last=True)):
            pass
    with Store("probe.db") as store:
        row = store.run("baseline")
        (loader,) = store.loaders(row.id)
    assert row.uid == run.uid
    assert (row.strategy, row.experiment, row.tags, row.notes) == (
        "plain", "sweep", ["a100"], "first",
    )  # fmt: skip
    assert row.status == "finished"
    assert row.ended_at is not None
    assert row.torch == torch.__version__
    assert row.device == "cpu"
    assert row.config["torch_threads"] == torch.get_num_threads()
    assert "pytest" in (row.command or "")
    assert row.dropped == 0
    assert row.overhead_ns is not None
    assert row.overhead_ns > 0
    assert (loader.chain, loader.dataset, loader.batch_size) == (["DataLoader"], "Slow", 2)
    assert (loader.pin_memory, loader.in_order) == (False, True)


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError, "failed"), (KeyboardInterrupt, "interrupted")]
)
def test_a_run_that_an_error_ends_says_so(error: type[BaseException], status: str) -> None:
    def train() -> None:
        with probe.run("doomed"):
            for _ in probe.watch([1, 2, 3]):
                raise error

    with pytest.raises(error):
        train()
    with Store("probe.db") as store:
        assert store.run("doomed").status == status
        assert len(store.steps(1, 1)) == 1


def test_the_same_loop_under_another_strategy_is_another_run() -> None:
    for strategy in ("plain", "background"):
        for _ in range(2):
            for _ in probe.watch([1, 2, 3], strategy=strategy):
                pass
        for _ in probe.watch([1], name="val", strategy=strategy):
            pass
    finish_runs()
    with Store("probe.db") as store:
        runs = store.runs()
        assert [run.strategy for run in runs] == ["background", "plain"]
        assert [len(store.steps(run.id, store.loaders(run.id)[0].id)) for run in runs] == [6, 6]
        assert [run.status for run in runs] == ["finished", "finished"]


def test_settings_come_from_argument_then_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROBE_DB", str(tmp_path / "env.db"))
    monkeypatch.setenv("PROBE_RUN", "from-env")
    monkeypatch.setenv("PROBE_STRATEGY", "env strategy")
    for _ in probe.watch([1, 2]):
        pass
    run, _, _ = read(db="env.db")
    assert (run.name, run.strategy) == ("from-env", "env strategy")
    for _ in probe.watch([1, 2], run="named", strategy="given", db=tmp_path / "deep" / "arg.db"):
        pass
    run, _, _ = read(db="deep/arg.db")
    assert (run.name, run.strategy) == ("named", "given")


def test_disabled_means_the_loader_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PROBE_DISABLE", "1")
    loader = [1, 2, 3]
    assert probe.watch(loader) is loader
    with probe.run("nothing") as run, probe.exclude(), probe.copy():
        assert run.uid is None
    assert list(tmp_path.iterdir()) == []


def test_watching_twice_records_once() -> None:
    for _ in probe.watch(probe.watch([1, 2, 3])):
        pass
    assert len(read()[2]) == 3


@pytest.mark.parametrize("thing", [5, None, DataLoader])
def test_something_that_is_no_loader_is_refused_in_one_sentence(thing: Any) -> None:
    with pytest.raises(TypeError, match=r"probe\.watch needs a loader .* it was given"):
        probe.watch(thing)


def test_the_wrapper_answers_as_the_loader() -> None:
    loader = DataLoader(Slow(8), batch_size=2, shuffle=True)
    watched = probe.watch(loader)
    assert isinstance(watched, DataLoader)
    assert len(watched) == 4
    assert watched.dataset is loader.dataset
    assert vars(watched) is vars(loader)
    watched.note = "set through"  # type: ignore[attr-defined]
    assert loader.note == "set through"  # type: ignore[attr-defined]
    generator = probe.watch(x for x in [1])
    assert not hasattr(generator, "__len__")
    with pytest.raises(TypeError, match="has no len"):
        len(generator)  # type: ignore[arg-type]


def test_random_state_is_the_same_after_a_watched_epoch() -> None:
    def epoch(wrap: Any) -> tuple[list[float], torch.Tensor]:
        torch.manual_seed(3)
        loader = wrap(DataLoader(Slow(16), batch_size=4, shuffle=True))
        return [float(batch.sum()) for batch in loader], torch.get_rng_state()

    plain, plain_state = epoch(lambda loader: loader)
    watched, watched_state = epoch(probe.watch)
    assert plain == watched
    assert torch.equal(plain_state, watched_state)
