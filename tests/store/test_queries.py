"""A reader gets back what was recorded, and one clear sentence when it cannot."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from recordings import Recording

from probe.store import schema
from probe.store.queries import Store, StoreError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "probe.db"


def test_steps_come_back_as_they_were_recorded_with_nan_for_what_was_not_measured(
    path: Path,
) -> None:
    with Recording(path) as recording:
        run = recording.run()
        loader = recording.loader(run)
        recording.steps(
            run,
            loader,
            wait_ms=[3.0, 1.0, 2.0],
            copy_ms=0.25,
            compute_ms=10.0,
            other_ms=[0.0, 5.0, 0.0],
            samples=[8, None, 8],
            exposed_wait_ns=[2_000_000, None, 1_500_000],
            exposed_copy_ns=[100_000, 100_000, None],
            epoch_length=2,
        )
    with Store(path) as store:
        steps = store.steps(run, loader)
    assert steps.step.tolist() == [0, 1, 2]
    assert steps.epoch.tolist() == [0, 0, 1]
    assert steps.epoch_start.tolist() == [True, False, True]
    assert steps.wait_ns.tolist() == [3_000_000, 1_000_000, 2_000_000]
    assert steps.step_ns.tolist() == [13_250_000, 16_250_000, 12_250_000]
    assert steps.start_ns.tolist() == [0, 13_250_000, 29_500_000]
    # Exposed wait where there is a device clock, else the host's, plus exposed copy.
    assert steps.stall_ns.tolist() == [2_100_000, 1_100_000, 1_500_000]
    assert np.isnan(steps.samples).tolist() == [False, True, False]
    assert np.isnan(steps.ready).all()
    assert all(array.shape == (3,) for array in (steps.bytes, steps.device_compute_ns))


def test_a_loader_without_steps_has_empty_arrays(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run()
        loader = recording.loader(run)
    with Store(path) as store:
        steps = store.steps(run, loader)
        assert store.host_samples(run).cpu.shape == (0,)
    assert len(steps) == 0
    assert steps.wait_ns.dtype == np.int64


def test_a_run_is_found_by_id_by_prefix_of_its_uid_and_by_name_the_newest(path: Path) -> None:
    with Recording(path) as recording:
        first = recording.run("same", uid="aaaa1111-0")
        second = recording.run("same", uid="aaaa2222-0")
    with Store(path) as store:
        assert store.run(first).id == first
        assert store.run(str(first)).id == first
        assert store.run("aaaa1").id == first
        assert store.run("same").id == second
        assert [run.id for run in store.runs()] == [second, first]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("aaaa", "fits the uid of 2 runs: give more of it"),
        ("other", "there is no run 'other'"),
        ("", "there is no run ''"),
        ("3", "the newest are same, same"),
        ("9" * 5000, "there is no run"),
        ("%", "there is no run '%'"),
    ],
)
def test_a_run_that_cannot_be_found_is_answered_in_a_sentence(
    path: Path, reference: str, said: str
) -> None:
    with Recording(path) as recording:
        recording.run("same", uid="aaaa1111-0")
        recording.run("same", uid="aaaa2222-0")
    with Store(path) as store, pytest.raises(StoreError) as caught:
        store.run(reference)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("status", "age_s", "read_as"),
    [
        ("running", 1, "running"),
        ("running", 60, "interrupted"),
        ("finished", 60, "finished"),
        ("failed", 60, "failed"),
    ],
)
def test_a_run_whose_writer_fell_silent_reads_as_interrupted(
    path: Path, status: str, age_s: float, read_as: str
) -> None:
    beat = (datetime.now(UTC) - timedelta(seconds=age_s)).isoformat()
    with Recording(path) as recording:
        run = recording.run(status=status, heartbeat_at=beat)
    with Store(path) as store:
        assert store.run(run).status == read_as


def test_json_columns_are_parsed_and_nonsense_in_them_is_survived(path: Path) -> None:
    with Recording(path) as recording:
        good = recording.run(tags=["a", "b"], config={"cores": 4})
        bad = recording.run(tags="{", config="[" * 100_000)
        other = recording.run(tags={"not": "a list"}, config=["not an object"])
        loader = recording.loader(good, chain=["Prefetcher", "DataLoader"], pin_memory=1)
    with Store(path) as store:
        assert (store.run(good).tags, store.run(good).config) == (["a", "b"], {"cores": 4})
        assert (store.run(bad).tags, store.run(bad).config) == ([], {})
        assert (store.run(other).tags, store.run(other).config) == ([], {})
        (found,) = store.loaders(good)
    assert (found.id, found.chain) == (loader, ["Prefetcher", "DataLoader"])
    assert found.pin_memory is True
    assert found.prefetch_factor is None


def test_gpus_and_events_come_back_in_order(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run()
        recording.gpu(run, [0.5, None, 0.7], gpu=1)
        recording.gpu(run, [0.1], gpu=0)
        recording.event(run, 20, "gc")
        recording.event(run, 10, "exclude", "validation")
    with Store(path) as store:
        gpus = store.gpu_samples(run)
        events = store.events(run)
    assert [gpu.gpu for gpu in gpus] == [0, 1]
    assert np.isnan(gpus[1].utilization).tolist() == [False, True, False]
    assert np.isnan(gpus[1].power_w).all()
    assert [(event.kind, event.label) for event in events] == [
        ("exclude", "validation"),
        ("gc", None),
    ]


def test_a_reader_sees_what_a_writer_adds_and_cannot_write(path: Path) -> None:
    with Recording(path) as recording, Store(path) as store:
        assert store.runs() == []
        run = recording.run()
        before = store.version_key(run)
        recording.loader(run)
        assert store.version_key(run) != before
        assert [found.id for found in store.runs()] == [run]
        with pytest.raises(StoreError, match="readonly"):
            store._query("DELETE FROM runs")


def test_reading_leaves_every_byte_of_the_recording_alone(tmp_path: Path) -> None:
    path = tmp_path / "name with ? # % in it.db"
    with Recording(path) as recording:
        run = recording.run()
        recording.steps(run, recording.loader(run), wait_ms=[1.0] * 50)
    before = path.read_bytes()
    with Store(path) as store:
        assert len(store.steps(run, 1)) == 50
    assert path.read_bytes() == before


def test_what_is_not_a_recording_is_named_in_a_sentence(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to have a header " * 10)
    empty = tmp_path / "empty.db"
    empty.touch()
    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE runs (id INTEGER)")
    connection.close()
    newer = tmp_path / "newer.db"
    with Recording(newer) as recording:
        recording.db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    for path, said in (
        (tmp_path / "absent.db", "there is no recording at"),
        (tmp_path, "there is no recording at"),
        (text, "file is not a database"),
        (empty, "no tables yet"),
        (foreign, "of another program"),
        (newer, "upgrade probe"),
    ):
        with pytest.raises(StoreError) as caught:
            Store(path)
        assert said in str(caught.value)
        assert str(path) in str(caught.value)


def test_a_damaged_recording_is_a_sentence_not_a_traceback(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run()
        recording.steps(run, recording.loader(run), wait_ms=[1.0] * 5000)
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(StoreError, match="cannot read"), Store(path) as store:
        store.steps(run, 1)


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("runs", "UPDATE runs SET uid = NULL"),
        ("runs", "UPDATE runs SET dropped = 'many'"),
        ("runs", "UPDATE runs SET name = x'00ff'"),
        ("loaders", "UPDATE loaders SET batch_size = 'large'"),
        ("steps", "UPDATE steps SET wait_ns = 'long'"),
        ("steps", "UPDATE steps SET compute_ns = NULL"),
        ("steps", "UPDATE steps SET samples = 'all'"),
    ],
)
def test_values_that_no_recording_has_are_one_sentence(
    table: str, change: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostile.db"
    with Recording(path) as recording:
        run = recording.run("a")
        recording.steps(run, recording.loader(run), wait_ms=[1.0, 2.0])
    db = sqlite3.connect(path)
    # The same table without the types and constraints that the schema gives it.
    db.execute(f"CREATE TABLE loose AS SELECT * FROM {table}")
    (view,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'step_times'").fetchone()
    db.execute("DROP VIEW step_times")
    db.execute(f"DROP TABLE {table}")
    db.execute(f"ALTER TABLE loose RENAME TO {table}")
    db.execute(view)
    db.execute(change)
    db.commit()
    db.close()

    def read_all(store: Store) -> None:
        for found in store.runs():
            for loader in store.loaders(found.id):
                store.steps(found.id, loader.id)

    with Store(path) as store, pytest.raises(StoreError, match="the recording holds"):
        read_all(store)


def test_json_nested_beyond_reason_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "deep.db"
    with Recording(path) as recording:
        run = recording.run("a")
        recording.db.execute(
            "UPDATE runs SET config = ? WHERE id = ?", ("[" * 5000 + "]" * 5000, run)
        )
        recording.db.commit()
    with Store(path) as store:
        assert store.runs()[0].config == {}
