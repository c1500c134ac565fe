"""The command line answers in sentences and tables, in JSON for scripts, and in exit codes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from recordings import Recording
from typer.testing import CliRunner, Result

from probe import dashboard
from probe.cli import app

HOSTILE = "\x1b[31mred\x1b]0;title\x07 [bold]x[/bold] [/nope] \u202eabc :smile: \n second line"


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """`probe.db` in the current folder with two runs."""
    path = tmp_path / "probe.db"
    with Recording(path) as recording:
        for name, wait, workers in (("baseline", 57.0, 0), ("w4", 1.0, 4)):
            run = recording.run(name, strategy=f"DataLoader, {workers} workers")
            loader = recording.loader(run, num_workers=workers)
            waits = [wait, wait * 1.1] * 200
            recording.steps(run, loader, wait_ms=waits, compute_ms=36.0, epoch_length=100)
            recording.gpu(run, [0.25, 0.35])
    return path


def test_show_says_the_verdict_the_phases_and_its_own_cost(path: Path) -> None:
    found = probe("show", "baseline")
    assert found.exit_code == 0
    lines = found.stdout.splitlines()
    assert lines[0] == "baseline · DataLoader, 0 workers · finished · cpu"
    assert lines[1].startswith("Highly input-bound: the loop waits for data 62 % of the time (95 %")
    assert "A step takes 95.9 ms on average: wait 59.9, copy 0, compute 36.0, other 0." in (
        found.stdout
    )
    (wait,) = (line.split() for line in lines if line.strip().startswith("wait "))
    assert wait == ["wait", "59.9", "62.7", "62.7", "62.7", "62.7", "23,940"]
    assert "epoch start 57.0 ms" in found.stdout
    assert "GPU utilization: 30 % on average, coarse" in found.stdout
    assert "Recording cost: 0.01 % of the run; 0 steps dropped." in found.stdout


def test_runs_lists_every_run(path: Path) -> None:
    found = probe("runs")
    assert found.exit_code == 0
    rows = [line.split("  ") for line in found.stdout.splitlines() if "workers" in line]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert [row[1] for row in cells] == ["w4", "baseline"]
    assert cells[1][-5:] == ["400", "334", "62 %", "30 %", "highly input-bound · main-thread"]


def test_compare_says_who_wins_where_the_time_went_and_what_differs(path: Path) -> None:
    found = probe("compare", "baseline", "w4")
    assert found.exit_code == 0
    assert found.stdout.startswith("w4 against baseline: 2.59 × samples/s (95 %: 2.5")
    assert "Saved 58.8 ms a step: wait −58.8, copy 0, compute 0, other 0." in found.stdout
    assert "  num_workers: 0 → 4\n" in found.stdout
    step, *_ = (line for line in found.stdout.splitlines() if line.strip().startswith("step "))
    assert step.split()[:4] == ["step", "95.9", "37.1", "−58.8"]


@pytest.mark.parametrize(
    "arguments", [("runs",), ("show", "w4"), ("compare", "baseline", "w4")], ids=lambda a: a[0]
)
def test_json_is_json_and_nothing_else(path: Path, arguments: tuple[str, ...]) -> None:
    found = probe(*arguments, "--json")
    assert found.exit_code == 0
    assert found.stderr == ""
    parsed = json.loads(found.stdout)
    assert len(parsed) >= 2
    assert "class_" not in found.stdout


def test_the_file_is_db_else_probe_db_else_the_one_in_this_folder(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        with Recording(tmp_path / f"{name}.db") as recording:
            recording.run(name)
    monkeypatch.setenv("PROBE_DB", str(tmp_path / "one.db"))
    assert probe("show", "one").exit_code == 0
    assert probe("show", "two", "--db", "two.db").exit_code == 0
    monkeypatch.delenv("PROBE_DB")
    assert probe("show", "w4").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "nobody"), "there is no run 'nobody'"),
        (("compare", "baseline", "nobody"), "there is no run 'nobody'"),
        (("runs", "--db", "absent.db"), "absent.db: name another file, or record one with"),
        (("dashboard", "--db", "absent.db"), "there is no recording at"),
        (("runs", "--db", "notes.txt"), "file is not a database"),
        (("show",), "Missing argument 'RUN'"),
        (("demo", "--scenario", "magic"), "'magic' is not one of"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    path: Path, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 100)
    found = probe(*arguments)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert said in found.stderr
    assert "Traceback" not in found.stderr


def test_a_recording_cannot_take_over_the_terminal(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        for _ in range(2):
            run = recording.run(HOSTILE, strategy=HOSTILE, device=HOSTILE, config={HOSTILE: 1})
            loader = recording.loader(run, HOSTILE, role=HOSTILE, chain=[HOSTILE])
            recording.steps(run, loader, wait_ms=[1.0] * 100)
            run = recording.run(HOSTILE, strategy=None, config={HOSTILE: HOSTILE})
            loader = recording.loader(run, dataset=HOSTILE)
            recording.steps(run, loader, wait_ms=[1.0] * 100)
    for arguments in (
        ("runs",),
        ("show", "1"),
        ("compare", "2", "4"),
        ("compare", "4", "1"),
        ("show", HOSTILE + "?"),
    ):
        found = probe(*arguments)
        assert not isinstance(found.exception, Exception), arguments
        printed = found.stdout + found.stderr
        assert all(c.isprintable() or c == "\n" for c in printed), arguments
    assert "[bold]x[/bold] [/nope]" in probe("show", "1").stdout
    assert ":smile:" in probe("show", "1").stdout


def test_it_runs_as_a_module_and_help_loads_nothing_heavy(path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "probe", "show", "w4", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["run"]["name"] == "w4"
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "probe", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for command in ("demo", "runs", "show", "compare", "dashboard"):
        assert command in loaded.stdout
    modules = {line.split("|")[-1].strip() for line in loaded.stderr.splitlines()}
    assert "typer" in modules
    assert not modules & {"torch", "streamlit", "plotly", "pandas", "numpy", "sqlite_utils"}


@pytest.mark.parametrize("command", ["demo", "runs", "show", "compare", "dashboard"])
def test_every_command_explains_itself(command: str) -> None:
    found = probe(command, "--help")
    assert found.exit_code == 0
    assert "--db" in found.stdout


def test_without_streamlit_the_dashboard_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dashboard, "find_spec", lambda name: None)
    assert dashboard.launch(path) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ['The dashboard is not installed: pip install "prefetch-probe[app]"']


def test_the_dashboard_listens_on_this_machine_only_and_ends_with_the_command(path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "probe", "dashboard", "--headless"]
    server = subprocess.Popen(
        [*command, "--port", str(port), "--db", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "STREAMLIT_SERVER_ADDRESS": "0.0.0.0"},
    )
    try:
        assert _healthy(port)
        if sys.platform == "linux":
            assert _listening(port) == {"0100007F"}  # 127.0.0.1
    finally:
        server.send_signal(signal.SIGTERM)
        output, _ = server.communicate(timeout=30)
    assert "Traceback" not in output
    with socket.socket() as probe_socket:
        assert probe_socket.connect_ex(("127.0.0.1", port)) != 0


def _healthy(port: int) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            with urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            time.sleep(0.2)
    return False


def _listening(port: int) -> set[str]:
    rows = [
        line.split()
        for file in (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
        for line in file.read_text().splitlines()[1:]
    ]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, hex_port in local if int(hex_port, 16) == port}


def test_a_terminal_without_the_characters_gets_question_marks(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        run = recording.run("é→", strategy="background")
        recording.steps(run, recording.loader(run), wait_ms=[1.0] * 50, compute_ms=2.0)
    ran = subprocess.run(
        [sys.executable, "-m", "probe", "show", "1"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    assert ran.returncode == 0, ran.stderr
    assert b"??" in ran.stdout


@pytest.mark.parametrize("db", ["~nosuchuser/x.db", "x" * 300, "a/" * 3000])
def test_a_path_that_cannot_be_is_one_sentence(db: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "probe", "runs", "--db", db],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("probe: ")
    assert ran.stderr.count("\n") == 1


def record_many(path: Path, **waits: float) -> None:
    with Recording(path) as recording:
        for name, wait in waits.items():
            run = recording.run(name, strategy=name)
            recording.steps(run, recording.loader(run), wait_ms=[wait] * 100, compute_ms=20.0)


def test_several_runs_are_ranked_against_the_first(tmp_path: Path) -> None:
    record_many(tmp_path / "probe.db", plain=20.0, thread=5.0, workers=1.0)
    found = probe("compare", "plain", "thread", "workers")
    assert found.exit_code == 0
    assert found.stdout.startswith("workers reached most: 1.90 × the samples/s of plain")
    rows = [line.split() for line in found.stdout.splitlines() if " faster " in line]
    assert [row[:4] for row in rows] == [
        ["thread", "1,280", "1", "1.60"],
        ["workers", "1,524", "1", "1.90"],
    ]
    assert "Holm's method" in found.stdout
    parsed = json.loads(probe("compare", "plain", "thread", "workers", "--json").stdout)
    assert [entry["verdict"] for entry in parsed["entries"]] == ["baseline", "faster", "faster"]
    assert probe("compare", "plain", "thread", "workers", "--markdown").stdout.startswith(
        "**workers"
    )


@pytest.mark.parametrize(
    ("conditions", "status", "said"),
    [
        (["throughput < 0.97"], 0, "Passes: throughput < 0.97: throughput is 1.90 (95 %)."),
        (["throughput < 2"], 1, "Fails: throughput < 2"),
        (["throughput < 0.97", "stall > 4%"], 1, "Fails: stall > 4%: stall is 4.8"),
        (["throughput < 0.97", "stall > 6 %"], 0, "Passes: stall > 6 %"),
    ],
)
def test_conditions_decide_the_exit_status(
    tmp_path: Path, conditions: list[str], status: int, said: str
) -> None:
    record_many(tmp_path / "probe.db", plain=20.0, workers=1.0)
    options = [part for text in conditions for part in ("--fail-if", text)]
    found = probe("compare", "plain", "workers", *options)
    assert found.exit_code == status
    assert said in found.stdout
    parsed = probe("compare", "plain", "workers", "--json", *options)
    assert parsed.exit_code == status
    outcomes = json.loads(parsed.stdout)["conditions"]
    assert [outcome["condition"] for outcome in outcomes] == conditions
    assert any(outcome["holds"] for outcome in outcomes) == (status == 1)


def test_what_cannot_be_told_is_status_3_unless_something_fails(tmp_path: Path) -> None:
    with Recording(tmp_path / "probe.db") as recording:
        source = random.Random(7)
        uneven = [source.expovariate(0.05) for _ in range(200)]
        for name, waits in (("plain", [20.0] * 200), ("noisy", uneven)):
            run = recording.run(name)
            recording.steps(run, recording.loader(run), wait_ms=waits, compute_ms=5.0)
    assert probe("compare", "plain", "noisy", "--fail-if", "throughput < 1").exit_code == 3
    both = ("--fail-if", "throughput < 1", "--fail-if", "stall > 50%")
    assert probe("compare", "plain", "noisy", *both).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("compare", "baseline", "w4", "--fail-if", "speed < 1"),
            "--fail-if is 'speed < 1': write",
        ),
        (("compare", "1", "2", "1", "--fail-if", "stall > 1"), "--fail-if is about two runs"),
        (("compare", "1", "2", "--json", "--markdown"), "are both given: choose one"),
        (("compare", "baseline"), "Missing argument"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_sentence(
    path: Path, arguments: tuple[str, ...], said: str
) -> None:
    found = probe(*arguments)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert said in found.stderr


@pytest.mark.parametrize(
    "arguments", [("runs",), ("show", "odd"), ("whatif", "odd", "--workers", "0")]
)
def test_json_is_strict_whatever_was_recorded(path: Path, arguments: tuple[str, ...]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    with Recording(path) as recording:
        config = {"cores": float("nan"), "lr": float("inf"), "list": [float("nan"), 1.5]}
        run = recording.run("odd", uid="odd", config=config)
        recording.steps(run, recording.loader(run), wait_ms=[5.0] * 60, compute_ms=0.0)
    found = probe(*arguments, "--json")
    assert found.exit_code == 0, found.output
    shown = json.loads(found.stdout, parse_constant=refuse)
    if arguments[0] == "show":
        assert shown["run"]["config"] == {"cores": None, "lr": None, "list": [None, 1.5]}
