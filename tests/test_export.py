"""What is exported is what is recorded, and harms nobody who opens it."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest
from recordings import Recording
from typer.testing import CliRunner, Result

from probe import export
from probe.cli import app
from probe.store.queries import Steps

FORMULA = '=HYPERLINK("http://example.com","x")'


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["export", *arguments])


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "probe.db"
    with Recording(path) as made:
        for name, strategy in ((FORMULA, "+1"), ("plain", None)):
            run = made.run(name, strategy=strategy)
            loader = made.loader(run, name="@train")
            samples = [32, None] * 30
            made.steps(run, loader, wait_ms=[5.0] * 60, compute_ms=7.5, samples=samples)
            made.loader(run, name="val")
    return path


def test_csv_holds_every_step_and_no_formula(recording: Path, tmp_path: Path) -> None:
    done = probe("1", "2", "--csv", str(tmp_path / "steps.csv"))
    assert (done.exit_code, done.stderr) == (0, "")
    with (tmp_path / "steps.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert rows[0]["run"] == "'" + FORMULA
    assert (rows[0]["strategy"], rows[0]["loader"]) == ("'+1", "'@train")
    assert not any(cell.startswith(tuple("=+-@\t\r")) for row in rows for cell in row.values())
    assert [row["samples"] for row in rows[:2]] == ["32", ""]
    assert (rows[61]["run"], rows[61]["strategy"]) == ("plain", "")
    for row in rows:
        parts = sum(int(row[f"{phase}_ns"]) for phase in ("wait", "copy", "compute", "other"))
        assert parts == int(row["step_ns"]) == 12_500_000


def test_parquet_holds_the_same_with_nulls(recording: Path, tmp_path: Path) -> None:
    done = probe("1", "2", "--parquet", str(tmp_path / "steps.parquet"))
    assert (done.exit_code, done.stderr) == (0, "")
    table = pyarrow.parquet.read_table(tmp_path / "steps.parquet")
    assert table.num_rows == 120
    assert set(Steps.__slots__) < set(table.column_names)
    assert table["run"].to_pylist()[0] == FORMULA  # no spreadsheet, no formulas
    assert table["samples"].to_pylist()[:2] == [32, None]
    assert table["exposed_wait_ns"].null_count == 120
    assert table["epoch_start"].to_pylist()[:2] == [True, False]
    assert table["step_ns"].to_pylist()[0] == 12_500_000


@pytest.mark.parametrize(("missing", "option"), [("pyarrow", "--parquet"), ("plotly", "--html")])
def test_what_is_not_installed_is_one_sentence(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, option: str
) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == missing else object())
    done = probe("plain", option, str(tmp_path / "out"))
    assert done.exit_code == 2
    assert f"takes {missing}, which is not installed: pip install" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plain",), "name a file with --html, --csv or --parquet"),
        (("nobody", "--csv", "x.csv"), "there is no run 'nobody'"),
        (("plain", "--csv", "absent/x.csv"), "No such file or directory"),
        (("plain", "--html", "absent/x.html"), "No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence(recording: Path, arguments: tuple[str, ...], said: str) -> None:
    done = probe(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_exporting_to_csv_needs_no_plotly() -> None:
    code = "import sys, probe.export; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"plotly", "streamlit", "pyarrow", "pandas"} & set(done.stdout.split())
