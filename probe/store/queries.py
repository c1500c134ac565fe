"""Questions to a recording, read-only: small records and numpy arrays come back.

Nothing here writes to a recording or repairs it, so a reader can never disturb a training run.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from probe.store import schema

T = TypeVar("T")

# A writer beats at least once a second; a machine under load may be late.
_SILENT_AFTER = timedelta(seconds=15)

# More digits may not fit into SQLite's 64 bits.
_ID_DIGITS = 18


class StoreError(Exception):
    """A recording that cannot be read, or a run that is not in it; one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Run:
    """One row of `runs`; JSON columns are parsed and `status` is what a reader may believe."""

    id: int
    uid: str
    name: str | None
    strategy: str | None
    experiment: str | None
    status: str
    started_at: str
    ended_at: str | None
    heartbeat_at: str
    host: str | None
    pid: int | None
    rank: int | None
    local_rank: int | None
    world_size: int | None
    group_uid: str | None
    command: str | None
    git_commit: str | None
    python: str | None
    torch: str | None
    device: str | None
    driver: str | None
    config: dict[str, Any]
    tags: list[str]
    notes: str | None
    probe_version: str
    overhead_ns: int | None
    dropped: int

    @property
    def label(self) -> str:
        """What to call the run on screen: its name, else the start of its uid."""
        return self.name or self.uid[:8]


