"""The tables of a recording, and how an older file becomes a current one.

Names and units are public: people query the file with other tools. Each table is written out
as SQL with a comment per column, which SQLite keeps, so `.schema` explains itself. A migration
that has been released never changes; a new column is a new migration.
"""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite_utils.db import Database
    from sqlite_utils.migrations import Migrations

# Written to `PRAGMA user_version`: the number of migrations a file has seen. A reader compares one
# integer and a writer on a current file never has to import sqlite-utils.
VERSION = 1

# Marks a SQLite file as ours (`PRAGMA application_id`): "prob" in ASCII.
APPLICATION_ID = 0x70726F62

_MIGRATION_SET = "probe"
_MIGRATIONS = ("m001_first_tables",)

# The table in which sqlite-utils notes what it has applied, as sqlite-utils 4 makes it.
_BOOKKEEPING = (
    """
    CREATE TABLE "_sqlite_migrations" (
      "id" INTEGER PRIMARY KEY,
      "migration_set" TEXT,
      "name" TEXT,
      "applied_at" TEXT
    )
    """,
    "CREATE UNIQUE INDEX [idx__sqlite_migrations_migration_set_name]"
    " ON [_sqlite_migrations] ([migration_set], [name])",
)

_TABLES_1 = (
    """
    CREATE TABLE runs (
      id INTEGER PRIMARY KEY,
      uid TEXT NOT NULL UNIQUE,          -- UUID of this recording process's run
      name TEXT,                         -- chosen by the user, may repeat
      strategy TEXT,                     -- how batches reach the loop
      experiment TEXT,                   -- groups runs that belong together
      status TEXT NOT NULL,              -- running | finished | failed | interrupted
      started_at TEXT NOT NULL,          -- UTC, ISO 8601
      ended_at TEXT,                     -- UTC, ISO 8601
      heartbeat_at TEXT NOT NULL,        -- UTC, ISO 8601; the writer was alive then
      host TEXT,
      pid INTEGER,
      rank INTEGER,                      -- 0 outside distributed training
      local_rank INTEGER,
      world_size INTEGER,
      group_uid TEXT,                    -- shared by the ranks of one training
      command TEXT,                      -- the command line of the training process
      git_commit TEXT,                   -- of the working directory; "+dirty" when it had changes
      python TEXT,
      torch TEXT,
      device TEXT,                       -- name of the accelerator, or "cpu"
      driver TEXT,                       -- NVIDIA driver version
      config TEXT,                       -- JSON object: threads, cores, versions, …
      tags TEXT,                         -- JSON array of strings
      notes TEXT,
      probe_version TEXT NOT NULL,
      overhead_ns INTEGER,               -- what recording has cost this run so far
      dropped INTEGER NOT NULL DEFAULT 0 -- steps that were measured but could not be written
    ) STRICT
    """,
    """
    CREATE TABLE loaders (
      id INTEGER PRIMARY KEY,
      run_id INTEGER NOT NULL REFERENCES runs(id),
      name TEXT NOT NULL,                -- train, val, …
      role TEXT NOT NULL,                -- consumer | producer
      chain TEXT NOT NULL,               -- JSON array of class names, outermost first
      dataset TEXT,                      -- class name
      batch_size INTEGER,
      num_workers INTEGER,
      prefetch_factor INTEGER,
      pin_memory INTEGER,                -- 0 | 1
      persistent_workers INTEGER,        -- 0 | 1
      start_method TEXT,                 -- fork | spawn | forkserver
      in_order INTEGER,                  -- 0 | 1
      length INTEGER,                    -- batches in the first complete epoch
      copies INTEGER,                    -- tensors that the loop's thread copied to the device
      copied_bytes INTEGER,              -- their size
      copied_pageable_bytes INTEGER,     -- of it, from memory that was not pinned
      copied_blocking_bytes INTEGER,     -- of it, by copies that the host waited for
      hidden_copies INTEGER,             -- copies by other threads while the loop was open
      hidden_copy_ns INTEGER             -- time those threads spent on them; costs the loop nothing
    ) STRICT
    """,
    "CREATE INDEX loaders_run ON loaders(run_id)",
    # Without a rowid a step costs 49 bytes instead of 62: the key is not stored twice.
    """
    CREATE TABLE steps (
      run_id INTEGER NOT NULL,
      loader_id INTEGER NOT NULL,
      step INTEGER NOT NULL,             -- 0, 1, 2, … per loader
      epoch INTEGER NOT NULL,            -- 0, 1, 2, … per loader
      epoch_start INTEGER NOT NULL,      -- 1: began with iter(), its wait holds worker start-up
      start_ns INTEGER NOT NULL,         -- when the loop asked, since the run's start
      wait_ns INTEGER NOT NULL,          -- training thread blocked inside the loader
      copy_ns INTEGER NOT NULL,          -- host to device transfer, on the training thread
      compute_ns INTEGER NOT NULL,       -- the rest of the step
      other_ns INTEGER NOT NULL,         -- another watched loader, probe.exclude
      exposed_wait_ns INTEGER,           -- device clock: device idle because of the wait
      device_copy_ns INTEGER,            -- device clock: duration of the copies
      exposed_copy_ns INTEGER,           -- device clock: copy that nothing else overlapped
      device_compute_ns INTEGER,         -- device clock
      samples INTEGER,                   -- in the batch
      bytes INTEGER,                     -- of the batch's tensors
      ready INTEGER,                     -- finished batches in the queue when the loop asked
      PRIMARY KEY (run_id, loader_id, step)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE fetches (
      run_id INTEGER NOT NULL,
      loader_id INTEGER NOT NULL,
      worker INTEGER NOT NULL,           -- id of the DataLoader worker; 0 without workers
      seq INTEGER NOT NULL,              -- 0, 1, 2, … per worker, over all epochs
      epoch INTEGER NOT NULL,            -- 0, 1, 2, … per loader, as in steps
      start_ns INTEGER NOT NULL,         -- since the run's start
      wall_ns INTEGER NOT NULL,          -- making the batch: dataset and collate
      cpu_ns INTEGER,                    -- of it, on a core; the rest waited for storage or locks
      samples INTEGER,
      PRIMARY KEY (run_id, loader_id, worker, seq)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE stages (
      run_id INTEGER NOT NULL,
      loader_id INTEGER NOT NULL,
      name TEXT NOT NULL,                -- a data set's or transform's class, or "collate"
      calls INTEGER NOT NULL,            -- in all workers
      wall_ns INTEGER NOT NULL,          -- inclusive: a data set's contains its transforms'
      PRIMARY KEY (run_id, loader_id, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE gpu_samples (
      run_id INTEGER NOT NULL,
      gpu INTEGER NOT NULL,              -- NVML index
      time_ns INTEGER NOT NULL,          -- since the run's start
      utilization REAL,                  -- 0–1: share of time that at least one kernel ran
      memory_used INTEGER,               -- bytes
      memory_total INTEGER,              -- bytes
      power_w REAL,
      sm_clock_mhz INTEGER,
      pcie_rx INTEGER,                   -- bytes per second, host to device
      pcie_tx INTEGER,                   -- bytes per second, device to host
      temperature INTEGER,               -- °C
      sm_activity REAL,                  -- 0–1: share of SM time with a warp, Hopper and later
      PRIMARY KEY (run_id, gpu, time_ns)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE host_samples (
      run_id INTEGER NOT NULL,
      time_ns INTEGER NOT NULL,          -- since the run's start
      cpu REAL,                          -- 0–1: busy share of the cores this process may use
      tree_cpu REAL,                     -- 0–1: the same, by this process and its children alone
      iowait REAL,                       -- 0–1
      disk_read INTEGER,                 -- bytes per second, whole machine
      memory_used INTEGER,               -- bytes, whole machine
      PRIMARY KEY (run_id, time_ns)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE events (
      run_id INTEGER NOT NULL,
      time_ns INTEGER NOT NULL,          -- since the run's start
      kind TEXT NOT NULL,                -- epoch | exclude | gc | warning | dropped
      label TEXT,
      duration_ns INTEGER
    ) STRICT
    """,
    "CREATE INDEX events_run ON events(run_id, time_ns)",
    """
    CREATE VIEW step_times AS
    SELECT *,
      wait_ns + copy_ns + compute_ns + other_ns AS step_ns,
      coalesce(exposed_wait_ns, wait_ns) + coalesce(exposed_copy_ns, 0) AS stall_ns,
      CASE WHEN exposed_wait_ns IS NULL THEN 'host' ELSE 'device' END AS stall_clock
    FROM steps
    """,
)


