"""The README's code runs as it stands, and `import probe` stays as light as it promises."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import probe
from probe.insight import words
from probe.report import report
from probe.store.queries import Store

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_code_block_records_its_loop(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-W", "error", "-"], input=block, text=True)
    assert done.returncode == 0
    db = sqlite3.connect(tmp_path / "probe.db")
    assert db.execute("SELECT status FROM runs").fetchall() == [("finished",)]
    assert db.execute("SELECT count(*), sum(samples) FROM steps").fetchall() == [(128, 4096)]
    db.close()


def test_every_command_of_the_readme_exists() -> None:
    listed = set(re.findall(r"^\| `probe (\w+)", README, re.MULTILINE))
    shown = subprocess.run(
        [sys.executable, "-m", "probe", "--help"], capture_output=True, text=True, check=True
    )
    assert listed == set(re.findall(r"^│ (\w+) {2,}", shown.stdout, re.MULTILINE))


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).is_file(), target


def test_importing_probe_loads_nothing_heavy() -> None:
    heavy = {"torch", "streamlit", "plotly", "pandas", "numpy", "sqlite_utils", "rich", "typer"}
    code = "import sys, probe; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "probe" in done.stdout.split()
    assert heavy.isdisjoint(done.stdout.split())


def test_the_public_names_are_there() -> None:
    assert sorted(probe.__all__) == ["copy", "exclude", "prefetch", "race", "run", "watch"]
    assert all(callable(getattr(probe, name)) for name in probe.__all__ if name != "prefetch")
    assert callable(probe.prefetch.background)
    assert callable(probe.prefetch.to_device)


def test_the_figures_of_the_demo_are_those_of_the_sample() -> None:
    with Store(ROOT / "data" / "sample.db") as store:
        reports = [report(store, run) for run in reversed(store.runs())]
    for found in reports:
        consumer = found.consumer
        assert consumer is not None
        assert consumer.samples_per_s is not None
        assert consumer.stall_share is not None
        row = (
            f"| {found.run.strategy} | {consumer.steps} | {words.count(consumer.samples_per_s)} |"
            f" {words.percent(consumer.stall_share)} | {found.verdict.class_} |"
        )
        assert row in README
