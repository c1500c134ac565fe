"""How what was recorded reaches the file, and what happens when it cannot."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from open_runs import finish_runs
from prefetch_generator import BackgroundGenerator

import probe
from probe.record import snapshot, writer
from probe.record.buffer import LOADER_STATE, STEP_COLUMNS, LoaderRecord, take
from probe.record.file import connect
from probe.store import schema
from probe.store.queries import Store


def test_rows_reach_the_file_while_the_loop_runs() -> None:
    for index in probe.watch(range(300)):
        time.sleep(0.005)
        if index == 298:
            with Store("probe.db") as store:
                (run,) = store.runs()
                assert run.status == "running"
                # At most a second may be missing, on a busy machine too.
                assert len(store.steps(run.id, 1)) > 60


def test_a_killed_process_loses_at_most_the_last_second(tmp_path: Path) -> None:
    program = """
import time, probe
for i in probe.watch(range(10**9)):
    time.sleep(0.01)
    print(i, flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert process.stdout is not None
    time.sleep(3)
    os.kill(process.pid, signal.SIGKILL)
    done = [int(line) for line in process.stdout.read().split()]
    process.stdout.close()
    process.wait()
    with Store("probe.db") as store:
        (run,) = store.runs()
        steps = store.steps(run.id, 1)
    assert 0 <= done[-1] - int(steps.step[-1]) <= 110
    with sqlite3.connect("probe.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.execute("UPDATE runs SET heartbeat_at = '2026-01-01T00:00:00.000+00:00'")
    db.close()
    with Store("probe.db") as store:
        assert store.runs()[0].status == "interrupted"


@pytest.mark.parametrize(
    ("ending", "status"),
    [("", "finished"), ("1/0", "failed"), ("raise KeyboardInterrupt", "interrupted")],
)
def test_the_end_of_a_process_ends_its_run(tmp_path: Path, ending: str, status: str) -> None:
    program = f"import probe\nfor _ in probe.watch([1, 2, 3]): pass\n{ending}"
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.DEVNULL, check=False
    )
    with Store("probe.db") as store:
        (run,) = store.runs()
        assert run.status == status
        assert len(store.steps(run.id, 1)) == 3


def test_training_goes_on_when_the_file_belongs_to_another_program(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite3.connect("probe.db") as db:
        db.execute("CREATE TABLE customers (id INTEGER)")
    db.close()
    before = Path("probe.db").read_bytes()
    assert list(probe.watch(range(100))) == list(range(100))
    finish_runs()
    assert "of another program" in caplog.text
    assert caplog.text.count("training goes on") == 1
    assert Path("probe.db").read_bytes() == before


def test_a_full_buffer_counts_what_it_turns_away(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 50
    monkeypatch.setattr("probe.record.loop.LIMIT", limit)
    monkeypatch.setattr(sys.modules["probe.watch"], "LIMIT", limit)
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 30)
    for _ in probe.watch(range(200)):
        pass
    finish_runs()
    with Store("probe.db") as store:
        (run,) = store.runs()
        assert run.dropped == 150
        assert len(store.steps(run.id, 1)) == limit


def test_a_flush_that_fails_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = writer.Writer._overhead_ns, []

    def fail_twice(self: writer.Writer, records: list[LoaderRecord]) -> int:
        calls.append(1)
        if len(calls) in (1, 3):
            raise sqlite3.OperationalError("disk is full")
        return real(self, records)

    monkeypatch.setattr(writer.Writer, "_overhead_ns", fail_twice)
    monkeypatch.setattr(writer, "FLUSH_SECONDS", 0.05)
    for _ in probe.watch(range(40)):
        time.sleep(0.01)
    finish_runs()
    assert len(calls) > 4
    with Store("probe.db") as store:
        (run,) = store.runs()
        assert list(store.steps(run.id, 1).step) == list(range(40))
        assert [event.kind for event in store.events(run.id)] == ["epoch", "warning"]


def test_what_is_appended_while_rows_are_taken_stays() -> None:
    rows = [1, 2, 3]
    assert take(rows) == [1, 2, 3]
    rows.append(4)
    assert take(rows) == [4]


def test_the_loop_and_the_table_agree_on_the_columns(tmp_path: Path) -> None:
    db = connect(tmp_path / "new.db")
    columns = {row[1] for row in db.execute("PRAGMA table_info(steps)")}
    assert set(STEP_COLUMNS) < columns
    columns = {row[1] for row in db.execute("PRAGMA table_info(loaders)")}
    assert set(LOADER_STATE) | set(snapshot.loader([])) < columns
    db.close()


def test_a_forked_child_leaves_its_parents_run_alone(tmp_path: Path) -> None:
    program = """
import os, probe
for i in probe.watch(range(10), run="parent"):
    if i == 5:
        pid = os.fork()
        if pid == 0:
            break
if pid == 0:
    for _ in probe.watch(range(3), run="child"): pass
    from probe.run import current
    current().finish()
    os._exit(0)
os.waitpid(pid, 0)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=tmp_path, check=True)
    with Store("probe.db") as store:
        lengths = {
            run.name: len(store.steps(run.id, store.loaders(run.id)[0].id)) for run in store.runs()
        }
    assert lengths == {"parent": 10, "child": 3}


def test_a_new_file_counts_as_migrated_and_equals_one_that_sqlite_utils_made() -> None:
    from sqlite_utils import Database

    def tables(db: sqlite3.Connection) -> dict[str, str]:
        rows = db.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
        return {
            name: " ".join(sql.replace('"', "").replace("[", "").replace("]", "").split())
            for name, sql in rows
        }

    direct = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(direct)
    assert schema.migrations().pending(Database(direct)) == []
    through = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrations().apply(Database(through))
    ours, theirs = tables(direct), tables(through)
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"_sqlite_migrations"}:
        assert ours[name].lower() == theirs[name].lower()
    direct.close()
    through.close()


def test_a_value_that_no_column_holds_costs_one_row_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Odd:
        shape = (4,)
        nbytes = 0

        def __init__(self, index: int) -> None:
            self.nbytes = 2**70 if index == 5 else 8

    for _ in probe.watch([Odd(index) for index in range(10)]):
        time.sleep(0.001)
    finish_runs()
    with Store("probe.db") as store:
        (run,) = store.runs()
        assert run.dropped == 1
        assert list(store.steps(run.id, 1).step) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_text_that_sqlite_cannot_hold_is_mended_and_not_fatal() -> None:
    with probe.run("a\ud800b\0c", notes=5, tags=["x"]):  # type: ignore[arg-type]
        for _ in probe.watch([1, 2]):
            pass
    with Store("probe.db") as store:
        (run,) = store.runs()
        assert run.name == "a?bc"
        assert run.notes == "5"
        assert len(store.steps(run.id, 1)) == 2


def test_a_step_whose_end_nobody_saw_is_left_out_if_it_is_the_longest() -> None:
    iterator = iter(probe.watch(range(50)))
    for _ in range(30):
        next(iterator)
        time.sleep(0.005)
    time.sleep(0.5)  # an evaluation after the last step, while the iterator is kept
    finish_runs()
    with Store("probe.db") as store:
        (run,) = store.runs()
        steps = store.steps(run.id, 1)
        assert len(steps) == 29
        assert steps.compute_ns.max() < 100_000_000
        (event,) = (event for event in store.events(run.id) if event.kind == "warning")
        assert event.label is not None
        assert "its end was not seen" in event.label
    del iterator


def test_a_step_whose_end_nobody_saw_is_kept_if_it_is_as_long_as_others() -> None:
    iterator = iter(probe.watch(range(50)))
    for index in range(30):
        next(iterator)
        time.sleep(0.010 if index == 20 else 0.005)
    finish_runs()
    with Store("probe.db") as store:
        assert len(store.steps(1, 1)) == 30
    del iterator


def test_the_end_of_a_run_lets_another_threads_loop_go_on() -> None:
    def produce() -> Iterator[int]:
        for index in range(10_000):
            time.sleep(0.0005)
            yield index

    inner = probe.watch(produce(), name="producer")
    with probe.run("first"):
        background = BackgroundGenerator(inner, max_prefetch=0)
        for index, _ in enumerate(probe.watch(background)):
            if index == 200:
                break
    after = next(background)
    assert after == 201
    with Store("probe.db") as store:
        (run,) = store.runs()
        for loader in store.loaders(run.id):
            steps = store.steps(run.id, loader.id)
            ends = steps.start_ns + steps.step_ns
            assert list(ends[:-1]) == list(steps.start_ns[1:])


def test_a_name_that_is_a_pipe_does_not_hold_the_training_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    os.mkfifo("probe.db")
    assert list(probe.watch(range(10))) == list(range(10))
    finish_runs()
    assert "it is not a file" in caplog.text


def test_a_nonzero_exit_is_a_failed_run(tmp_path: Path) -> None:
    program = (
        "import probe, sys\n"
        "with probe.run('x'):\n    for _ in probe.watch([1]): pass\n    sys.exit(3)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False)
    with Store("probe.db") as store:
        assert store.runs()[0].status == "failed"


def test_a_file_that_is_deleted_while_recording_is_made_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for index in probe.watch(range(200), run="survivor"):
        time.sleep(0.01)
        if index == 100:
            for path in Path().glob("probe.db*"):
                path.unlink()
    finish_runs()
    assert "was replaced" in caplog.text
    with Store("probe.db") as store:
        run = store.run("survivor")
        steps = store.steps(run.id, store.loaders(run.id)[0].id)
    assert run.status == "finished"
    assert len(steps) >= 40
    assert steps.step[-1] == 199


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_child_of_multiprocessing_records_to_its_end(tmp_path: Path, method: str) -> None:
    program = f"""
import multiprocessing, time
def child():
    import probe
    for _ in probe.watch(range(30), run="child"):
        time.sleep(0.002)
if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=child)
    process.start()
    process.join()
"""
    Path("program.py").write_text(program)
    subprocess.run([sys.executable, "program.py"], check=True)
    with Store("probe.db") as store:
        run = store.run("child")
        assert run.status == "finished"
        assert len(store.steps(run.id, store.loaders(run.id)[0].id)) == 30
