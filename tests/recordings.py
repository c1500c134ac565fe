"""Builds recordings through the real schema, so that tests know what is in the file.

    recording = Recording(tmp_path / "probe.db")
    run = recording.run("baseline", strategy="plain")
    loader = recording.loader(run, num_workers=0)
    recording.steps(run, loader, wait_ms=[20.0] * 100, compute_ms=40.0)
    recording.close()

Every value that a test does not name is the same in every recording.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from probe.store import schema

Column = float | None | Sequence[float | None]

RUN = {
    "strategy": "plain",
    "experiment": None,
    "status": "finished",
    "started_at": "2026-01-02T03:04:05.000000+00:00",
    "ended_at": "2026-01-02T03:05:05.000000+00:00",
    "heartbeat_at": "2026-01-02T03:05:05.000000+00:00",
    "host": "machine",
    "pid": 1234,
    "rank": 0,
    "local_rank": 0,
    "world_size": 1,
    "group_uid": None,
    "command": "python train.py",
    "git_commit": "0123abc",
    "python": "3.11.7",
    "torch": "2.13.0",
    "device": "cpu",
    "driver": None,
    "config": {"cores": 2, "threads": 1},
    "tags": [],
    "notes": None,
    "probe_version": "0.1.0",
    "overhead_ns": 6_000_000,
    "dropped": 0,
}

LOADER = {
    "role": "consumer",
    "chain": ["DataLoader"],
    "dataset": "Images",
    "batch_size": 32,
    "num_workers": 0,
    "prefetch_factor": None,
    "pin_memory": 0,
    "persistent_workers": 0,
    "start_method": None,
    "in_order": 1,
    "length": 100,
}


class Recording:
    """A recording file that is being written; usable as a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        schema.migrate(self.db)
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.db.close()

    def run(self, name: str | None = "baseline", **columns: Any) -> int:
        """Add a run and return its id."""
        self._count += 1
        row = RUN | {"uid": f"{self._count:08x}-0000-4000-8000-000000000000", "name": name}
        return self._insert("runs", _encoded(row | columns))

    def loader(self, run_id: int, name: str = "train", **columns: Any) -> int:
        """Add a watched loader to a run and return its id."""
        return self._insert(
            "loaders", _encoded(LOADER | {"run_id": run_id, "name": name} | columns)
        )

    def steps(
        self,
        run_id: int,
        loader_id: int,
        *,
        wait_ms: Column = 0.0,
        copy_ms: Column = 0.0,
        compute_ms: Column = 0.0,
        other_ms: Column = 0.0,
        epoch_length: int | None = None,
        samples: Column = 32,
        **columns: Column,
    ) -> None:
        """Add the steps of a loader, back to back from the run's start.

        Each column is one value for all steps or a sequence; the longest sequence says how many
        steps there are. `epoch_length` starts a new epoch every so many steps; without it there is
        one epoch. Further columns go into the table as they are.
        """
        given = {"samples": samples, **columns}
        times = {"wait": wait_ms, "copy": copy_ms, "compute": compute_ms, "other": other_ms}
        lengths = [len(v) for v in (*given.values(), *times.values()) if isinstance(v, Sequence)]
        count = max(lengths, default=1)
        rows: list[dict[str, Any]] = []
        clock = 0
        streams = {name: _stream(value) for name, value in (given | times).items()}
        for step in range(count):
            values = {name: next(stream) for name, stream in streams.items()}
            phases = {f"{name}_ns": round(values.pop(name) * 1e6) for name in times}
            epoch, position = divmod(step, epoch_length or count)
            rows.append(
                {
                    "run_id": run_id,
                    "loader_id": loader_id,
                    "step": step,
                    "epoch": epoch,
                    "epoch_start": int(position == 0),
                    "start_ns": clock,
                    **phases,
                    **values,
                }
            )
            clock += sum(phases.values())
        self._insert_many("steps", rows)

    def fetches(
        self, run_id: int, loader_id: int, count: int, *, wall_ms: float, cpu_ms: float | None
    ) -> None:
        """Add the batches of one epoch, made one after the other without workers or by one."""
        wall_ns = round(wall_ms * 1e6)
        row = {
            "run_id": run_id,
            "loader_id": loader_id,
            "worker": 0,
            "epoch": 0,
            "wall_ns": wall_ns,
            "cpu_ns": None if cpu_ms is None else round(cpu_ms * 1e6),
            "samples": 32,
        }
        self._insert_many(
            "fetches", [row | {"seq": seq, "start_ns": seq * wall_ns} for seq in range(count)]
        )

    def gpu(self, run_id: int, utilization: Sequence[float | None], gpu: int = 0) -> None:
        """Add GPU samples, 200 ms apart."""
        self._insert_many(
            "gpu_samples",
            [
                {"run_id": run_id, "gpu": gpu, "time_ns": i * 200_000_000, "utilization": value}
                for i, value in enumerate(utilization)
            ],
        )

    def host(self, run_id: int, cpu: Sequence[float | None]) -> None:
        """Add samples of the machine, 200 ms apart."""
        self._insert_many(
            "host_samples",
            [
                {"run_id": run_id, "time_ns": i * 200_000_000, "cpu": value}
                for i, value in enumerate(cpu)
            ],
        )

    def event(self, run_id: int, time_ns: int, kind: str, label: str | None = None) -> None:
        """Add an event."""
        self._insert("events", {"run_id": run_id, "time_ns": time_ns, "kind": kind, "label": label})

    def _insert(self, table: str, row: dict[str, Any]) -> int:
        cursor = self.db.execute(_sql(table, row), list(row.values()))
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _insert_many(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.db.execute("BEGIN")
        self.db.executemany(_sql(table, rows[0]), [list(row.values()) for row in rows])
        self.db.execute("COMMIT")


def _sql(table: str, row: dict[str, Any]) -> str:
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"


def _stream(value: Column) -> Iterator[Any]:
    return iter(value) if isinstance(value, Sequence) else itertools.repeat(value)


def _encoded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, list | dict) else value
        for name, value in row.items()
    }
