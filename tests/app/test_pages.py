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


def unescaped(element: Any) -> str:
    return str(element.value).replace("\\", "").replace("\u00a0", " ")


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
    assert found["verdict"] == ["compute-bound", "highly input-bound · main-thread"]
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


def test_run_says_why_and_what_to_change(recording: Recording, open_page: Open) -> None:
    run = recording.run("slow", config={"cores": 8, "torch_threads": 1})
    loader = recording.loader(run, num_workers=1, prefetch_factor=2, length=None)
    recording.steps(run, loader, wait_ms=[30.0] * 200, compute_ms=10.0, ready=0)
    recording.fetches(run, loader, 200, wall_ms=38.0, cpu_ms=2.0)
    recording.host(run, [0.2] * 40)
    app = open_page("run", run="slow")
    assert "Storage" in app.header[0].value
    assert "Why, and what to change" in [heading.value for heading in app.subheader]
    [cause] = [m.value for m in app.markdown if m.value.startswith("1. ")]
    assert "**Storage**" in cause
    assert "confidence high" in cause
    assert "Set `num_workers=4`" in cause
    assert any("a batch lay ready at" in m.value for m in app.markdown)


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


def rows(app: AppTest, alt: str) -> dict[str, tuple[str, ...]]:
    """Return a table of text by its first column."""
    columns = table(app, alt).values()
    return {row[0]: row[1:] for row in zip(*columns, strict=True)}