def migrations() -> Migrations:
    """Return the steps from an empty file to the current schema, as sqlite-utils migrations.

    Importing sqlite-utils imports pandas where that is installed, 0.3 s of a training process, so
    only a file of an older schema comes this way; see `migrate`.
    """
    from sqlite_utils.migrations import Migrations

    steps = Migrations(_MIGRATION_SET)

    @steps()
    def m001_first_tables(db: Database) -> None:
        for statement in _TABLES_1:
            db.execute(statement)

    return steps


def migrate(connection: sqlite3.Connection) -> None:
    """Bring an open file to the current schema; a current file is left untouched.

    An empty file gets the same tables by the same statements, and the same entries in the table in
    which sqlite-utils keeps what it has applied, without importing sqlite-utils.

    Args:
        connection: A connection that may write, in autocommit mode.

    Raises:
        ValueError: The file belongs to another program, or to a newer probe.
    """
    if check(connection) == VERSION:
        return
    # Several ranks may open a new file at once; the lock lets the first migrate and the rest wait.
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = check(connection)
        if version == 0:
            for statement in (*_BOOKKEEPING, *_TABLES_1):
                connection.execute(statement)
            applied_at = str(datetime.now(UTC))
            connection.executemany(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, ?)",
                [(_MIGRATION_SET, name, applied_at) for name in _MIGRATIONS],
            )
        elif version < VERSION:
            from sqlite_utils import Database

            migrations().apply(Database(connection))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check(connection: sqlite3.Connection) -> int:
    """Return the schema version of an open file; 0 for an empty one.

    Raises:
        ValueError: The file belongs to another program, or to a newer probe.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION_ID:
        if version > VERSION:
            raise ValueError(
                f"the file has schema {version}, this probe knows up to {VERSION}: upgrade probe"
            )
        return version
    if application or connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise ValueError("the file is a SQLite database of another program, not a probe recording")
    return 0
