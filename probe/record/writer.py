"""The thread that carries what was recorded to the SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from probe.record import snapshot
from probe.record.buffer import LOADER_STATE, STEP_COLUMNS, LoaderRecord, take
from probe.record.clock import Mark, open_clock
from probe.record.hardware import Sampler
from probe.record.warnings import warn
from probe.record.workers import drain
from probe.store import schema

if TYPE_CHECKING:
    from probe.run import Run

FLUSH_SECONDS = 0.5
_LOCK_TIMEOUT_SECONDS = 30
_EXIT_SECONDS = 10

# How long the end of a run waits for the device to finish its last steps.
_DEVICE_SECONDS = 2

# A mark serves as anchor two flushes after it was done: by then it is older than all that is read.
_ANCHORS = 3

# The columns that a device clock adds to those of `STEP_COLUMNS`.
DEVICE_COLUMNS = ("exposed_wait_ns", "device_copy_ns", "exposed_copy_ns", "device_compute_ns")
_UNKNOWN = (None, None, None, None)


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
        self._loaders: dict[LoaderRecord, tuple[int, tuple[Any, ...]]] = {}
        # Per worker: its process, the sequence number at which that began, and the newest.
        self._sequence: dict[tuple[LoaderRecord, int], tuple[int, int, int]] = {}
        self._taken: list[tuple[list[Any], list[Any]]] = []
        self._description: dict[str, Any] = {}
        self._anchors: list[Mark] = []
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
        try:
            self._description = self._describe()
        except Exception as error:
            warn(f"this run is not described: {error}")
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
        try:
            self._find_clock()
        except Exception as error:
            warn(f"device times are not recorded: {error}")
        before = self._row_id, dict(self._loaders), self._steps, dict(self._sequence)
        try:
            with _writing:
                if _forked_while_writing:
                    raise OSError("this process was forked from one that was writing to it")
                db = connect(self._run.db)
                try:
                    with _transaction(db):
                        if self._row_id is None:
                            self._row_id = _insert(db, "runs", self._row())
                        self._write(db, self._row_id)
                finally:
                    db.close()
        except Exception as error:
            self._row_id, self._loaders, self._steps, self._sequence = before
            for buffer, taken in self._taken:
                buffer[:0] = taken
            warn(f"cannot record to {self._run.db}: {error}; training goes on")
        self._taken = []

    def _take(self, buffer: list[Any]) -> list[Any]:
        taken = take(buffer)
        self._taken.append((buffer, taken))
        return taken

    def _row(self) -> dict[str, Any]:
        return {
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
            **self._description,
        }

    def _describe(self) -> dict[str, Any]:
        """Describe the process; this may run git, so it does not belong into a flush."""
        row = snapshot.process()
        row["config"] = json.dumps(row["config"])
        row["device"] = self._run.device or row["device"]
        return row

    def _write(self, db: sqlite3.Connection, run_id: int) -> None:
        run, ending = self._run, self._ending.is_set()
        drain()
        events = list(self._take(run.events))
        records = list(run.records)
        for record in records:
            loader_id = self._write_loader(db, run_id, record)
            rows = self._take(record.rows)
            db.executemany(_insert_steps(run_id, loader_id, STEP_COLUMNS), rows)
            timed = self._take_timed(record, ending)
            db.executemany(_insert_steps(run_id, loader_id, STEP_COLUMNS + DEVICE_COLUMNS), timed)
            self._steps += len(rows) + len(timed)
            events += self._take(record.epochs)
            db.executemany(
                f"INSERT INTO fetches VALUES ({run_id}, {loader_id}, ?, ?, ?, ?, ?, ?, ?)",
                self._fetch_rows(record),
            )
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

    def _take_timed(self, record: LoaderRecord, ending: bool) -> list[tuple[int | None, ...]]:
        """Take the steps that the device has finished, with its times."""
        if not record.device_rows:
            return []
        until = time.monotonic() + (_DEVICE_SECONDS if ending else 0)
        ready = 0
        for _, marks in list(record.device_rows):
            while marks.pending() and time.monotonic() < until:
                time.sleep(0.001)
            if marks.pending() and not ending:
                break
            ready += 1
        taken = record.device_rows[:ready]
        del record.device_rows[:ready]
        self._taken.append((record.device_rows, taken))
        anchor = self._anchors[0] if len(self._anchors) == _ANCHORS else None
        timed = [
            (*row, *(_UNKNOWN if marks.pending() else marks.times(anchor) or _UNKNOWN))
            for row, marks in taken
        ]
        if taken and (newest := taken[-1][1].got) is not None:
            self._anchors = [*self._anchors, newest][-_ANCHORS:]
        return timed

    def _fetch_rows(self, record: LoaderRecord) -> Iterator[tuple[int | None, ...]]:
        for fetch in self._take(record.fetches):
            key = record, fetch.worker
            process, first, newest = self._sequence.get(key, (fetch.process, 0, -1))
            # Without workers each epoch counts from 0 again, in the same process.
            if process != fetch.process or first + fetch.number <= newest:
                first = newest + 1
            self._sequence[key] = fetch.process, first, first + fetch.number
            yield (
                fetch.worker,
                first + fetch.number,
                record.epoch_at(fetch.start),
                fetch.start - record.origin_ns,
                fetch.wall,
                fetch.cpu,
                fetch.samples,
            )

    def _find_clock(self) -> None:
        """Give the loops a device clock once the program has begun to use a device."""
        for record in self._run.records:
            for loop in list(record.loops):
                if loop.clock is None and record.role == "consumer":
                    clock = open_clock()
                    if clock is None:
                        return
                    loop.use_clock(clock)

    def _write_loader(self, db: sqlite3.Connection, run_id: int, record: LoaderRecord) -> int:
        state = record.state()
        if record not in self._loaders:
            row = {
                "run_id": run_id,
                "name": record.name,
                **record.description,
                "chain": json.dumps(record.description["chain"]),
                **dict(zip(LOADER_STATE, state, strict=True)),
            }
            loader_id = _insert(db, "loaders", row)
        else:
            loader_id, written = self._loaders[record]
            if written != state:
                changes = ", ".join(f"{name} = ?" for name in LOADER_STATE)
                db.execute(f"UPDATE loaders SET {changes} WHERE id = ?", (*state, loader_id))
        self._loaders[record] = (loader_id, state)
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


def _insert_steps(run_id: int, loader_id: int, columns: tuple[str, ...]) -> str:
    """The ids are part of the statement, so the loop's tuples are bound as they are."""
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
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
