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
from probe.store import schema

if TYPE_CHECKING:
    from probe.run import Run

FLUSH_SECONDS = 0.5
_LOCK_TIMEOUT_SECONDS = 30
_EXIT_SECONDS = 10


class Writer(threading.Thread):
    """Writes one run: its row, then every half second what has gathered, then its end.

    A file that cannot be written is warned about once; from then on what the loop records is
    counted as dropped and thrown away, so memory stays bounded.

    Args:
        run: The run to write.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(name="probe-writer", daemon=True)
        self._run = run
        self._ending = threading.Event()
        self._status = "running"
        self._db: sqlite3.Connection | None = None
        self._row_id = 0
        self._loader_ids: dict[LoaderRecord, int] = {}
        self._written_roles: dict[LoaderRecord, tuple[str, int | None]] = {}
        self._sampler = Sampler(run.origin_ns)
        self._dropped = 0
        self._steps = 0
        self._step_cost_ns = _entry_cost_ns()

    def finish(self, status: str, *, wait: bool) -> None:
        """Let the thread write what is left and end."""
        self._status = status
        self._ending.set()
        if wait and self.is_alive():
            self.join(_EXIT_SECONDS)
            if self.is_alive():
                from probe.run import warn

                warn(f"{self._run.db} is still locked: the end of the run may be missing from it")

    def run(self) -> None:
        """Open the file, then flush until the run ends."""
        self._attempt(self._open)
        self._sampler.start()
        while not self._ending.wait(FLUSH_SECONDS):
            self._attempt(self._flush)
        self._sampler.stop()
        self._attempt(self._flush)
        if self._db is not None:
            self._db.close()

    def _attempt(self, work: Any) -> None:
        try:
            work()
        except Exception as error:
            from probe.run import warn

            warn(f"cannot record to {self._run.db}: {error}; training goes on without recording")
            self._db = None

    def _open(self) -> None:
        self._db = connect(self._run.db)
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
        with _transaction(self._db):
            self._row_id = _insert(self._db, "runs", row)

    def _flush(self) -> None:
        run = self._run
        records = list(run.records)
        ending = self._ending.is_set()
        steps = {record: take(record.rows) for record in records}
        if self._db is None:
            self._dropped += sum(map(len, steps.values()))
            return
        events = take(run.events)
        for record in records:
            events += take(record.epochs)
        with _transaction(self._db):
            for record in records:
                self._write_loader(record)
                loader_id = self._loader_ids[record]
                self._db.executemany(_insert_steps(self._row_id, loader_id), steps[record])
                self._steps += len(steps[record])
            self._write_extras(events)
            self._db.execute(
                "UPDATE runs SET status = ?, ended_at = ?, heartbeat_at = ?, overhead_ns = ?,"
                " dropped = ?, device = coalesce(device, ?), driver = coalesce(driver, ?)"
                " WHERE id = ?",
                (
                    self._status if ending else "running",
                    _utc() if ending else None,
                    _utc(),
                    self._overhead_ns(records),
                    self._dropped + sum(record.dropped for record in records),
                    snapshot.device(),
                    self._sampler.driver,
                    self._row_id,
                ),
            )

    def _write_loader(self, record: LoaderRecord) -> None:
        assert self._db is not None
        state = (record.role, record.length)
        if record not in self._loader_ids:
            row = {
                "run_id": self._row_id,
                "name": record.name,
                "role": record.role,
                "length": record.length,
                **record.description,
            }
            row["chain"] = json.dumps(row["chain"])
            self._loader_ids[record] = _insert(self._db, "loaders", row)
        elif self._written_roles[record] != state:
            self._db.execute(
                "UPDATE loaders SET role = ?, length = ? WHERE id = ?",
                (*state, self._loader_ids[record]),
            )
        self._written_roles[record] = state

    def _write_extras(self, events: list[tuple[Any, ...]]) -> None:
        assert self._db is not None
        self._db.executemany(
            f"INSERT INTO events VALUES ({self._row_id}, ?, ?, ?, ?)",
            events,
        )
        gpu_rows, host_rows = self._sampler.take()
        self._db.executemany(
            f"INSERT OR IGNORE INTO gpu_samples VALUES ({self._row_id}{', ?' * 10})", gpu_rows
        )
        self._db.executemany(
            f"INSERT OR IGNORE INTO host_samples VALUES ({self._row_id}{', ?' * 6})", host_rows
        )

    def _overhead_ns(self, records: list[LoaderRecord]) -> int:
        """Sum up what recording cost: the loop's bookkeeping and the CPU time of our threads."""
        samples = sum(record.cost_samples for record in records)
        measured = sum(record.cost_ns for record in records)
        per_step = self._step_cost_ns + (measured / samples if samples else 0)
        return int(self._steps * per_step) + thread_time_ns() + self._sampler.cpu_ns


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
