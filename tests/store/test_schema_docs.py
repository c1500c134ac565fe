"""docs/schema.md names every table and column of a recording, with type and nullability."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from probe.store import schema

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"

Columns = dict[str, tuple[str, str]]


def documented() -> dict[str, Columns]:
    found = {}
    for section in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| (\w+) \| ([A-Z]+) \| (yes|no) \| .+ \|$", section, re.MULTILINE)
        found[section.split("\n", 1)[0]] = {name: (kind, null) for name, kind, null in rows}
    return found


def live() -> dict[str, Columns]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(db)
    names = db.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')").fetchall()
    found = {
        table: {
            # SQLite does not report NOT NULL of an `INTEGER PRIMARY KEY`, which cannot be NULL.
            name: (kind, "no" if not_null or key else "yes")
            for _, name, kind, not_null, _, key in db.execute(f"PRAGMA table_info({table})")
        }
        for (table,) in names
    }
    db.close()
    return found


def test_every_column_is_documented_in_order() -> None:
    tables = live()
    assert "_sqlite_migrations" in PAGE.read_text(encoding="utf-8")
    del tables["_sqlite_migrations"]
    view = tables.pop("step_times")
    pages = documented()
    added = pages.pop("step_times")
    assert {name: list(columns.items()) for name, columns in pages.items()} == {
        name: list(columns.items()) for name, columns in tables.items()
    }
    assert [*tables["steps"], *added] == list(view)


def test_the_page_names_the_version_and_the_mark_of_the_file() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"version of the schema, now {schema.VERSION}." in text
    assert f"`0x{schema.APPLICATION_ID:X}`" in text
