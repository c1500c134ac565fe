"""A fast part of the truth table in the test suite, and the page that the whole is kept in."""

from __future__ import annotations

from pathlib import Path

import accuracy
import page
import pytest
from arrangements import ARRANGEMENTS, Arrangement
from hooks import measure as measure_hooks
from truth import Source, Truth

import probe

FAST = [found for found in ARRANGEMENTS if found.fast]


@pytest.mark.parametrize("arrangement", FAST, ids=lambda found: found.name)
def test_what_was_done_is_what_is_recorded(arrangement: Arrangement, tmp_path: Path) -> None:
    faults: list[str] = []
    for attempt in range(4):  # another program on the cores counts as compute that nobody injected
        rows = accuracy.measure(arrangement, tmp_path / f"truth{attempt}.db")
        faults = [fault for row in rows for fault in row.faults]
        if not faults:
            break
    assert faults == []


def test_the_table_sees_a_piece_that_nobody_recorded(tmp_path: Path) -> None:
    def lying(truth: Truth) -> None:
        for _ in probe.watch(Source(truth, "train", 60, 0.5)):
            truth.add(500_000, train="compute")

    rows = accuracy.measure(Arrangement("lying", lying, False, True), tmp_path / "truth.db")
    (fault,) = [fault for row in rows for fault in row.faults]
    assert "compute is" in fault


def test_the_page_shows_every_arrangement_and_all_of_them_right() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for found in ARRANGEMENTS:
        assert f"| {found.name}" in text, "run tests/benchmarks/accuracy.py again"
    assert "| wrong |" not in text


def test_a_section_that_the_page_does_not_have_is_an_error() -> None:
    with pytest.raises(ValueError, match="no section nothing"):
        page.write("nothing", "text")


def test_a_call_that_moves_nothing_costs_under_half_a_microsecond(tmp_path: Path) -> None:
    # What it costs on a quiet machine is in the page; this one may be busy with other tests.
    costs = (measure_hooks(tmp_path / "hooks.db", steps=60).ns_per_call for _ in range(2))
    assert any(cost < 500 for cost in costs)
