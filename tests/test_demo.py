"""The demo: what it prints is what the file holds, and what it says follows from it."""

from __future__ import annotations

import io
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from recordings import Recording
from rich.console import Console
from torch.utils.data import DataLoader

import probe.demo
from probe.demo import run_demo
from probe.demo.pictures import COUNT, Pictures, folder
from probe.demo.scenarios import SCENARIOS, strategies
from probe.demo.table import print_table

WARM_UP = 20


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def cached_pictures(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


def number(text: str) -> float:
    found = re.search(r"\d[\d,]*\.?\d*", text)
    assert found is not None, text
    return float(found.group().replace(",", ""))


def cells(printed: str) -> list[list[str]]:
    lines = [line for line in printed.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


# Python 3.12 warns when a process that has threads forks workers, as every recorded loop does.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_every_figure_of_the_table_agrees_with_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe.demo, "_FAST_SECONDS", 6.0)
    threads = torch.get_num_threads()
    run_demo("storage", fast=True, db="demo.db", dashboard=False)
    assert torch.get_num_threads() == threads
    printed = capsys.readouterr().out
    assert "Simulated" in printed

    db = sqlite3.connect("demo.db")
    wrong = (
        "SELECT count(*) FROM step_times WHERE wait_ns + copy_ns + compute_ns + other_ns <> step_ns"
    )
    assert db.execute(wrong).fetchone() == (0,)
    runs = db.execute("SELECT id, strategy, status, experiment, notes FROM runs").fetchall()
    rows = cells(printed)
    assert [row[0] for row in rows] == [run[1] for run in runs]
    assert [row[0] for row in rows] == [
        "DataLoader, 0 workers",
        "background thread",
        "DataLoader, 2 workers",
        "2 workers + background thread",
    ]
    rates = []
    for row, (run_id, _, status, experiment, notes) in zip(rows, runs, strict=True):
        assert status == "finished"
        assert re.fullmatch(r"demo-\d{8}T\d{6}-storage", experiment)
        assert "Simulated" in notes
        steps = np.array(
            db.execute(
                "SELECT stall_ns, step_ns, samples, epoch_start FROM step_times"
                " WHERE run_id = ? ORDER BY step",
                (run_id,),
            ).fetchall()
        )
        assert number(row[1]) == len(steps)
        stall, wall, samples, _ = steps[WARM_UP:].sum(axis=0)
        assert number(row[2]) == pytest.approx(samples / wall * 1e9, abs=0.5)
        assert number(row[3]) == pytest.approx(stall / wall * 100, rel=0.05, abs=0.05)
        steady = steps[WARM_UP:][steps[WARM_UP:, 3] == 0]
        rates.append(steady[:, 2].sum() / steady[:, 1].sum())
        assert number(row[4]) == pytest.approx(rates[-1] / rates[0], rel=0.006)

    plain, _, two_workers, _ = rows
    assert plain[5] == "highly input-bound"
    # Well below what it reaches, and no interval: these few seconds may have shared the machine.
    assert number(two_workers[4]) > 1.2


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_cuda_device_adds_the_side_stream(name: str) -> None:
    without, on_cuda = (strategies(SCENARIOS[name], cuda=cuda) for cuda in (False, True))
    assert on_cuda[:-1] == without
    assert on_cuda[-1].stream
    assert len({way.name for way in on_cuda}) == len(on_cuda)


def test_pictures_travel_to_spawned_workers() -> None:
    pictures = Pictures(folder(96, iter), read_ms=0, spread=0, augment=False)
    loader = DataLoader(pictures, batch_size=8, num_workers=1, multiprocessing_context="spawn")
    images, labels = next(iter(loader))
    assert images.shape == (8, 96, 96, 3)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_reading_a_picture_waits_as_long_as_asked() -> None:
    pictures = Pictures(folder(96, iter), read_ms=30, spread=0, augment=False)
    began = time.perf_counter()
    _ = pictures[0]
    assert 0.03 <= time.perf_counter() - began < 0.2


def test_augmented_pictures_keep_their_size() -> None:
    pictures = Pictures(folder(96, iter), read_ms=0, spread=0, augment=True)
    assert {pictures[i][0].shape for i in range(20)} == {(96, 96, 3)}
    assert not np.array_equal(pictures[0][0], pictures[0][0])


def test_pictures_are_written_once_and_never_by_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def interrupted(numbers: Iterable[int]) -> Iterator[int]:
        for i in numbers:
            if i == 3:
                raise KeyboardInterrupt
            yield i

    with pytest.raises(KeyboardInterrupt):
        folder(32, interrupted)
    assert list((tmp_path / "cache" / "prefetch-probe").iterdir()) == []
    written = folder(32, iter)
    assert len(list(written.glob("*.jpg"))) == COUNT
    assert folder(32, interrupted) == written


def conclusion(db: Path, **waits: float) -> str:
    """What is printed of runs that compute 40 ms a step and wait as given, in that order."""
    rng = np.random.default_rng(0)
    with Recording(db) as recording:
        for name, wait in waits.items():
            run = recording.run(name, strategy=name, experiment="demo")
            loader = recording.loader(run)
            noise = rng.normal(0, 0.3, 400)
            recording.steps(run, loader, wait_ms=list(wait + np.abs(noise)), compute_ms=40.0)
    out = io.StringIO()
    because = {name: f"of what {name} does" for name in waits}
    print_table(db, "demo", because, Console(file=out, width=1000))
    return out.getvalue().split("┘")[1]


def test_the_fastest_strategy_wins(tmp_path: Path) -> None:
    said = conclusion(tmp_path / "a.db", plain=40.0, thread=20.0, workers=1.0)
    assert said.strip().startswith("workers wins: 1.95 × (1.95–1.95) the samples/s of plain,")
    assert "because of what workers does: a step waits 1.2 ms for data instead of 40.2 ms" in said


def test_the_simplest_of_equals_wins(tmp_path: Path) -> None:
    said = conclusion(tmp_path / "a.db", plain=40.0, workers=1.0, both=1.0)
    assert "workers is enough, as nothing is shown to beat it" in said
    assert "both makes no difference to that: 1.000 ×" in said


def test_a_slower_strategy_is_called_slower(tmp_path: Path) -> None:
    said = conclusion(tmp_path / "a.db", plain=40.0, workers=1.0, both=10.0)
    assert "both is slower than that: 0.82 ×" in said


def test_nothing_wins_where_nothing_is_faster(tmp_path: Path) -> None:
    said = conclusion(tmp_path / "a.db", plain=1.0, thread=1.0, workers=5.0)
    assert "No strategy is shown to beat plain." in said
    assert "wins:" not in said


def refusal(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    return sentence


def test_a_missing_package_is_one_sentence_with_the_line_that_installs_it() -> None:
    hide = "import sys; sys.modules['PIL'] = None; from probe.demo import run_demo; run_demo()"
    assert refusal(hide) == (
        'probe: the demo needs pillow, not installed here: pip install "prefetch-probe[demo]"'
    )


def test_an_unknown_scenario_is_refused() -> None:
    said = refusal("from probe.demo import run_demo; run_demo('nvme')")
    assert said == "probe: there is no scenario 'nvme': choose one of storage, decode, burst"


def test_a_demo_that_may_not_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_DISABLE", "1")
    assert "PROBE_DISABLE is set" in refusal("from probe.demo import run_demo; run_demo()")


def test_a_file_of_another_program_is_refused_before_training(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE theirs (id INTEGER)")
    db.close()
    said = refusal("from probe.demo import run_demo; run_demo(db='other.db')")
    assert said.startswith(f"probe: cannot record to {tmp_path / 'other.db'}: ")
    assert "another program" in said