def test_compare_says_what_changed_and_where(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("compare", run=["baseline", "w2"])
    assert "w2 against baseline: 2.32 × samples/s" in unescaped(app.header[0])
    assert "91 % of what was possible" in unescaped(app.header[0])
    [bars] = chart(app, "waterfall")["data"]
    assert bars["text"] == ["94.0 ms", "−56.0 ms", "0 ms", "+2.5 ms", "0 ms", "40.5 ms"]
    changed = rows(app, "Each phase of the mean step in both runs")
    assert changed["wait"][:3] == ("57.0", "1.0", "−56.0")
    assert rows(app, "percentiles of wait and step")["step p95, ms"] == ("94.0", "40.5")
    assert rows(app, "setting that differs")["num_workers"] == ("0", "2")
    assert "The same in both: batch size, data set, machine, versions." in app.caption[-1].value
    for key in ("distribution_wait", "distribution_step", "overlaid"):
        assert [trace["name"] for trace in chart(app, key)["data"]] == ["baseline", "w2"]
    assert chart(app, "overlaid")["data"][1]["line"]["dash"] == "solid"


def test_compare_opens_with_the_two_newest_the_older_one_first(
    recording: Recording, open_page: Open
) -> None:
    two_runs(recording)
    two_runs(recording)
    app = open_page("compare")
    assert unescaped(app.header[0]).startswith("w2 against baseline")
    assert app.multiselect[0].value == [f"0000000{n}-0000-4000-8000-000000000000" for n in (3, 4)]
    app.multiselect[0].set_value([]).run()
    assert not app.exception
    assert "Did the change help?" in app.header[0].value


def test_compare_sets_many_strategies_against_the_first(
    recording: Recording, open_page: Open
) -> None:
    two_runs(recording)
    two_runs(recording)
    recording.loader(recording.run("third", strategy="thread"), chain=["Background"])
    recording.steps(5, 5, wait_ms=[30.0] * 200, compute_ms=36.0, copy_ms=1.0)
    app = open_page("compare", run=["2", "1", "5"])
    assert "Nothing is shown to be faster than DataLoader, 2 workers." in unescaped(app.header[0])
    found = rows(app, "Each strategy in figures")
    assert list(found) == ["DataLoader, 2 workers", "DataLoader, 0 workers", "thread"]
    assert [row[4] for row in found.values()] == ["baseline", "slower", "slower"]
    assert found["DataLoader, 0 workers"][2] == "0.43"
    assert any("Holm" in unescaped(caption) for caption in app.caption)
    assert len(chart(app, "reached")["data"][0]["y"]) == 3


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


def test_whatif_recommends_a_setting_and_draws_why(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("whatif", run="baseline")
    # Nothing says that its fetches wait for storage, so two cores set the limit: 94 ms a batch.
    assert "best: 2 workers, prefetch_factor 2: 680 samples/s, 2.00 ×" in unescaped(app.header[0])
    rows = table(app, "Predicted rate and stall")
    assert rows["workers"][:3] == [0, 1, 1]
    assert rows["samples/s"][0] == pytest.approx(32 / 0.094)
    drawn = {trace["name"]: trace for trace in chart(app, "predictions")["data"]}
    assert {"prefetch_factor 2", "prefetch_factor 4", "measured"} <= drawn.keys()
    assert drawn["measured"]["text"] == ["baseline"]
    [alt] = [c.proto.alt for c in app.get("plotly_chart") if "predictions" in c.proto.id]
    assert "0 workers 340 samples/s" in alt
    assert "ceiling 865 samples/s" in alt
    captions = " ".join(caption.value for caption in app.caption)
    assert "was not measured and is taken to" in captions


def test_whatif_keeps_what_was_asked_in_the_link(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    recording.fetches(1, 1, 200, wall_ms=57.0, cpu_ms=7.0)
    app = open_page("whatif", run="baseline", workers=["0", "3"], storage="0.5", batch="64")
    asked = table(app, "Predicted rate and stall")
    assert asked["workers"] == [0, 1, 1, 2, 2, 3, 3]
    # Half of 50 ms of storage, 7 ms of work and 37 ms for the step, all of it twice.
    assert asked["samples/s"][0] == pytest.approx(64 / (2 * (0.025 + 0.007 + 0.037)), rel=0.01)
    assert [control.value for control in app.number_input] == [0.5, 64, 2.0]
    app.toggle[1].set_value(True).run()
    assert not app.exception
    assert any("interpreter lock" in caption.value for caption in app.caption)


def test_whatif_says_how_good_predictions_were(recording: Recording, open_page: Open) -> None:
    for name, wait in (("before", 20.0), ("again", 25.0)):
        run = recording.run(name)
        loader = recording.loader(run)
        recording.steps(run, loader, wait_ms=[wait] * 100, compute_ms=15.0)
    app = open_page("whatif", run="before")
    said = [unescaped(element) for element in app.markdown]
    assert any("predictions were off by 14 % (median of 1)" in sentence for sentence in said)
    checks = table(app, "an earlier run predicted")
    assert checks["measured in"] == ["again (run 2)"]
    assert checks["error"] == [pytest.approx(100 * (40 / 35 - 1))]


def test_whatif_says_why_a_run_cannot_be_replayed(recording: Recording, open_page: Open) -> None:
    two_runs(recording)
    app = open_page("whatif", run="w2")
    assert "w2" in app.error[0].value
    assert "was not recorded" in app.error[0].value


@pytest.mark.parametrize(
    ("cores", "samples"), [(0.25, 32), (2048, 32), (4, 2_000_000), (0.005, 32), (200_000, 32)]
)
def test_whatif_offers_what_was_recorded_whatever_it_is(
    recording: Recording, open_page: Open, cores: float, samples: int
) -> None:
    run = recording.run("odd", config={"cores": cores})
    loader = recording.loader(run, batch_size=samples)
    recording.steps(run, loader, wait_ms=[20.0] * 100, compute_ms=15.0, samples=samples)
    app = open_page("whatif", run="odd")
    assert [control.value for control in app.number_input] == [1.0, samples, cores]
    assert bool(app.error) == (not 0.01 <= cores <= 100_000)


def test_whatif_says_why_a_setting_cannot_be(recording: Recording, open_page: Open) -> None:
    run = recording.run("waits")
    loader = recording.loader(run)
    recording.steps(run, loader, wait_ms=[5.0] * 100)
    recording.fetches(run, loader, 100, wall_ms=5.0, cpu_ms=0.0)
    app = open_page("whatif", run="waits", storage="0", workers=["0", "1"])
    assert "Nothing would take any time with that" in app.error[0].value
    app = app.number_input[0].set_value(1.0).run()
    assert not app.error
    assert app.header
    app.number_input[1].set_value(90_000).run()
    assert "The factor for the batch is" in app.error[0].value


@pytest.mark.parametrize("page", ["runs", "run", "compare", "whatif"])
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


@pytest.mark.parametrize("page", ["runs", "run", "compare", "whatif"])
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
