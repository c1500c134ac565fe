"""`probe whatif` answers in a sentence and a table, in JSON for scripts, and in exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recordings import Recording
from typer.testing import CliRunner, Result

from probe.cli import app

HOSTILE = "\x1b[31mred\x07 [bold]x[/bold] \u202eabc \n second line"


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """`probe.db` in the current folder with the same work under three settings, on 8 cores."""
    path = tmp_path / "probe.db"
    with Recording(path) as recording:
        for name, wait, chain in (
            ("first", 20.0, ["DataLoader"]),
            ("again", 24.0, ["DataLoader"]),
            ("thread", 14.0, ["Background", "DataLoader"]),
        ):
            run = recording.run(name, config={"cores": 8})
            loader = recording.loader(run, chain=chain)
            recording.steps(run, loader, wait_ms=[wait] * 200, compute_ms=6.0)
        run = recording.run("stored", experiment="other", config={"cores": 8})
        loader = recording.loader(run)
        recording.steps(run, loader, wait_ms=[20.0] * 200, copy_ms=1.0, compute_ms=6.0)
        recording.fetches(run, loader, 200, wall_ms=20.0, cpu_ms=4.0)
    return path


def test_whatif_says_what_to_do_and_how_far_to_trust_it(path: Path) -> None:
    found = probe("whatif", "first", "--workers", "4,0,2")
    assert found.exit_code == 0
    lines = [line.strip() for line in found.stdout.splitlines()]
    # What handing over costs was not measured: 0.9 ms is assumed, so the loop takes 6.9 ms.
    assert lines[0].startswith(
        "No setting tried comes within 5 % of the ceiling of 5,333 samples/s"
    )
    assert "4 workers, prefetch_factor 2: 4,638 samples/s, 3.77 ×" in lines[0]
    assert any(line.startswith("Note: Passing a batch") for line in lines)
    rows = [line.split() for line in lines if line[:1].isdigit()]
    assert [row[:2] for row in rows] == [["0", "–"], ["2", "2"], ["2", "4"], ["4", "2"], ["4", "4"]]
    assert rows[0][2] == "1,231"
    assert rows[0][-2:] == ["1,231,", "1,067"]
    assert rows[3][-4:] == ["smallest", "that", "is", "enough"]
    assert "Recorded: 1,231 samples/s. Ceiling, a loop that never waits: 5,333 samples/s." in lines
    assert any(line.startswith("Earlier predictions were off by") for line in lines)


def test_whatif_prints_the_promised_keys(path: Path) -> None:
    found = json.loads(probe("whatif", "first", "--workers", "0,2", "--json").stdout)
    for point in (*found["points"], found["recommended"]):
        assert {"num_workers", "prefetch_factor", "samples_per_s", "stall_share"} <= point.keys()
    assert [check["later"] for check in found["calibration"]["checks"]] == [
        "again (run 2)",
        "thread (run 3)",
        "thread (run 3)",
    ]
    assert [run["name"] for run in found["measured"]] == ["first", "again"]


@pytest.mark.parametrize(
    ("arguments", "rate"),
    [
        (("--workers", "0"), 32 / 0.027),
        (("--workers", "0", "--storage", "0.25"), 32 / 0.015),
        (("--workers", "0", "--background", "1"), 32 / 0.020),
        (("--workers", "0", "--side-stream"), 32 / 0.026),
        (("--workers", "8"), 32 / 0.0079),
        (("--workers", "8", "--batch", "320"), 320 / 0.0709),
        (("--workers", "8", "--cores", "1"), 32 / 0.01105),
    ],
)
def test_each_option_reaches_the_model(path: Path, arguments: tuple[str, ...], rate: float) -> None:
    found = probe("whatif", "stored", "--prefetch-factor", "2", "--json", *arguments)
    [point] = json.loads(found.stdout)["points"]
    # Taking a batch out is assumed to cost 0.9 ms; beside it a batch takes 10 ms on a core.
    assert point["samples_per_s"] == pytest.approx(rate, rel=0.01)


def test_what_was_measured_is_not_held_against_another_world(path: Path) -> None:
    def measured(*arguments: str) -> list[str]:
        found = json.loads(probe("whatif", "first", "--json", *arguments).stdout)
        return [run["name"] for run in found["measured"]]

    for option in (("--storage", "0.5"), ("--batch", "64"), ("--cores", "2"), ("--side-stream",)):
        assert measured(*option) == []
    assert measured("--batch", "32", "--cores", "8") == ["first", "again"]
    assert measured("--background", "1") == ["thread"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--workers", "many"), "--workers is 'many': give whole numbers"),
        (("--workers", ""), "--workers is ''"),
        (("--prefetch-factor", "0"), "the prefetch factor is 0: give 1 to 256"),
        (("--workers", "-1"), "the number of workers is -1"),
        (("--storage", "-1"), "the factor for storage is -1"),
        (("--batch", "0"), "the samples of a batch are 0: give 1 or more"),
        (("--cores", "0"), "the number of cores is 0"),
    ],
)
def test_bad_input_is_one_sentence(path: Path, arguments: tuple[str, ...], said: str) -> None:
    found = probe("whatif", "first", *arguments)
    assert found.exit_code == 2
    assert found.stderr.startswith(f"probe: {said}")
    assert found.stderr.count("\n") == 1


def test_a_setting_in_which_nothing_takes_time_is_one_sentence(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run("waits", uid="waits")
        loader = recording.loader(run)
        recording.steps(run, loader, wait_ms=[5.0] * 200)
        recording.fetches(run, loader, 200, wall_ms=5.0, cpu_ms=0.0)
    found = probe("whatif", "waits", "--storage", "0", "--workers", "0")
    assert (found.exit_code, found.stderr.count("\n")) == (2, 1)
    assert found.stderr.startswith("probe: nothing would take any time with that: give")


def test_a_run_that_cannot_be_replayed_says_why(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run(HOSTILE, uid="hostile")
        loader = recording.loader(run, num_workers=2, prefetch_factor=2)
        recording.steps(run, loader, wait_ms=[20.0] * 200, compute_ms=6.0)
        recording.run("empty", uid="empty")
    found = probe("whatif", "5")
    assert found.exit_code == 2
    assert "cannot be replayed: the time that workers take for a batch was not" in found.stderr
    assert found.stderr.isprintable() or found.stderr.count("\n") == 1
    assert "\x1b" not in found.stderr
    assert "no watched loop" in probe("whatif", "empty").stderr


def test_names_of_runs_are_never_markup(path: Path) -> None:
    with Recording(path) as recording:
        run = recording.run(HOSTILE, uid="hostile", config={"cores": 8})
        recording.steps(run, recording.loader(run), wait_ms=[20.0] * 200, compute_ms=6.0)
    found = probe("whatif", "first")
    assert found.exit_code == 0
    assert "\x1b" not in found.stdout