@dataclass(frozen=True, slots=True)
class Loader:
    """One row of `loaders`."""

    id: int
    run_id: int
    name: str
    role: str
    chain: list[str]
    dataset: str | None
    batch_size: int | None
    num_workers: int | None
    prefetch_factor: int | None
    pin_memory: bool | None
    persistent_workers: bool | None
    start_method: str | None
    in_order: bool | None
    length: int | None
    copies: int | None = None
    copied_bytes: int | None = None
    copied_pageable_bytes: int | None = None
    copied_blocking_bytes: int | None = None
    hidden_copies: int | None = None
    hidden_copy_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one loader, oldest first; every array has shape (n,).

    Host times and `start_ns` are int64 nanoseconds. Columns that may be unmeasured are float64
    with NaN for NULL. `stall_ns` is exposed wait where a device clock exists, else wait, plus
    exposed copy.
    """

    step: NDArray[np.int64]
    epoch: NDArray[np.int64]
    epoch_start: NDArray[np.bool_]
    start_ns: NDArray[np.int64]
    wait_ns: NDArray[np.int64]
    copy_ns: NDArray[np.int64]
    compute_ns: NDArray[np.int64]
    other_ns: NDArray[np.int64]
    step_ns: NDArray[np.int64]
    stall_ns: NDArray[np.int64]
    exposed_wait_ns: NDArray[np.float64]
    device_copy_ns: NDArray[np.float64]
    exposed_copy_ns: NDArray[np.float64]
    device_compute_ns: NDArray[np.float64]
    samples: NDArray[np.float64]
    bytes: NDArray[np.float64]
    ready: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True)
class Fetches:
    """Batches made for one loader, ordered by worker and sequence; every array has shape (n,).

    `cpu_ns` and `samples` are float64 with NaN where unmeasured. `wall_ns` − `cpu_ns` is time not
    on a core: storage, locks, or a busy machine. With batches delivered in order, worker w of n
    makes batches w, w + n, w + 2n, … of an epoch.
    """

    worker: NDArray[np.int64]
    seq: NDArray[np.int64]
    epoch: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    wall_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.float64]
    samples: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.seq)


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of `stages`: what the workers of a loader spent in one named stage."""

    name: str
    calls: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class GpuSamples:
    """Samples of one GPU, oldest first; NaN where NVML did not answer. `utilization` is 0–1."""

    gpu: int
    time_ns: NDArray[np.int64]
    utilization: NDArray[np.float64]
    memory_used: NDArray[np.float64]
    memory_total: NDArray[np.float64]
    power_w: NDArray[np.float64]
    sm_clock_mhz: NDArray[np.float64]
    pcie_rx: NDArray[np.float64]
    pcie_tx: NDArray[np.float64]
    temperature: NDArray[np.float64]
    sm_activity: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HostSamples:
    """Samples of the machine, oldest first; NaN where unmeasured. Shares are 0–1."""

    time_ns: NDArray[np.int64]
    cpu: NDArray[np.float64]
    tree_cpu: NDArray[np.float64]
    iowait: NDArray[np.float64]
    disk_read: NDArray[np.float64]
    memory_used: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened beside the steps, such as the end of an epoch."""

    time_ns: int
    kind: str
    label: str | None
    duration_ns: int | None


class Store:
    """A recording opened read-only.

    Args:
        path: The SQLite file.

    Raises:
        StoreError: There is no such file, or it is not a recording this probe can read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise StoreError(
                f"there is no recording at {self.path}: name another file, or record one with"
                " `probe demo`"
            )
        try:
            self._db = _open_read_only(self.path)
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self.path}: {error}") from error
        try:
            version = schema.check(self._db)
        except (sqlite3.Error, ValueError) as error:
            self.close()
            raise StoreError(f"cannot read {self.path}: {error}") from error
        if version != schema.VERSION:
            self.close()
            found = f"schema {version}" if version else "no tables yet"
            raise StoreError(
                f"cannot read {self.path}: it has {found}, this probe reads schema "
                f"{schema.VERSION}: record into it once more, or choose another file"
            )

    def close(self) -> None:
        """Close the file; the store must not be used afterwards."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def runs(self) -> list[Run]:
        """Return all runs, the newest first."""
        rows = self._query("SELECT * FROM runs ORDER BY started_at DESC, id DESC")
        return [_run(row) for row in rows]

    def run(self, ref: str | int) -> Run:
        """Find a run by id, by a unique prefix of its uid, or by name (the newest with it).

        Raises:
            StoreError: No run or several runs fit; the message lists what there is.
        """
        text = str(ref)
        if text.isdecimal() and len(text) <= _ID_DIGITS:
            rows = self._query("SELECT * FROM runs WHERE id = ?", int(text))
            if rows:
                return _run(rows[0])
        rows = self._query(
            "SELECT * FROM runs WHERE name = ? ORDER BY started_at DESC, id DESC LIMIT 1", text
        )
        if rows:
            return _run(rows[0])
        rows = self._query("SELECT * FROM runs WHERE substr(uid, 1, ?) = ?", len(text), text)
        if text and len(rows) == 1:
            return _run(rows[0])
        if text and rows:
            raise StoreError(f"{text!r} fits the uid of {len(rows)} runs: give more of it")
        newest = [run.label for run in self.runs()[:5]]
        known = "the newest are " + ", ".join(newest) if newest else "it has no runs"
        raise StoreError(f"there is no run {text!r} in {self.path}; {known}")

    def loaders(self, run_id: int) -> list[Loader]:
        """Return the watched loaders of a run in the order in which they were first used."""
        rows = self._query("SELECT * FROM loaders WHERE run_id = ? ORDER BY id", run_id)
        return [_loader(row) for row in rows]

    def steps(self, run_id: int, loader_id: int) -> Steps:
        """Return every step of one loader."""
        columns = ", ".join(Steps.__slots__)
        rows = self._query(
            f"SELECT {columns} FROM step_times WHERE run_id = ? AND loader_id = ? ORDER BY step",
            run_id,
            loader_id,
        )
        return Steps(**_arrays(Steps.__slots__, rows, nullable=_NULLABLE_STEP_COLUMNS))

    def fetches(self, run_id: int, loader_id: int) -> Fetches:
        """Return every batch that was seen being made for one loader; length 0 when none was."""
        columns = Fetches.__slots__
        rows = self._query(
            f"SELECT {', '.join(columns)} FROM fetches WHERE run_id = ? AND loader_id = ?"
            " ORDER BY worker, seq",
            run_id,
            loader_id,
        )
        return Fetches(**_arrays(columns, rows, nullable=("cpu_ns", "samples")))

    def stages(self, run_id: int, loader_id: int) -> list[Stage]:
        """Return the stages of a loader's batches; empty unless they were timed."""
        rows = self._query(
            "SELECT name, calls, wall_ns FROM stages WHERE run_id = ? AND loader_id = ?",
            run_id,
            loader_id,
        )
        return [_record(Stage, dict(row)) for row in rows]

    def gpu_samples(self, run_id: int) -> list[GpuSamples]:
        """Return the samples of each GPU that the run used; empty without NVML."""
        gpus = self._query(
            "SELECT DISTINCT gpu FROM gpu_samples WHERE run_id = ? ORDER BY gpu", run_id
        )
        columns = GpuSamples.__slots__[1:]
        found = []
        for (gpu,) in gpus:
            rows = self._query(
                f"SELECT {', '.join(columns)} FROM gpu_samples"
                " WHERE run_id = ? AND gpu = ? ORDER BY time_ns",
                run_id,
                gpu,
            )
            found.append(GpuSamples(gpu, **_arrays(columns, rows, nullable=columns[1:])))
        return found

    def host_samples(self, run_id: int) -> HostSamples:
        """Return the samples of the machine; arrays of length 0 when there are none."""
        columns = HostSamples.__slots__
        rows = self._query(
            f"SELECT {', '.join(columns)} FROM host_samples WHERE run_id = ? ORDER BY time_ns",
            run_id,
        )
        return HostSamples(**_arrays(columns, rows, nullable=columns[1:]))

    def events(self, run_id: int) -> list[Event]:
        """Return what happened beside the steps, oldest first."""
        rows = self._query(
            "SELECT time_ns, kind, label, duration_ns FROM events"
            " WHERE run_id = ? ORDER BY time_ns",
            run_id,
        )
        return [Event(*row) for row in rows]

    def version_key(self, run_id: int) -> tuple[object, ...]:
        """Return a key that changes whenever what can be read of the run does, and is quick."""
        rows = self._query(
            "SELECT (SELECT count(*) FROM loaders WHERE run_id = ?1), status, heartbeat_at"
            " FROM runs WHERE id = ?1",
            run_id,
        )
        # A run that falls silent becomes an interrupted one without anybody writing.
        return (*rows[0], _is_silent(rows[0]["heartbeat_at"])) if rows else ()

    def _query(self, sql: str, *parameters: object) -> list[Any]:
        try:
            return self._db.execute(sql, parameters).fetchall()
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise StoreError(f"cannot read {self.path}: {error}") from error


