"""Runs of real DataLoader workers can be taken apart, and put together again."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from recordings import Recording
from torch.utils.data import DataLoader, Dataset

import probe
from probe import forecast
from probe.store.queries import Store, StoreError

BATCHES, EPOCHS = 42, 2


def pause_s(index: int) -> float:
    return 0.003 + 0.002 * (index % 5)


class Pauses(Dataset[torch.Tensor]):
    """Samples that are waited for, each for a time of its own."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(pause_s(index))
        return torch.full((8,), float(index))


@pytest.mark.parametrize(("workers", "in_order"), [(0, True), (1, True), (2, True), (2, False)])
def test_each_step_of_a_real_run_has_its_own_fetch(
    tmp_path: Path, workers: int, in_order: bool
) -> None:
    db = tmp_path / "probe.db"
    loader = DataLoader(Pauses(), num_workers=workers, in_order=in_order)
    seen = []
    with probe.run("real", db=db):
        watched = probe.watch(loader)
        for _ in range(EPOCHS):
            for batch in watched:
                seen.append(int(batch[0, 0]))
                time.sleep(0.002)
    with Store(db) as store:
        replay = forecast.replay(store, store.run("real"))
    recorded = replay.recorded
    # Without the 20 of warm-up and the first step of the second epoch.
    counted = [step for step in range(20, BATCHES * EPOCHS) if step != BATCHES]
    assert len(recorded.loop) == len(counted)
    slept = np.array([pause_s(seen[step]) for step in counted])
    over = recorded.fetch_off + recorded.fetch_on - slept
    if in_order:
        assert (over >= 0).all()
    assert np.median(np.abs(over)) < 0.001
    assert recorded.samples == 1
    assert 0 <= recorded.handover.receive < 0.05
    assert [run.name for run in replay.measured] == ["real"]


def test_a_quota_limits_the_cores_and_unknown_ones_do_not(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        for cores in (1.5, None, "many", True, float("inf")):
            run = recording.run(str(cores), config={"cores": cores})
            recording.steps(run, recording.loader(run), wait_ms=[5.0] * 60, compute_ms=5.0)
        path = recording.path
    names = ("1.5", "None", "many", "True", "inf")
    with Store(path) as store:
        found = [forecast.replay(store, store.run(name)) for name in names]
    assert [replay.cores for replay in found] == [1.5, None, None, None, None]


def test_only_the_newest_runs_of_the_same_work_are_held_against_it(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        for number in range(15):
            run = recording.run(f"run {number}", started_at=f"2026-01-02T03:04:{number:02}+00:00")
            recording.steps(run, recording.loader(run), wait_ms=[5.0] * 60, compute_ms=5.0)
        other = recording.run("other", command="python other.py")
        recording.steps(other, recording.loader(other), wait_ms=[5.0] * 60, compute_ms=5.0)
    with Store(recording.path) as store:
        replay = forecast.replay(store, store.run("run 0"))
    names = [run.name for run in replay.measured]
    assert names == ["run 0", *(f"run {number}" for number in range(4, 15))]


def test_a_run_without_a_loop_cannot_be_replayed(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        recording.run("empty")
    with Store(recording.path) as store, pytest.raises(StoreError, match="no watched loop"):
        forecast.replay(store, store.run("empty"))


def test_runs_that_say_nothing_do_not_keep_others_from_being_replayed(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        for name in ("kept", "other"):
            run = recording.run(name)
            recording.steps(
                run, recording.loader(run, batch_size=None), wait_ms=[5.0] * 60, compute_ms=5.0
            )
        run = recording.run("no steps")
        recording.loader(run, batch_size=None)
        run = recording.run("no time")
        recording.steps(run, recording.loader(run, batch_size=None), wait_ms=[0.0] * 60)
        run = recording.run("no samples")
        recording.steps(run, recording.loader(run, batch_size=None), wait_ms=[5.0] * 60, samples=0)
    with Store(recording.path) as store:
        replay = forecast.replay(store, store.run("kept"))
        assert [run.name for run in replay.measured] == ["kept", "other"]
        for name, said in (("no time", "took any time"), ("no samples", "hold no samples")):
            with pytest.raises(StoreError, match=said):
                forecast.replay(store, store.run(name))
