"""The thread that carries what was recorded to the SQLite file."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from time import perf_counter_ns as now
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from probe.record import forks, snapshot
from probe.record.buffer import DEVICE_COLUMNS, LOADER_STATE, STEP_COLUMNS, LoaderRecord, take
from probe.record.clock import Mark, open_clock
from probe.record.file import connect, insert, transaction, update
from probe.record.hardware import Sampler
from probe.record.warnings import attempt, warn
from probe.record.workers import drain

if TYPE_CHECKING:
    from probe.run import Run

FLUSH_SECONDS = 0.5
_EXIT_SECONDS = 10

# How long the end of a run waits for the device to finish its last steps.
_DEVICE_SECONDS = 2

# A mark serves as anchor two flushes after it was done: by then it is older than all that is read.
_ANCHORS = 3
_UNKNOWN = (None,) * len(DEVICE_COLUMNS)

# With how many steps before it the last one is compared when nobody saw its end.
_RECENT = 1000

# SQLite's answers to a value that no column can hold; the file itself is in order.
_BAD_VALUE = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    OverflowError,
)


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
        self._details: dict[str, Any] = {}
        self._loaders: dict[LoaderRecord, tuple[int, tuple[Any, ...]]] = {}
        # Per worker: its process, the sequence number at which that began, and the newest.
        self._sequence: dict[tuple[LoaderRecord, int], tuple[int, int, int]] = {}
        self._taken: list[tuple[list[Any], list[Any]]] = []
        self._one_by_one = False
        self._refused = 0
        self._device_index: int | None = None
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
                warn(f"the end of this run could not be written to {self._run.db} in time")

    def run(self) -> None:
        """Flush until the run ends."""
        self._flush()
        try:
            self._details = snapshot.details()
        except Exception as error:
            warn(f"this run is not described in full: {error}")
        self._sampler.start()
        while not self._ending.wait(FLUSH_SECONDS):
            self._flush()
        self._sampler.stop()
        self._flush()
        left = sum(len(record.rows) + len(record.timed) for record in self._run.records)
        if left:
            warn(f"{left} steps could not be written to {self._run.db}")

    def _flush(self) -> None:
        try:
            self._find_clock()
            for record in list(self._run.records):
                self._read_device(record)
        except Exception as error:
            warn(f"device times are not recorded: {error}")
        before = dict(self._loaders), self._steps, self._refused, dict(self._sequence)
        try:
            with forks.writing:
                forks.check()
                db = connect(self._run.db)
                try:
                    self._find_row(db)
                    with transaction(db):
                        self._write(db)
                finally:
                    db.close()
            self._one_by_one = False
        except Exception as error:
            self._loaders, self._steps, self._refused, self._sequence = before
            for buffer, taken in self._taken:
                buffer[:0] = taken
            again = isinstance(error, _BAD_VALUE) and not self._one_by_one
            self._one_by_one = again
            if not again:
                warn(f"cannot record to {self._run.db}: {error}; training goes on")
        self._taken = []
        if self._one_by_one:
            self._flush()

    def _find_row(self, db: sqlite3.Connection) -> None:
        """Make the run's row; also when the file has been deleted or replaced since."""
        found = db.execute("SELECT id FROM runs WHERE uid = ?", (self._run.uid,)).fetchone()
        if found is None:
            if self._row_id is not None:
                warn(f"{self._run.db} was replaced: what this run had recorded in it is gone")
            self._loaders, self._sequence = {}, {}
            self._row_id = insert(db, "runs", self._row())

    def _take(self, buffer: list[Any]) -> list[Any]:
        taken = take(buffer)
        self._taken.append((buffer, taken))
        return taken

    def _insert_all(self, db: sqlite3.Connection, sql: str, rows: list[Any]) -> int:
        """Insert rows and return how many; after a bad value singly, to lose none but that."""
        if not self._one_by_one:
            db.executemany(sql, rows)
            return len(rows)
        written = 0
        for row in rows:
            try:
                db.execute(sql, row)
                written += 1
            except _BAD_VALUE as error:
                warn(f"a row could not be recorded: {error}")
        return written

    def _row(self) -> dict[str, Any]:
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
        return {name: storable(value) for name, value in row.items()}

    def _write(self, db: sqlite3.Connection) -> None:
        assert self._row_id is not None
        run, run_id, ending = self._run, self._row_id, self._ending.is_set()
        drain()
        events = list(self._take(run.events))
        records = list(run.records)
        for record in records:
            loader_id = self._write_loader(db, run_id, record)
            for buffer, columns in (
                (record.rows, STEP_COLUMNS),
                (record.timed, STEP_COLUMNS + DEVICE_COLUMNS),
            ):
                rows = self._take(buffer)
                written = self._insert_all(db, _insert_steps(run_id, loader_id, columns), rows)
                self._steps += written
                self._refused += len(rows) - written
            events += self._write_open_steps(db, run_id, loader_id, record)
            events += self._take(record.epochs)
            self._insert_all(
                db,
                f"INSERT INTO fetches VALUES ({run_id}, {loader_id}, ?, ?, ?, ?, ?, ?, ?)",
                list(self._fetch_rows(record)),
            )
            self._insert_all(
                db,
                f"INSERT OR REPLACE INTO stages VALUES ({run_id}, {loader_id}, ?, ?, ?)",
                [(storable(name), *totals) for name, totals in record.stages.items()],
            )
        for table, rows in (
            ("events", events),
            ("gpu_samples", self._take(self._sampler.gpu_rows)),
            ("host_samples", self._take(self._sampler.host_rows)),
        ):
            if rows:
                marks = ", ".join("?" * len(rows[0]))
                sql = f"INSERT OR IGNORE INTO {table} VALUES ({run_id}, {marks})"
                self._insert_all(db, sql, rows)
        state = {
            "status": self._status if ending else "running",
            "ended_at": _utc() if ending else None,
            "heartbeat_at": _utc(),
            "overhead_ns": self._overhead_ns(records),
            "dropped": self._refused + sum(record.dropped for record in records),
            "device": run.device
            or attempt(partial(snapshot.device, self._device_index, ended=ending)),
            "driver": self._sampler.driver,
            **self._details,
        }
        update(db, "runs", {name: storable(value) for name, value in state.items()}, run_id)

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
            row = {name: storable(value) for name, value in row.items()}
            loader_id = insert(db, "loaders", row)
        else:
            loader_id, written = self._loaders[record]
            if written != state:
                update(db, "loaders", dict(zip(LOADER_STATE, state, strict=True)), loader_id)
        self._loaders[record] = (loader_id, state)
        return loader_id

    def _write_open_steps(
        self, db: sqlite3.Connection, run_id: int, loader_id: int, record: LoaderRecord
    ) -> list[tuple[Any, ...]]:
        """Write steps that were open at the end of the run, unless they hold more than a step.

        Nobody saw their end: after the last `next` of an iterator that the program has kept may
        have come a long evaluation. One that lasted longer than all before it is left out, and an
        event says so.
        """
        events: list[tuple[Any, ...]] = []
        for row in self._take(record.open_rows):
            (longest,) = db.execute(
                "SELECT max(step_ns) FROM (SELECT step_ns FROM step_times WHERE run_id = ? AND"
                " loader_id = ? AND epoch_start = 0 ORDER BY step DESC LIMIT ?)",
                (run_id, loader_id, _RECENT),
            ).fetchone()
            lasted = sum(part or 0 for part in row[4:8])
            if longest is None or lasted <= longest:
                sql = _insert_steps(run_id, loader_id, STEP_COLUMNS)
                self._steps += self._insert_all(db, sql, [row])
            else:
                label = f"the last step of {record.name} is left out: its end was not seen"
                events.append((row[3], "warning", label, lasted))
        return events

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
        for record in list(self._run.records):
            for loop in list(record.loops):
                if loop.clock is None and record.role == "consumer":
                    clock = open_clock()
                    if clock is None:
                        return
                    loop.use_clock(clock)

    def _read_device(self, record: LoaderRecord) -> None:
        """Read the device's times of the steps that it has finished."""
        ending = self._ending.is_set()
        until = time.monotonic() + (_DEVICE_SECONDS if ending else 0)
        anchor = self._anchors[0] if len(self._anchors) == _ANCHORS else None
        newest = None
        while record.device_rows:
            row, marks = record.device_rows[0]
            while marks.pending() and time.monotonic() < until:
                time.sleep(0.001)
            if marks.pending():
                if not ending:
                    break
                times = None
            else:
                times = marks.times(anchor)
                newest = marks.got or newest
            record.timed.append((*row, *(times or _UNKNOWN)))
            del record.device_rows[0]
        if newest is not None:
            self._anchors = [*self._anchors, newest][-_ANCHORS:]
            self._device_index = newest.device

    def _overhead_ns(self, records: list[LoaderRecord]) -> int:
        """Sum up what recording cost: the loop's bookkeeping and the CPU time of our threads."""
        samples = sum(record.cost_samples for record in records)
        measured = sum(record.cost_ns for record in records)
        per_step = self._step_cost_ns + (measured / samples if samples else 0)
        return int(self._steps * per_step) + thread_time_ns() + self._sampler.cpu_ns


def _insert_steps(run_id: int, loader_id: int, columns: tuple[str, ...]) -> str:
    """The ids are part of the statement, so the loop's tuples are bound as they are."""
    names = ", ".join(columns)
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO steps (run_id, loader_id, {names}) VALUES ({run_id}, {loader_id}, {marks})"


def storable(value: Any) -> Any:
    """Make text of what is neither text nor a number, and of text what SQLite can hold."""
    if value is None or isinstance(value, (int, float)):
        return value
    return str(value).encode("utf-8", "replace").decode().replace("\0", "")


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
