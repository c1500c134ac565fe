"""The report puts queries and insight together, and its JSON keeps the keys people script on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recordings import Recording

from probe.report import comparison, report, runs_table, to_json
from probe.store.queries import Store, StoreError

TIMES = {"mean", "p50", "p95", "p99", "max", "total"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "probe.db"
    with Recording(path) as recording:
        base = recording.run("baseline", overhead_ns=8_000_000)
        train = recording.loader(base, "train")
        recording.steps(base, train, wait_ms=[30.0] * 100, compute_ms=10.0, epoch_length=50)
        val = recording.loader(base, "val")
        recording.steps(base, val, wait_ms=[5.0] * 1000, compute_ms=5.0)
        recording.gpu(base, [None, None], gpu=0)
        recording.gpu(base, [0.2, None, 0.4], gpu=1)
        fast = recording.run("fast")
        producer = recording.loader(fast, "train", role="producer")
        recording.steps(fast, producer, wait_ms=[90.0] * 100)
        short = recording.loader(fast, "b")
        recording.steps(fast, short, wait_ms=[9.0] * 10)
        long = recording.loader(fast, "a")
        recording.steps(fast, long, wait_ms=[1.0] * 100, compute_ms=19.0)
        recording.run("empty", overhead_ns=None)
    return path


def test_the_verdict_is_about_train_even_if_another_loop_took_longer(path: Path) -> None:
    with Store(path) as store:
        found = report(store, store.run("baseline"))
    assert [summary.name for summary in found.loaders] == ["train", "val"]
    assert found.consumer is found.loaders[0]
    assert found.verdict.class_ == "highly input-bound"
    assert found.gpu_utilization == pytest.approx(0.3)
    assert found.overhead_share == pytest.approx(0.008 / 60)  # of the minute it lasted


def test_without_a_train_consumer_it_is_about_the_one_that_took_longest(path: Path) -> None:
    with Store(path) as store:
        found = report(store, store.run("fast"))
    assert found.consumer is not None
    assert found.consumer.name == "a"
    assert found.gpu_utilization is None


def test_a_run_without_loops_has_a_report_too(path: Path) -> None:
    with Store(path) as store:
        found = report(store, store.run("empty"))
        with pytest.raises(StoreError, match="'empty' has no watched loop"):
            comparison(store, store.run("baseline"), store.run("empty"))
    assert (found.consumer, found.overhead_share, found.loaders) == (None, None, [])
    assert found.verdict.class_ == "undecided"


def test_show_has_the_keys_of_the_contract(path: Path) -> None:
    with Store(path) as store:
        found = json.loads(json.dumps(to_json(report(store, store.run("baseline")))))
    assert found["run"]["name"] == "baseline"
    assert found["run"]["config"] == {"cores": 2, "threads": 1}
    train = found["loaders"][0]
    assert {"name", "role", "steps", "samples_per_s", "stall_share", "stall_share_ci"} <= set(train)
    for key in ("wait_ms", "copy_ms", "compute_ms", "other_ms", "step_ms"):
        assert set(train[key]) == TIMES
    assert train["epoch_start_ms"] == 30
    assert train["stall_share"] == 0.75
    low, high = train["stall_share_ci"]
    assert low <= 0.75 <= high
    assert {"class", "sentence", "causes"} <= set(found["verdict"])
    assert found["verdict"]["class"] == "highly input-bound"


def test_the_table_has_a_row_a_run_the_newest_first(path: Path) -> None:
    with Store(path) as store:
        rows = json.loads(json.dumps(runs_table(store)))
    assert [row["name"] for row in rows] == ["empty", "fast", "baseline"]
    empty, fast, base = rows
    assert base["steps"] == 100
    assert base["samples_per_s"] == pytest.approx(32 / 0.040)
    assert (base["stall_share"], base["gpu_utilization"]) == (0.75, pytest.approx(0.3))
    assert (fast["stall_share"], fast["gpu_utilization"]) == (pytest.approx(0.05), None)
    assert (empty["steps"], empty["samples_per_s"], empty["class"]) == (0, None, "undecided")


def test_compare_takes_the_loaders_that_the_verdicts_are_about(path: Path) -> None:
    with Store(path) as store:
        found = comparison(store, store.run("baseline"), store.run("fast")).to_json()
    assert {
        "baseline",
        "candidate",
        "throughput_ratio",
        "throughput_ci",
        "verdict",
        "step_ms_delta",
        "phases_ms_delta",
        "differs",
        "warnings",
    } <= set(found)
    assert (found["baseline"], found["candidate"]) == ("baseline", "fast")
    assert found["throughput_ratio"] == pytest.approx(2)
    assert found["verdict"] == "faster"
    assert found["phases_ms_delta"] == {"wait": -29, "copy": 0, "compute": 9, "other": 0}
    assert found["differs"] == []
