"""Every number a chart shows can be found again in the recording."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recordings import RUN, Recording
from sides import make_run

from probe.insight import series
from probe.insight.summary import PHASES
from probe.store.queries import Steps, Store


def read(path: Path, **columns: object) -> Steps:
    with Recording(path) as recording:
        run = recording.run()
        loader = recording.loader(run)
        recording.steps(run, loader, **columns)
    with Store(path) as store:
        return store.steps(run, loader)


@pytest.fixture
def uneven(tmp_path: Path) -> Steps:
    random = np.random.default_rng(3)
    waits, computes = random.exponential(5, 1_601), random.normal(40, 3, 1_601)
    return read(tmp_path / "a.db", wait_ms=list(waits), compute_ms=list(computes), copy_ms=0.5)


def test_buckets_are_few_and_lose_no_time(uneven: Steps) -> None:
    found = series.bucketed(uneven)
    assert len(found) == 534  # three steps each, two in the last
    assert found.steps.sum() == len(uneven)
    for phase in PHASES:
        total = (getattr(found, f"{phase}_ms") * found.steps).sum()
        assert total == pytest.approx(getattr(uneven, f"{phase}_ns").sum() / 1e6)
    stacked = sum(getattr(found, f"{phase}_ms") for phase in PHASES)
    assert stacked * found.steps / 1e3 == pytest.approx(found.width_s)


def test_the_longest_step_survives_in_its_bucket(tmp_path: Path) -> None:
    waits = [1.0] * 5_000
    waits[3_217] = 900.0
    found = series.bucketed(read(tmp_path / "a.db", wait_ms=waits, compute_ms=4.0))
    spike = int(np.argmax(found.longest_ms))
    assert found.longest_ms[spike] == pytest.approx(904)
    first = int(found.steps[:spike].sum())
    assert first <= 3_217 < first + found.steps[spike]


def test_few_steps_are_shown_one_by_one(tmp_path: Path) -> None:
    found = series.bucketed(read(tmp_path / "a.db", wait_ms=[3.0, 5.0], compute_ms=1.0))
    assert found.steps.tolist() == [1, 1]
    assert found.start_s == pytest.approx([0, 0.004])
    assert found.longest_ms == pytest.approx(found.wait_ms + found.compute_ms)


def test_a_pause_between_two_loops_stays_a_gap(tmp_path: Path) -> None:
    found = series.bucketed(
        read(tmp_path / "a.db", wait_ms=[1.0] * 3, start_ns=[0, 1_000_000, 5_000_000])
    )
    ends = found.start_s + found.width_s
    assert found.start_s[2] - ends[1] == pytest.approx(0.003)


def test_rare_long_steps_do_not_flatten_the_rest(tmp_path: Path) -> None:
    waits = [1.0] * 100
    calm = series.bucketed(read(tmp_path / "calm.db", wait_ms=waits, compute_ms=9.0))
    assert series.axis_top_ms(calm) == pytest.approx(10.5)
    waits[50] = 900.0
    spiky = series.bucketed(read(tmp_path / "spiky.db", wait_ms=waits, compute_ms=9.0))
    assert series.axis_top_ms(spiky) == pytest.approx(30)


def test_samples_leave_out_what_was_not_measured() -> None:
    time_ns = np.arange(6) * 1_000_000_000
    value = np.array([0.2, np.nan, np.nan, np.nan, 0.6, 0.8])
    found = series.sampled(time_ns, value, most=3)
    assert found is not None
    assert found.time_s.tolist() == [0, 2, 4]
    assert found.value == pytest.approx([0.2, np.nan, 0.7], nan_ok=True)


def test_nothing_measured_is_none_and_not_zero() -> None:
    assert series.sampled(np.array([0, 1]), np.array([np.nan, np.nan])) is None
    assert series.sampled(np.array([], dtype=np.int64), np.array([])) is None


def test_the_distribution_keeps_observed_values_and_both_ends(uneven: Steps) -> None:
    waits = series.waits(uneven)
    assert len(waits) == len(uneven) - 1  # the start of the epoch is kept apart
    found = series.distribution(waits)
    assert len(found.ms) == series.MOST_BUCKETS
    assert found.ms[0] == waits.min() / 1e6
    assert found.ms[-1] == waits.max() / 1e6
    assert found.share[-1] == 1
    at_most = [(waits / 1e6 <= ms).mean() for ms in found.ms]
    assert found.share == pytest.approx(at_most)


def test_equal_waits_are_one_point_of_the_distribution() -> None:
    found = series.distribution(np.array([2, 2, 2, 5]) * 1_000_000, most=2)
    assert found.ms.tolist() == [2, 5]
    assert found.share.tolist() == [0.75, 1]


def test_the_median_step_adds_up_and_is_near_the_median(uneven: Steps) -> None:
    found = series.median_step(uneven)
    assert found is not None
    counted = uneven.step_ns[21:] / 1e6
    assert sum(found.values()) == pytest.approx(np.median(counted), rel=0.01)
    assert sum(series.shares(found).values()) == pytest.approx(1)


def test_warm_up_alone_has_no_median_step(tmp_path: Path) -> None:
    assert series.median_step(read(tmp_path / "a.db", wait_ms=[1.0] * 20)) is None


def test_the_median_step_of_a_single_steady_step_is_that_step(tmp_path: Path) -> None:
    found = series.median_step(read(tmp_path / "a.db", wait_ms=[9.0] * 20 + [2.0], compute_ms=3.0))
    assert found == pytest.approx({"wait": 2, "copy": 0, "compute": 3, "other": 0})


def test_epochs_tell_their_start_up_rate_and_stall(tmp_path: Path) -> None:
    steps = read(
        tmp_path / "a.db",
        wait_ms=[100.0, 1.0, 1.0, 50.0, 1.0, 1.0],
        compute_ms=9.0,
        samples=[8, 8, 8, 8, None, 8],
        epoch_length=3,
    )
    assert [astuple(epoch) for epoch in series.by_epoch(steps)] == [
        (0, 100, 3, pytest.approx(24 / 0.129), pytest.approx(102 / 129)),
        (1, 50, 3, None, pytest.approx(52 / 79)),
    ]


def test_stairs_lead_from_one_total_to_the_other() -> None:
    before = {"wait": 57.0, "copy": 1.0, "compute": 36.0, "other": 0.0}
    changes = {"wait": -56.0, "copy": 0.0, "compute": 2.5, "other": 0.0}
    found = series.staircase(before, changes)
    assert found == series.Staircase(changes, [94.0, 38.0, 38.0, 40.5], 94.0, 40.5)


def test_stairs_with_an_unknown_step_are_not_built() -> None:
    known, unknown = dict.fromkeys(PHASES, 1.0), dict.fromkeys(PHASES)
    assert series.staircase(known, known | {"copy": None}) is None
    assert series.staircase(unknown, known) is None


def test_the_cost_of_recording_is_a_share_of_the_time_that_the_run_lasted() -> None:
    lasted = {"started_at": "2026-01-02T03:04:00+00:00", "overhead_ns": 60_000_000}
    ended = make_run(**lasted, ended_at="2026-01-02T03:05:00+00:00")
    assert series.overhead_share(ended) == pytest.approx(0.001)
    killed = make_run(**lasted, ended_at=None, heartbeat_at="2026-01-02T03:04:06+00:00")
    assert series.overhead_share(killed) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "columns",
    [
        {"overhead_ns": None},
        {"started_at": "soon"},
        {"started_at": "2026-01-02T03:04:05"},
        {"ended_at": RUN["started_at"]},
    ],
)
def test_an_unknown_cost_or_duration_has_no_share(columns: dict[str, Any]) -> None:
    assert series.overhead_share(make_run(**columns)) is None


def test_a_loader_without_steps_has_empty_series(tmp_path: Path) -> None:
    with Recording(tmp_path / "a.db") as recording:
        run = recording.run()
        loader = recording.loader(run)
    with Store(tmp_path / "a.db") as store:
        steps = store.steps(run, loader)
    assert len(series.bucketed(steps)) == 0
    assert series.axis_top_ms(series.bucketed(steps)) == 1
    assert len(series.distribution(series.waits(steps)).ms) == 0
    assert series.median_step(steps) is None
    assert series.by_epoch(steps) == []


def test_steady_steps_are_numbered_from_the_first_past_warm_up(tmp_path: Path) -> None:
    waits = [99.0] * 20 + [float(i) for i in range(100)]
    steps = read(tmp_path / "a.db", wait_ms=waits, epoch_length=60)
    found = series.from_steady_state(steps, most=10)
    counted = [wait for i, wait in enumerate(waits) if i >= 20 and i % 60]
    assert found.step.tolist() == list(range(0, 99, 10))
    assert found.ms[0] == pytest.approx(np.mean(counted[:10]))
    assert found.ms[-1] == pytest.approx(np.mean(counted[90:]))  # the last bucket is shorter
    assert len(series.from_steady_state(read(tmp_path / "b.db", wait_ms=[1.0] * 20)).step) == 0
