"""The benchmark of comparisons compares what it says it does, and its page keeps its promises."""

from __future__ import annotations

import re
from pathlib import Path

import compare_power
import numpy as np
import page
import pytest

from probe.insight.compare import compare


def test_pieces_and_runs_are_compared_with_what_others_did_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("STEPS", 200), ("RUNS", 2), ("LONG", 900), ("COMPARISONS", 3)):
        monkeypatch.setattr(compare_power, name, value)
    compare_power.record(tmp_path)
    rng = np.random.default_rng(0)
    runs = list(compare_power.separate_runs(tmp_path / "runs.db", rng))
    assert {len(side.steps) for pair in runs for side in pair} == {220}
    pieces = list(compare_power.cut_pairs(tmp_path / "long.db", rng, neighbours=True))
    for first, second in pieces:
        assert second.steps.step[0] - first.steps.step[-1] == 1
        assert len(first.steps) == len(second.steps) == 220
        assert compare(first, second).verdict
    assert any(side.crowd is not None for pair in pieces for side in pair)


def test_the_page_calls_few_alike_runs_different_and_finds_true_changes() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    section = text.partition("<!-- compare: begin -->")[2].partition("<!-- compare: end -->")[0]
    alike, changed = section.split("| a true change")
    wrong = [float(share) for share in re.findall(r"^\| (?:rec|syn).* ([\d.]+) % \|$", alike, re.M)]
    found = [float(share) for share in re.findall(r"^\| 5 %.* ([\d.]+) % \|$", changed, re.M)]
    assert len(wrong) == 6
    assert max(wrong) <= 7
    assert len(found) == 2
    assert min(found) >= 90