_NULLABLE_STEP_COLUMNS = (
    "exposed_wait_ns",
    "device_copy_ns",
    "exposed_copy_ns",
    "device_compute_ns",
    "samples",
    "bytes",
    "ready",
)


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Open a recording, also one in a folder where SQLite may not put its -shm file."""
    path = path.resolve()
    connection = _connect(path.as_uri() + "?mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        connection.close()
        # Without a -wal file nobody is writing, so the file may be read as one that never changes.
        in_use = path.with_name(path.name + "-wal").exists()
        if in_use or not isinstance(error, sqlite3.OperationalError):
            raise
        connection = _connect(path.as_uri() + "?mode=ro&immutable=1")
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    return connection


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=5, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection


def _arrays(
    names: tuple[str, ...], rows: list[Any], nullable: tuple[str, ...]
) -> dict[str, NDArray[Any]]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    found: dict[str, NDArray[Any]] = {}
    for name, values in zip(names, columns, strict=True):
        kind: Any = np.float64 if name in nullable else np.int64  # as float, None becomes NaN
        try:
            found[name] = np.array(values, dtype=np.bool_ if name == "epoch_start" else kind)
        except (OverflowError, TypeError, ValueError) as error:
            raise StoreError(f"the recording holds no numbers where {name} should be") from error
    return found


def _record(cls: type[T], values: dict[str, Any]) -> T:
    """Make a record of a row, if each of its values is what the column holds by the schema."""
    chosen = {}
    for field in fields(cls):  # type: ignore[arg-type]
        allowed = tuple(_TYPES[part] for part in str(field.type).split(" | "))
        value = values.get(field.name)
        if not isinstance(value, allowed):
            raise StoreError(f"the recording holds {value!r:.40} where {field.name} should be")
        chosen[field.name] = value
    return cls(**chosen)


_TYPES: dict[str, type] = {
    "int": int,
    "str": str,
    "bool": bool,
    "None": type(None),
    "list[str]": list,
    "dict[str, Any]": dict,
}


def _run(row: sqlite3.Row) -> Run:
    values = dict(row)
    config, tags = _parse(values.get("config")), _parse(values.get("tags"))
    values["config"] = config if isinstance(config, dict) else {}
    values["tags"] = [str(tag) for tag in tags] if isinstance(tags, list) else []
    if values.get("status") == "running" and _is_silent(values.get("heartbeat_at")):
        values["status"] = "interrupted"
    return _record(Run, values)


def _is_silent(heartbeat_at: Any) -> bool:
    try:
        return datetime.now(UTC) - datetime.fromisoformat(heartbeat_at) > _SILENT_AFTER
    except (ValueError, TypeError):
        return True


def _loader(row: sqlite3.Row) -> Loader:
    values = dict(row)
    chain = _parse(values.get("chain"))
    values["chain"] = [str(name) for name in chain] if isinstance(chain, list) else []
    for name in ("pin_memory", "persistent_workers", "in_order"):
        values[name] = None if values.get(name) is None else bool(values[name])
    return _record(Loader, values)


def _parse(text: Any) -> object:
    """Read JSON; None for what is none, or is nested deeper than any that probe writes."""
    try:
        found = json.loads(text) if text else None
        return found if str(text).count("[") + str(text).count("{") < _MANY else None
    except (TypeError, ValueError, RecursionError):
        return None


_MANY = 1000
