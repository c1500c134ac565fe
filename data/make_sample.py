"""Make data/sample.db, the recording that the dashboard opens when there is none.

    python data/make_sample.py             # runs `probe demo` and takes its recording
    python data/make_sample.py FILE        # takes a recording that `probe demo` has made

What tells of the machine and its user (host, command line, kernel) is taken out; every number stays
as it was recorded. Where the file comes from is written to data/sample.md.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Copy a demo's recording into place."""
    if len(sys.argv) > 1:
        take(Path(sys.argv[1]))
        return
    from probe.demo import run_demo

    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "probe.db"
        run_demo("storage", db=db, dashboard=False)
        take(db)


def take(recording: Path) -> None:
    """Copy one recording to data/sample.db, without what is private, and describe it."""
    target = HERE / "sample.db"
    target.unlink(missing_ok=True)
    source = sqlite3.connect(recording)
    source.execute("VACUUM INTO ?", (str(target),))
    source.close()
    db = sqlite3.connect(target, isolation_level=None)
    # A file in WAL mode cannot be read from an installation that is not writable.
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("UPDATE runs SET host = 'example', pid = NULL, command = 'probe demo'")
    for run_id, text in db.execute("SELECT id, config FROM runs").fetchall():
        config = {key: value for key, value in json.loads(text).items() if key != "platform"}
        db.execute("UPDATE runs SET config = ? WHERE id = ?", (json.dumps(config), run_id))
    db.execute("VACUUM")
    describe(db, target)
    db.close()


def describe(db: sqlite3.Connection, target: Path) -> None:
    """Write down where the sample comes from, with figures that anybody can check in it."""
    version, torch, python, config, day = db.execute(
        "SELECT probe_version, torch, python, config, date(started_at) FROM runs LIMIT 1"
    ).fetchone()
    cores = json.loads(config)["cores"]
    lines = [
        "# Where sample.db comes from",
        "",
        "A real `probe demo` (scenario storage: every read waits like a remote store), recorded"
        f" on {day} by probe {version} with Python {python} and torch {torch} on a machine with"
        f" {cores} cores and no GPU. `python data/make_sample.py` makes it anew. Host name, process"
        " id, command line and kernel version were taken out; no number was touched.",
        "",
        "| strategy | steps | mean step (ms) | mean wait (ms) |",
        "| --- | --- | --- | --- |",
    ]
    for strategy, steps, step, wait in db.execute(
        "SELECT strategy, count(*), avg(step_ns) / 1e6, avg(wait_ns) / 1e6 FROM step_times"
        " JOIN runs ON runs.id = run_id GROUP BY run_id ORDER BY run_id"
    ):
        lines.append(f"| {strategy} | {steps} | {step:.2f} | {wait:.2f} |")
    target.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
