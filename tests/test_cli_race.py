"""`probe race` prints a board or JSON, and one sentence for a bad target."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from races import runs

TRAIN = """
import time, torch
from torch.utils.data import DataLoader

def make_loader(**settings):
    return DataLoader(range(400), batch_size=4, **settings)

def train_step(batch):
    print("training", flush=True)
    time.sleep(0.002)

class Model:
    def step(self, batch):
        pass

model = Model()
number = 3
"""


def command(*arguments: str) -> list[str]:
    # As the installed script, which does not find modules in the current directory by itself.
    return [sys.executable, "-P", "-m", "probe", "race", *arguments]


@pytest.fixture
def train(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")


@pytest.mark.usefixtures("train")
def test_the_command_prints_json_and_nothing_else() -> None:
    done = subprocess.run(
        command(
            *("train:make_loader", "--step", "train:train_step", "--strategies"),
            *("plain;workers=1", "--steps", "20", "--repeats", "2", "--json", "--db", "race.db"),
        ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [row["name"] for row in found["board"]["entries"]] == ["plain", "1 worker"]
    assert found["unit"] == "samples/s"
    assert found["recommended"]["code"].startswith("loader = make_loader(")
    low, high = found["recommended"]["predicted"]
    assert low < found["recommended"]["samples_per_s"] < high
    assert "training" in done.stderr
    assert {experiment for (experiment,) in runs("experiment")} == {found["experiment"]}


@pytest.mark.usefixtures("train")
def test_ctrl_c_prints_the_board_of_what_was_measured() -> None:
    arguments = ("train:make_loader", "--step", "train:train_step", "--repeats", "99")
    ran = subprocess.Popen(
        command(*arguments, "--strategies", "plain;workers=1", "--steps", "20", "--db", "race.db"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "160"},
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and not (Path("race.db").exists() and _has_round(2)):
        time.sleep(0.1)
    ran.send_signal(signal.SIGINT)
    out, err = ran.communicate(timeout=60)
    assert ran.returncode == 130, err
    assert "Traceback" not in out + err
    assert "of 99; this was measured until then." in out
    assert "\n    loader = make_loader(" in out
    assert "1 worker" in out


def _has_round(number: int) -> bool:
    try:
        return any(f'"repeat-{number}"' in tags for (tags,) in runs("tags"))
    except sqlite3.Error:  # not yet
        return False


@pytest.mark.usefixtures("train")
@pytest.mark.parametrize(
    ("loader", "step", "said"),
    [
        ("train", "train:train_step", "'train' names no function: write it as package.module:fun"),
        ("absent:make", "train:train_step", "'absent:make' cannot be imported from "),
        ("broken:make", "train:train_step", "No module named 'nothing_of_this_name'"),
        ("train:make", "train:train_step", "train.py has no make"),
        ("train:number", "train:train_step", "'train:number' is 3, no function"),
        ("train:make_loader", "train:model.step.more", "train.py has no model.step.more"),
    ],
)
def test_a_bad_target_is_one_sentence_and_exit_code_2(loader: str, step: str, said: str) -> None:
    done = subprocess.run(
        command(loader, "--step", step, "--steps", "20"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("probe: ")
    assert said in sentence
