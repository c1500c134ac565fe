"""What is read out of a recording is what was put in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from replays import no_fetches, record
from sides import make_loader, make_steps

from probe.insight.pairing import Paired
from probe.insight.recorded import Recorded, recorded_from
from probe.store.queries import Fetches, Steps

N = 200


def found(*recording: Any, cores: float | None = 2.0, busy_cores: float | None = 0.0) -> Recorded:
    recorded = recorded_from(*recording, cores, busy_cores)
    assert isinstance(recorded, Recorded), recorded
    return recorded


def with_columns(steps: Steps, **columns: Any) -> Steps:
    return replace(steps, **columns)


def without(fetches: Fetches, row: int) -> Fetches:
    columns = {name: getattr(fetches, name) for name in Fetches.__slots__}
    return Fetches(**{name: np.delete(column, row) for name, column in columns.items()})


def test_each_step_is_paired_with_the_fetch_of_its_batch() -> None:
    fetch = 5 + np.arange(N) % 7.0
    for workers in (0, 1, 3):
        recorded = found(*record(N, fetch_ms=fetch, loop_ms=4.0, workers=workers, cpu_share=0.25))
        assert recorded.fetch_off == pytest.approx(0.75e-3 * fetch[20:])
        assert recorded.fetch_on == pytest.approx(0.25e-3 * fetch[20:])
        assert recorded.loop == pytest.approx(np.full(N - 20, 4e-3))
        assert recorded.samples == 32
        assert not recorded.assumptions or workers == 0


def test_a_lost_fetch_does_not_shift_the_others() -> None:
    fetch = 5 + np.arange(N) % 7.0
    loader, steps, fetches = record(N, fetch_ms=fetch, loop_ms=4.0, workers=2)
    recorded = found(loader, steps, without(fetches, 30))  # worker 0's 30th: batch 60
    assert recorded.fetch_off == pytest.approx(1e-3 * np.delete(fetch, 60)[20:])


def test_epochs_are_paired_one_by_one() -> None:
    fetch = 5 + np.arange(N) % 7.0
    loader, steps, fetches = record(N, fetch_ms=fetch, loop_ms=4.0, workers=2)
    # The second epoch begins with batch 100, again at worker 0, and a third was broken off.
    late = fetches.seq >= 50
    epoch = np.where(late, 1, 0)
    starts = np.arange(N) == 100
    steps = with_columns(steps, epoch=np.arange(N) // 100, epoch_start=starts)
    recorded = found(loader, steps, replace(fetches, epoch=epoch))
    assert recorded.fetch_off == pytest.approx(1e-3 * np.delete(fetch, 100)[20:])


@pytest.mark.parametrize("fetch_ms", [12.0, 3.0], ids=["late", "ready"])
def test_handover_is_found_whether_batches_are_late_or_ready(fetch_ms: float) -> None:
    costs = {"between_ms": 0.2, "transit_ms": 0.35, "receive_ms": 0.65}
    handover = found(*record(N, fetch_ms=fetch_ms, loop_ms=6.0, workers=1, **costs)).handover
    # 35 and 65 % of the way is how it is split where only its length is seen.
    assert handover.receive == pytest.approx(0.65e-3)
    assert handover.transit == pytest.approx(0.35e-3, rel=1e-3)
    if fetch_ms == 12.0:
        assert handover.between == pytest.approx(0.2e-3)


def test_what_was_not_measured_is_assumed_aloud() -> None:
    loader, steps, fetches = record(N, fetch_ms=8.0, loop_ms=4.0, workers=0)
    fetches = replace(fetches, cpu_ns=np.full(N, np.nan))
    recorded = found(loader, steps, fetches, cores=None, busy_cores=None)
    said = " ".join(recorded.assumptions)
    for what in ("needs a core", "Passing a batch", "number of cores", "the training step needs"):
        assert what in said
    assert recorded.fetch_off.sum() == 0
    assert recorded.fetch_on == pytest.approx(np.full(N - 20, 8e-3))
    assert recorded.cores == np.inf


def test_without_workers_the_wait_is_the_fetch() -> None:
    steps = make_steps(N, wait_ms=8.0, compute_ms=4.0, copy_ms=1.0)
    recorded = found(make_loader(num_workers=0), steps, no_fetches())
    assert recorded.fetch_on == pytest.approx(np.full(N - 20, 8e-3))
    assert recorded.copy == pytest.approx(np.full(N - 20, 1e-3))
    assert recorded.samples_per_s == pytest.approx(32 / 0.013)


def test_what_keeps_the_cores_busy_beside_fetches_is_the_loop() -> None:
    loader, steps, fetches = record(N, fetch_ms=8.0, loop_ms=4.0, workers=0, cpu_share=0.5)
    # Of the 12 ms of a step, 4 ms are fetch on a core; with 6.2 ms busy, 2.2 ms are the loop's.
    loop = found(loader, steps, fetches, busy_cores=6.2 / 12)
    assert loop.loop_cores == pytest.approx(2.2 / 4)


def test_workers_that_queue_for_the_cores_are_not_waiting_for_storage() -> None:
    # Six workers on two cores: of 32 ms a batch, 10 are on a core, and 20 may be the queue for it.
    recording = record(N, fetch_ms=32.0, loop_ms=1.0, workers=6, cpu_share=10 / 32)
    queued = found(*recording, busy_cores=1.95)
    assert any("waiting for a core" in said for said in queued.assumptions)
    assert queued.fetch_on == pytest.approx(np.full(N - 20, 10e-3))
    assert queued.fetch_off == pytest.approx(np.full(N - 20, 2e-3))
    assert found(*recording, busy_cores=1.0).fetch_off == pytest.approx(np.full(N - 20, 22e-3))


def test_what_other_programs_did_meanwhile_is_said() -> None:
    recording = record(N, fetch_ms=8.0, loop_ms=4.0, workers=1)
    recorded = recorded_from(*recording, 2.0, 0.1, 0.9)
    assert isinstance(recorded, Recorded)
    assert "Other programs kept 0.9 of the 2 cores busy" in recorded.assumptions[0]


def test_a_device_that_is_slower_than_its_host_sets_the_pace() -> None:
    loader, steps, fetches = record(N, fetch_ms=8.0, loop_ms=4.0, workers=0)
    device = {
        "device_compute_ns": np.full(N, 9e6),
        "exposed_copy_ns": np.full(N, 0.5e6),
        "exposed_wait_ns": np.full(N, 1e6),
    }
    recorded = found(loader, with_columns(steps, **device), fetches)
    assert recorded.runs_ahead
    assert recorded.loop == pytest.approx(np.full(N - 20, 9e-3))
    assert recorded.copy == pytest.approx(np.full(N - 20, 0.5e-3))
    device["device_compute_ns"] = np.full(N, 3e6)
    recorded = found(loader, with_columns(steps, **device), fetches)
    assert not recorded.runs_ahead
    assert recorded.loop == pytest.approx(np.full(N - 20, 4e-3))


def test_a_long_run_is_thinned_in_blocks_from_all_of_it() -> None:
    n = 5020
    fetch = 1.0 + np.arange(n) / 100
    recorded = found(*record(n, fetch_ms=fetch, loop_ms=1.0, workers=0))
    kept = recorded.fetch_on + recorded.fetch_off
    assert len(kept) == 1000
    assert kept[0] == pytest.approx(1e-3 * fetch[20])
    assert kept[-1] == pytest.approx(1e-3 * fetch[-1])
    assert (np.diff(kept) > 0.02e-3).sum() == 7
    assert kept.mean() == pytest.approx(1e-3 * fetch[20:].mean(), rel=0.01)


@pytest.mark.parametrize(
    ("loader", "steps", "reason"),
    [
        ({"num_workers": None}, {}, "does not read a DataLoader"),
        ({"num_workers": 2, "prefetch_factor": 2}, {}, "was not recorded"),
        ({}, {"n": 30}, "there are 10"),
        ({"batch_size": None}, {"samples": np.nan}, "size of its batches"),
    ],
)
def test_what_cannot_be_replayed_is_one_sentence(
    loader: dict[str, Any], steps: dict[str, Any], reason: str
) -> None:
    made = make_steps(**{"n": N, "wait_ms": 5.0, "compute_ms": 5.0} | steps)
    said = recorded_from(make_loader(**loader), made, no_fetches(), 2.0)
    assert isinstance(said, str)
    assert reason in said
    assert said.endswith(".")


def test_nothing_that_took_no_time_is_replayed() -> None:
    steps = make_steps(N, wait_ms=0.0, compute_ms=0.0)
    said = recorded_from(make_loader(num_workers=0), steps, no_fetches(), 2.0)
    assert said == (
        "Neither its batches nor its steps took any time, so there is nothing to replay."
    )
    loader, steps, fetches = record(N, fetch_ms=0.0, loop_ms=0.0, workers=0)
    waited = replace(steps, step_ns=np.full(N, 5_000_000), wait_ns=np.full(N, 5_000_000))
    assert recorded_from(loader, waited, fetches, 2.0) == said


def test_batches_without_samples_have_no_rate() -> None:
    steps = replace(make_steps(N, wait_ms=8.0, compute_ms=4.0), samples=np.zeros(N))
    said = recorded_from(make_loader(num_workers=0), steps, no_fetches(), 2.0)
    assert isinstance(said, str)
    assert "hold no samples" in said


def test_one_step_is_in_the_singular() -> None:
    said = recorded_from(
        make_loader(num_workers=0), make_steps(21, wait_ms=8.0, compute_ms=4.0), no_fetches(), 2.0
    )
    assert said == (
        "It takes 20 steps after warm-up whose fetch was recorded, and there is 1: record a longer"
        " run."
    )


@pytest.mark.parametrize("ended_after", [0, 10])
def test_workers_that_end_early_leave_nothing_to_pair(ended_after: int) -> None:
    loader, steps, fetches = record(N, fetch_ms=5.0, loop_ms=4.0, workers=2)
    kept = (fetches.worker == 0) | (fetches.seq < ended_after)
    columns = {name: getattr(fetches, name)[kept] for name in Fetches.__slots__}
    uneven = Paired.of(loader, steps, Fetches(**columns))
    assert uneven.is_uneven
    assert (uneven.made == -1).all()
    said = recorded_from(loader, steps, Fetches(**columns), 2.0)
    assert isinstance(said, str)
    assert said.startswith("Its workers made unequal numbers of batches")
    # A loop that was left early: the tasks under way are all that differs.
    left = (fetches.worker == 0) | (fetches.seq < int(fetches.seq.max()) - 2)
    columns = {name: getattr(fetches, name)[left] for name in Fetches.__slots__}
    assert not Paired.of(loader, steps, Fetches(**columns)).is_uneven
