"""What the names of strategies mean, and which suit a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from races import loader, parsed, runs, step

import probe
from probe.racing.strategies import RaceError, parse, suitable


@pytest.mark.parametrize(
    ("name", "title", "settings", "wrappers"),
    [
        ("plain", "plain", {}, ()),
        ("workers=1", "1 worker", {"num_workers": 1}, ()),
        (
            "workers=4, prefetch_factor=2",
            "4 workers, prefetch_factor 2",
            {"num_workers": 4, "prefetch_factor": 2},
            (),
        ),
        (
            "workers=2,pin_memory,persistent_workers + background",
            "2 workers, pinned memory, persistent workers + background thread",
            {"num_workers": 2, "pin_memory": True, "persistent_workers": True},
            ("background",),
        ),
    ],
)
def test_names_of_strategies(
    name: str, title: str, settings: dict[str, Any], wrappers: tuple[str, ...]
) -> None:
    found = parsed(name)
    assert (found.title, found.settings, found.wrappers) == (title, settings, wrappers)


@pytest.mark.parametrize(
    ("strategies", "said"),
    [
        (["magic"], "there is no strategy 'magic': name some of plain, background"),
        (["workers=two"], "there is no setting 'workers=two' ('workers=two'): name some of plain"),
        (["workers=-1"], "there is no setting 'workers=-1'"),
        (["pin_memory=1"], "there is no setting 'pin_memory=1'"),
        (["plain+background"], "there is no strategy 'plain+background'"),
        (["plain", " plain "], "the strategy 'plain' is given twice"),
        ([], "there is no strategy to race"),
        ("plain", "strategies is the text 'plain': give a list, such as [\"plain\"]"),
        ([3], "3 is no strategy: give its name, or a dictionary"),
        ([{"mine": 3}], "the strategy 'mine' is 3: give a callable"),
        (["to_device"], "the strategy 'to_device' needs an accelerator, and torch sees none here"),
    ],
)
def test_a_wrong_strategy_is_told_in_one_sentence(strategies: Any, said: str) -> None:
    if "accelerator" in said and torch.accelerator.is_available():
        pytest.skip("there is one here")
    with pytest.raises(RaceError) as told:
        probe.race(loader, step, strategies, db="race.db")
    assert said in str(told.value)
    assert not Path("race.db").exists() or runs() == []


def test_what_suits_a_machine() -> None:
    assert suitable(1, False) == [
        "plain",
        "background",
        "workers=2",
        "workers=4",
        "workers=2+background",
    ]
    assert suitable(64, True)[-3:] == ["workers=2+background", "to_device", "workers=16+to_device"]
    names = suitable(6, False)
    assert "workers=8" in names
    assert "workers=16" not in names
    for cores in (1, 2, 64):
        parse(suitable(cores, accelerator=False), cores)


def test_the_simplest_comes_first() -> None:
    names = [
        "plain",
        "workers=2",
        "workers=4",
        "workers=4,prefetch_factor=4",
        "background",
        "workers=2+background",
    ]
    found = parse([{"mine": step}, *reversed(names)], cores=2)
    assert [s.name for s in sorted(found, key=lambda s: s.complexity)] == [
        *names[:4],
        "mine",
        "background",
        "workers=2+background",
    ]
