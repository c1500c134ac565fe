"""Which file opens, and that answers are kept only while they are true."""

from __future__ import annotations

from pathlib import Path

import pytest
from recordings import Recording

import store


def test_the_file_named_on_the_command_line_comes_first(tmp_path: Path) -> None:
    (tmp_path / "probe.db").touch()
    found = store.locate(["--db", "a.db"], {"PROBE_DB": "b.db"}, tmp_path)
    assert found == store.Recording(Path("a.db"))


def test_then_the_environment_then_the_folder(tmp_path: Path) -> None:
    (tmp_path / "probe.db").touch()
    assert store.locate([], {"PROBE_DB": "b.db"}, tmp_path) == store.Recording(Path("b.db"))
    assert store.locate([], {}, tmp_path) == store.Recording(tmp_path / "probe.db")


def test_else_the_sample_and_it_is_known_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = tmp_path / "sample.db"
    sample.touch()
    monkeypatch.setattr(store, "_SAMPLES", (tmp_path / "absent.db", sample))
    assert store.locate([], {}, tmp_path) == store.Recording(sample, is_sample=True)


def test_foreign_arguments_are_left_alone(tmp_path: Path) -> None:
    assert store.locate(["--d", "x", "tests"], {"PROBE_DB": "b"}, tmp_path).path == Path("b")


def test_a_growing_run_is_read_again_and_a_quiet_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_DB", str(tmp_path / "a.db"))
    with Recording(tmp_path / "a.db") as recording:
        run_id = recording.run()
        loader_id = recording.loader(run_id)
        recording.steps(run_id, loader_id, wait_ms=[1.0] * 50)
        [run] = store.runs()
        [loader] = store.loaders(run)
        assert len(store.steps(run, loader)) == 50
        recording.db.execute("DELETE FROM steps WHERE step >= 40")
        assert len(store.steps(run, loader)) == 50  # nothing said that it changed
        recording.db.execute("UPDATE runs SET heartbeat_at = '2026-01-02T03:06:00+00:00'")
        assert len(store.steps(run, loader)) == 40
