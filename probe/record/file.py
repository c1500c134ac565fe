"""How a recording is opened for writing, and a transaction on it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from probe.store import schema

_LOCK_TIMEOUT_SECONDS = 30


def connect(path: Path) -> sqlite3.Connection:
    """Open a recording for writing, making or migrating it as needed.

    Raises:
        OSError: The folder cannot be made, or the path is no file.
        ValueError: The file belongs to another program or to a newer probe.
        sqlite3.Error: SQLite refused.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")  # SQLite would wait for ever on a pipe
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


class transaction:  # noqa: N801 - reads as a statement: `with transaction(db):`
    """BEGIN IMMEDIATE, so that a busy file is waited for at the start and not in the middle."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection.execute("COMMIT" if kind is None else "ROLLBACK")


def insert(connection: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Insert one row by column names and return its id."""
    names = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(row.values())
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def update(connection: sqlite3.Connection, table: str, row: dict[str, Any], row_id: int) -> None:
    """Update one row by column names."""
    changes = ", ".join(f"{name} = ?" for name in row)
    connection.execute(f"UPDATE {table} SET {changes} WHERE id = ?", (*row.values(), row_id))
