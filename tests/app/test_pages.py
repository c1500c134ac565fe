"""Each page over real recordings, driven as Streamlit runs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recordings import Recording
from streamlit.testing.v1 import AppTest

import store

MAIN = Path(store.__file__).with_name("main.py")
HOSTILE = "<b>x</b> :red[y] **z** :smile: [a](javascript:1)"

Open = Callable[..., AppTest]


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    path = tmp_path / "training.db"
    monkeypatch.setenv("PROBE_DB", str(path))
    return Recording(path)


@pytest.fixture
def open_page(recording: Recording) -> Open:
    def open_page(page: str, **query: str | list[str]) -> AppTest:
        recording.close()
        app = AppTest.from_file(str(MAIN), default_timeout=30).run()
        app.switch_page(f"views/{page}.py")
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return open_page


def two_runs(recording: Recording) -> None:
    """Record a baseline that waits 57 of 94 ms, and a candidate that waits 1 of 40.5 ms."""
    for name, workers, wait, compute in (("baseline", 0, 57.0, 36.0), ("w2", 2, 1.0, 38.5)):
        run = recording.run(name, strategy=f"DataLoader, {workers} workers")
        loader = recording.loader(run, num_workers=workers)
        recording.steps(
            run, loader, wait_ms=[wait] * 200, compute_ms=compute, copy_ms=1.0, epoch_length=100
        )
        recording.host(run, [0.5] * 20)


def table(app: AppTest, alt: str) -> dict[str, list[Any]]:
    [found] = [frame for frame in app.dataframe if alt in frame.proto.alt]
    return {str(name): list(values) for name, values in found.value.items()}


def chart(app: AppTest, key: str) -> dict[str, Any]:
    [found] = [c for c in app.get("plotly_chart") if key in c.proto.id]
    spec: dict[str, Any] = json.loads(found.proto.spec)
    return spec


def test_runs_lists_each_run_with_its_figures(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    recording.gpu(2, [0.6, 0.8])
    app = open_page("runs")
    found = table(app, "One row a run")
    assert found["name"] == ["w2", "baseline"]
    assert found["steps"] == [200, 200]
    assert found["samples/s"] == pytest.approx([32 / 0.0405, 32 / 0.094])
    assert found["stall"] == pytest.approx([100 * 1 / 40.5, 100 * 57 / 94])
    assert found["GPU"] == [70, pytest.approx(float("nan"), nan_ok=True)]
    assert found["verdict"] == ["compute-bound", "highly input-bound"]
    assert "training" in app.caption[0].value


def test_runs_tells_a_beginner_how_to_begin(recording: Recording, open_page: Open) -> None:
    app = open_page("runs")
    assert "probe.watch(loader)" in app.code[0].value
    assert "probe demo" in app.code[1].value
    assert not app.dataframe


def test_run_says_the_verdict_first_and_draws_its_evidence(
    recording: Recording, open_page: Open
) -> None:
    two_runs(recording)
    app = open_page("run", run="baseline")
    assert "61" in app.header[0].value
    assert "Highly input" in app.header[0].value
    bar = chart(app, "median_step")
    assert [trace["name"] for trace in bar["data"]] == [
        "compute 36.0 ms (38 %)",
        "copy 1.0 ms (1.1 %)",
        "wait 57.0 ms (61 %)",
    ]
    assert [trace["name"] for trace in chart(app, "timeline")["data"]] == [
        "compute",
        "copy",
        "wait",
        "CPU utilisation",
    ]
    assert chart(app, "waits")["layout"]["xaxis"]["type"] == "log"
    assert table(app, "each epoch")["steps"] == [100, 100]
    settings = table(app, "started with")
    assert dict(zip(settings["setting"], settings["value"], strict=True))["workers"] == "0"
    assert any("GPU utilisation: not measured, no NVIDIA GPU" in m.value for m in app.markdown)


def test_run_shows_gpu_utilisation_on_the_axis_of_the_steps(
    recording: Recording, open_page: Open
) -> None:
    two_runs(recording)
    recording.gpu(1, [None, 0.4, 0.6])
    app = open_page("run", run="1")
    [gpu] = [t for t in chart(app, "timeline")["data"] if t["name"] == "GPU utilisation"]
    assert gpu["xaxis"] == "x2"
    assert not any("not measured" in m.value for m in app.markdown)


def test_run_follows_the_link_and_the_link_follows_the_choice(
    recording: Recording, open_page: Open
) -> None:
    two_runs(recording)
    app = open_page("run", run="baseline")
    newest = app.selectbox[0].options[0]
    app.selectbox[0].select(newest).run()
    assert not app.exception
    assert app.query_params["run"] == "00000002-0000-4000-8000-000000000000"
    assert "Compute" in app.header[0].value


def test_run_says_so_when_a_link_leads_nowhere(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("run", run="gone")
    assert "no run" in app.warning[0].value
    assert "Compute" in app.header[0].value


def test_run_offers_the_other_loaders(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    validation = recording.loader(1, name="val")
    recording.steps(1, validation, wait_ms=[3.0] * 60, compute_ms=7.0)
    app = open_page("run", run="baseline", loader="val")
    assert [trace["name"] for trace in chart(app, "median_step")["data"]] == [
        "compute 7.0 ms (70 %)",
        "copy 0 ms (0 %)",
        "wait 3.0 ms (30 %)",
    ]
    assert table(app, "percentiles of each phase")["mean"] == pytest.approx([3, 0, 7, 0, 10])


def test_a_run_without_a_step_has_a_page(recording: Recording, open_page: Open) -> None:
    recording.run("never started")
    empty = recording.run("no steps yet")
    recording.loader(empty)
    for name in ("never started", "no steps yet"):
        app = open_page("run", run=name)
        assert app.header[0].value
        assert not app.get("plotly_chart") or name == "no steps yet"


def test_compare_says_what_changed_and_where(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("compare", run=["baseline", "w2"])
    assert "w2 against baseline" in app.header[0].value
    ratio = table(app, "Throughput of each run")["× baseline"]
    assert ratio == pytest.approx([1, 94 / 40.5])
    [bars] = chart(app, "waterfall")["data"]
    assert bars["text"] == ["94.0 ms", "−56.0 ms", "0 ms", "+2.5 ms", "0 ms", "40.5 ms"]
    differs = table(app, "setting that differs")
    row = differs["setting"].index("num_workers")
    assert (differs["a"][row], differs["b"][row]) == ("0", "2")


def test_compare_sets_many_runs_against_the_first(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    two_runs(recording)
    app = open_page("compare", run=["2", "1", "4"])
    found = table(app, "Throughput of each run")
    assert found["run"] == ["w2", "baseline", "w2"]
    assert found["verdict"] == ["baseline", "slower", "no difference"]
    assert len(app.tabs) == 2


def test_compare_asks_for_a_second_run(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("compare", run=["baseline"])
    assert "Choose" in app.main.markdown[-1].value
    app.multiselect[0].select(app.multiselect[0].options[0]).run()
    assert not app.exception
    assert app.query_params["run"] == [f"0000000{n}-0000-4000-8000-000000000000" for n in (1, 2)]
    assert "w2 against baseline" in app.header[0].value


def test_compare_says_why_a_run_cannot_be_compared(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    recording.run("never started")
    app = open_page("compare", run=["baseline", "never started"])
    assert "never started" in app.error[0].value


@pytest.mark.parametrize("page", ["runs", "run", "compare"])
def test_names_are_never_markup(recording: Recording, open_page: Open, page: str) -> None:
    for _ in range(3):
        run = recording.run(HOSTILE, strategy=HOSTILE, notes=HOSTILE, tags=[HOSTILE])
        loader = recording.loader(run, name=HOSTILE, chain=[HOSTILE])
        recording.steps(run, loader, wait_ms=[5.0] * 60, compute_ms=5.0)
        recording.loader(run, name="val " + HOSTILE)
    app = open_page(page, run=["1", "2", "3"] if page == "compare" else "1")
    assert not any(getattr(element.proto, "allow_html", False) for element in app.markdown)
    shown = [element.value for element in (*app.markdown, *app.header, *app.caption, *app.warning)]
    shown += [option for group in app.button_group for option in group.options]
    shown += [tab.label for tab in app.tabs]
    for markup in ("<b>", ":red[y]", "**z**", ":smile:", "[a]("):
        assert not [value for value in shown if markup in value]


@pytest.mark.parametrize("page", ["runs", "run", "compare"])
def test_a_file_that_is_no_recording_is_one_sentence(
    recording: Recording, open_page: Open, tmp_path: Path, page: str
) -> None:
    recording.close()
    for path in tmp_path.glob("training.db*"):
        path.unlink()
    (tmp_path / "training.db").write_text("not a database, but long enough to be read as one" * 9)
    app = open_page(page)
    [error] = app.error
    assert "Cannot read" in error.value


def test_a_missing_file_is_one_sentence(
    recording: Recording, open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE_DB", str(tmp_path / "absent.db"))
    app = open_page("runs")
    assert "There is no recording at" in app.error[0].value


def test_the_sample_is_said_to_be_one(
    recording: Recording, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_runs(recording)
    monkeypatch.delenv("PROBE_DB")
    monkeypatch.setattr(store, "_SAMPLES", (recording.path,))
    app = open_page("runs")
    assert "sample" in app.caption[0].value
    assert table(app, "One row a run")["name"] == ["w2", "baseline"]
