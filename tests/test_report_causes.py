"""A recording says why its loop waits: in the report, in JSON, on the command line, on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recordings import Recording
from typer.testing import CliRunner

from probe.cli import app
from probe.report import report, runs_table, to_json
from probe.store.queries import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Record 200 steps of one worker that takes 40 ms for a batch, 38 of them off a core."""
    path = tmp_path / "probe.db"
    with Recording(path) as recording:
        run = recording.run("slow", config={"cores": 8, "torch_threads": 1})
        loader = recording.loader(run, num_workers=1, prefetch_factor=2, length=None)
        recording.steps(run, loader, wait_ms=[30.0] * 200, compute_ms=10.0, ready=0)
        recording.fetches(run, loader, 200, wall_ms=40.0, cpu_ms=2.0)
        recording.host(run, [0.2] * 40)
    return path


def test_the_json_has_the_keys_of_the_contract(path: Path) -> None:
    with Store(path) as store:
        found = json.loads(json.dumps(to_json(report(store, store.run("slow")))))
        [row] = runs_table(store)
    [cause] = found["verdict"]["causes"]
    assert {"cause", "share", "evidence", "advice", "gain", "confidence"} <= set(cause)
    assert cause["cause"] == row["cause"] == "storage"
    assert cause["share"] == pytest.approx(0.95)
    assert cause["confidence"] == "high"
    assert cause["settings"] == ["num_workers=4"]
    low, high = cause["gain"]
    assert 3 < low < high <= 4
    assert found["queue"]["readiness"] == 0


def test_show_prints_cause_evidence_and_advice(path: Path) -> None:
    shown = CliRunner().invoke(app, ["show", "slow", "--db", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "1. storage: 95 % of the stall, confidence high" in shown.output
    assert "Workers sit 38.0 of 40.0 ms a batch off the core" in shown.output
    assert "Set num_workers=4 (now 1): " in shown.output
    assert "if storage serves 4 readers at once" in shown.output
    assert "Queue: a batch lay ready at 0 % of the steps" in shown.output
    listed = CliRunner().invoke(app, ["runs", "--db", str(path)])
    assert "highly input-bound · storage" in listed.output


def test_fetches_of_a_loader_watched_inside_explain_the_outer_one(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run("inside", uid="inside", config={"cores": 8, "torch_threads": 1})
        outer = recording.loader(run, num_workers=None, chain=["generator"], length=None)
        recording.steps(run, outer, wait_ms=[30.0] * 200, compute_ms=10.0)
        inner = recording.loader(run, "inner", role="producer", num_workers=1, length=None)
        recording.steps(run, inner, wait_ms=[40.0] * 200)
        recording.fetches(run, inner, 200, wall_ms=40.0, cpu_ms=2.0)
    with Store(path) as store:
        found = report(store, store.run("inside"))
    assert [cause.cause for cause in found.verdict.causes] == ["storage"]
