"""The thread that carries what was recorded to the SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
from datetime import UTC, datetime
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from probe.record import snapshot
from probe.record.buffer import STEP_COLUMNS, LoaderRecord, take
from probe.record.hardware import Sampler
from probe.record.warnings import warn
from probe.store import schema

if TYPE_CHECKING:
    from probe.run import Run

FLUSH_SECONDS = 0.5
_LOCK_TIMEOUT_SECONDS = 30
_EXIT_SECONDS = 10


class Writer(threading.Thread):
    """Writes one run: its row, then every half second what has gathered, then its end.

    The file is open only while a flush lasts, so that a fork finds none of SQLite's state and a
    replaced file is noticed. What cannot be written stays in its bounded buffer for the next
    flush; a fault is warned about once.

    Args:
        run: The run to write.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(name="probe-writer", daemon=True)
        self._run = run
        self._ending = threading.Event()
        self._status = "running"
        self._row_id: int | None = None
        self._loaders: dict[LoaderRecord, tuple[int, str, int | None]] = {}
        self._taken: list[tuple[list[Any], list[Any]]] = []
        self._sampler = Sampler(run.origin_ns)
        self._steps = 0
        self._step_cost_ns = _entry_cost_ns()

    def finish(self, status: str, *, wait: bool) -> None:
        """Let the thread write what is left and end."""
        self._status = status
        self._ending.set()
        if wait and self.is_alive():
            self.join(_EXIT_SECONDS)
            if self.is_alive():
                warn(f"{self._run.db} is still locked: the end of this run is missing from it")

    def run(self) -> None:
        """Flush until the run ends."""
        self._flush()
        self._sampler.start()
        while not self._ending.wait(FLUSH_SECONDS):
            self._flush()
        self._sampler.stop()
        self._flush()
        left = sum(len(record.rows) for record in self._run.records)
        if left:
            warn(f"{left} steps could not be written to {self._run.db}")

    def _flush(self) -> None:
        before = self._row_id, dict(self._loaders), self._steps
        try:
            with _writing:
                if _forked_while_writing:
                    raise OSError("this process was forked from one that was writing to it")
                db = connect(self._run.db)
                try:
                    with _transaction(db):
                        if self._row_id is None:
                            self._row_id = _insert(db, "runs", self._run_row())
                        self._write(db, self._row_id)
                finally:
                    db.close()
        except Exception as error:
            self._row_id, self._loaders, self._steps = before
            for buffer, taken in self._taken:
                buffer[:0] = taken
            warn(f"cannot record to {self._run.db}: {error}; training goes on")
        self._taken = []

    def _take(self, buffer: list[Any]) -> list[Any]:
        taken = take(buffer)
        self._taken.append((buffer, taken))
        return taken

    def _run_row(self) -> dict[str, Any]:
        row = {
            "uid": self._run.uid,
            "name": self._run.name,
            "strategy": self._run.strategy,
            "experiment": self._run.experiment,
            "status": "running",
            "started_at": self._run.started_at,
            "heartbeat_at": _utc(),
            "tags": json.dumps(self._run.tags),
            "notes": self._run.notes,
            "probe_version": _version(),
            **snapshot.process(),
        }
        row["config"] = json.dumps(row["config"])
        row["device"] = self._run.device or row["device"]
        return row

    def _write(self, db: sqlite3.Connection, run_id: int) -> None:
        run, ending = self._run, self._ending.is_set()
        events = list(self._take(run.events))
        records = list(run.records)
        for record in records:
            loader_id = self._write_loader(db, run_id, record)
            rows = self._take(record.rows)
            db.executemany(_insert_steps(run_id, loader_id), rows)
            self._steps += len(rows)
            events += self._take(record.epochs)
        gpu_rows, host_rows = self._sampler.take()
        for table, table_rows in (
            ("events", events),
            ("gpu_samples", gpu_rows),
            ("host_samples", host_rows),
        ):
            if table_rows:
                marks = ", ".join("?" * len(table_rows[0]))
                db.executemany(
                    f"INSERT OR IGNORE INTO {table} VALUES ({run_id}, {marks})", table_rows
                )
        db.execute(
            "UPDATE runs SET status = ?, ended_at = ?, heartbeat_at = ?, overhead_ns = ?,"
            " dropped = ?, device = coalesce(device, ?), driver = coalesce(driver, ?)"
            " WHERE id = ?",
            (
                self._status if ending else "running",
                _utc() if ending else None,
                _utc(),
                self._overhead_ns(records),
                sum(record.dropped for record in records),
                snapshot.device(),
                self._sampler.driver,
                run_id,
            ),
        )

    def _write_loader(self, db: sqlite3.Connection, run_id: int, record: LoaderRecord) -> int:
        loader_id, *written = self._loaders.get(record, (None,))
        if loader_id is None:
            row = {
                "run_id": run_id,
                "name": record.name,
                "role": record.role,
                "length": record.length,
                **record.description,
            }
            row["chain"] = json.dumps(row["chain"])
            loader_id = _insert(db, "loaders", row)
        elif written != [record.role, record.length]:
            db.execute(
                "UPDATE loaders SET role = ?, length = ? WHERE id = ?",
                (record.role, record.length, loader_id),
            )
        self._loaders[record] = (loader_id, record.role, record.length)
        return loader_id

    def _overhead_ns(self, records: list[LoaderRecord]) -> int:
        """Sum up what recording cost: the loop's bookkeeping and the CPU time of our threads."""
        samples = sum(record.cost_samples for record in records)
        measured = sum(record.cost_ns for record in records)
        per_step = self._step_cost_ns + (measured / samples if samples else 0)
        return int(self._steps * per_step) + thread_time_ns() + self._sampler.cpu_ns


