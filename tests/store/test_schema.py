"""The tables hold what their names promise, and a file is migrated once, by one process."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from recordings import Recording

from probe.store import schema


def test_a_new_file_gets_every_table_of_the_contract(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "probe.db", isolation_level=None)
    schema.migrate(connection)
    tables = {
        name: [column for (_, column, *_) in connection.execute(f"PRAGMA table_info({name})")]
        for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type <> 'index'")
        if not name.startswith("_sqlite_migrations")
    }
    strict = {
        name
        for (_, name, kind, _, _, strict) in connection.execute("PRAGMA table_list")
        if strict and kind == "table"
    }
    connection.close()
    assert tables.keys() == {
        "runs",
        "loaders",
        "steps",
        "fetches",
        "stages",
        "gpu_samples",
        "host_samples",
        "events",
        "step_times",
    }
    assert strict == tables.keys() - {"step_times"}
    assert " ".join(tables["steps"]) == (
        "run_id loader_id step epoch epoch_start start_ns wait_ns copy_ns compute_ns other_ns"
        " exposed_wait_ns device_copy_ns exposed_copy_ns device_compute_ns samples bytes ready"
    )
    assert tables["step_times"] == [*tables["steps"], "step_ns", "stall_ns", "stall_clock"]


def test_migrating_a_current_file_changes_nothing_and_imports_nothing(tmp_path: Path) -> None:
    path = tmp_path / "probe.db"
    Recording(path).close()
    before = path.read_bytes()
    script = (
        "import sqlite3, sys\n"
        "from probe.store import schema\n"
        f"schema.migrate(sqlite3.connect({str(path)!r}, isolation_level=None))\n"
        "print('sqlite_utils' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
    assert path.read_bytes() == before


def test_several_ranks_may_open_a_new_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "probe.db"
    script = (
        "import sqlite3, sys\n"
        "from probe.store import schema\n"
        "sys.stdin.read()\n"
        f"c = sqlite3.connect({str(path)!r}, isolation_level=None, timeout=30)\n"
        "schema.migrate(c)\n"
        "print(schema.check(c))\n"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.close()
        rank.stdin = None
    answers = [rank.communicate(timeout=60) for rank in ranks]
    assert answers == [(f"{schema.VERSION}\n", "")] * 4


@pytest.mark.parametrize(
    ("pragma", "said"),
    [
        ("application_id = 1", "another program"),
        (f"user_version = {schema.VERSION + 1}", "upgrade probe"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(tmp_path: Path, pragma: str, said: str) -> None:
    path = tmp_path / "probe.db"
    with Recording(path) as recording:
        recording.db.execute(f"PRAGMA {pragma}")
    before = path.read_bytes()
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(ValueError, match=said):
        schema.migrate(connection)
    connection.close()
    assert path.read_bytes() == before


def test_the_view_takes_stall_from_the_device_clock_where_there_is_one(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        run = recording.run()
        recording.steps(
            run,
            recording.loader(run),
            wait_ms=[4.0, 4.0],
            copy_ms=1.0,
            compute_ms=10.0,
            exposed_wait_ns=[None, 1_000_000],
            exposed_copy_ns=[None, 500_000],
        )
        rows = recording.db.execute(
            "SELECT step_ns, stall_ns, stall_clock FROM step_times ORDER BY step"
        ).fetchall()
    assert rows == [(15_000_000, 4_000_000, "host"), (15_000_000, 1_500_000, "device")]