# SQLite keeps what it knows of an open file per process, and a fork copies that: a child that met
# the file half open could not use it. So a fork waits for the flush under way, but not for long.
_writing = threading.Lock()
_FORK_WAIT_SECONDS = 0.2
_holding = False
_forked_while_writing = False


def before_fork() -> None:
    """Let no flush be under way while the process forks."""
    global _holding
    _holding = _writing.acquire(timeout=_FORK_WAIT_SECONDS)


def after_fork_in_parent() -> None:
    """Go on writing."""
    if _holding:
        _writing.release()


def after_fork_in_child() -> None:
    """Start afresh; after a fork in the middle of a flush this process cannot record."""
    global _writing, _forked_while_writing
    _forked_while_writing = _forked_while_writing or not _holding
    _writing = threading.Lock()


def connect(path: Any) -> sqlite3.Connection:
    """Open a recording for writing, making or migrating it as needed.

    Raises:
        OSError: The folder cannot be made.
        ValueError: The file belongs to another program or to a newer probe.
        sqlite3.Error: SQLite refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=_LOCK_TIMEOUT_SECONDS, isolation_level=None)
    try:
        schema.check(connection)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        schema.migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class _transaction:  # noqa: N801
    """BEGIN IMMEDIATE, so that a busy file is waited for at the start and not in the middle."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({marks})",
        tuple(row.values()),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _insert_steps(run_id: int, loader_id: int) -> str:
    """The ids are part of the statement, so the loop's tuples are bound as they are."""
    names = ", ".join(STEP_COLUMNS)
    marks = ", ".join("?" * len(STEP_COLUMNS))
    return f"INSERT INTO steps (run_id, loader_id, {names}) VALUES ({run_id}, {loader_id}, {marks})"


def _entry_cost_ns() -> int:
    """Measure what no loop can time of itself: the call of `next` and two clock reads."""
    rounds = 200
    began = now()
    for _ in range(rounds):
        now()
        now()
        _nothing()
    return (now() - began) // rounds


def _nothing() -> None:
    return None


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _version() -> str:
    from probe import __version__

    return __version__
