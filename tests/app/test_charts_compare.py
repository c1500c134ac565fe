"""What is drawn of a comparison is what was found: the figures' numbers, not their looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import charts_compare
import theme
from probe.insight import series
from probe.insight.board import Board, Entry

PLAIN = Entry(
    name="DataLoader, 0 workers",
    runs=["a", "b"],
    repeats=[90.0, 110.0],
    repeat_ratios=[0.9, 1.1],
    samples_per_s=100.0,
    between=0.14,
    ratio=1.0,
    ratio_ci=None,
    p_adjusted=None,
    verdict="baseline",
    stall_share=0.5,
    io_only=120.0,
    of_ceiling=0.4,
    overlap=0.83,
)
ENTRIES = [
    PLAIN,
    replace(PLAIN, name="<b>w2", ratio=2.0, ratio_ci=(1.8, 2.2), verdict="faster"),
    replace(PLAIN, name="thread", ratio=1.1, ratio_ci=(0.9, 1.3), verdict="cannot tell"),
    replace(PLAIN, name="bad", ratio=0.5, ratio_ci=(0.4, 0.6), verdict="slower", io_only=None),
    replace(PLAIN, name="few", ratio=None, samples_per_s=None, repeats=[], verdict="cannot tell"),
]
BOARD = Board("DataLoader, 0 workers", "samples/s", ENTRIES, 250.0, "", [])


def test_the_forest_shows_intervals_repeats_and_what_is_not_shown_in_grey() -> None:
    figure = charts_compare.forest(BOARD)
    spans = [trace for trace in figure.data if trace.mode == "lines"]
    assert [tuple(span.x) for span in spans] == [(1, 1), (1.8, 2.2), (0.9, 1.3), (0.4, 0.6)]
    colours = [span.line.color for span in spans]
    assert colours == [theme.NEUTRAL, theme.BETTER, theme.NEUTRAL, theme.WORSE]
    points = [trace for trace in figure.data if len(trace.x) == 1]
    assert [point.x[0] for point in points] == [1.0, 2.0, 1.1, 0.5]
    assert len({point.marker.symbol for point in points}) == 4  # never colour alone
    rings = [t for t in figure.data if t.marker.symbol == "circle-open" and len(t.x) == 2]
    assert [tuple(ring.x) for ring in rings] == [(0.9, 1.1)] * 4
    assert list(figure.layout.yaxis.ticktext) == [
        "DataLoader, 0<br>workers",
        "&lt;b&gt;w2",
        "thread",
        "bad",
    ]
    assert figure.layout.shapes[0].x0 == 1


def test_bars_stand_against_a_dashed_ceiling_and_dotted_loaders() -> None:
    figure = charts_compare.reached(BOARD)
    bars, *lines = figure.data
    assert list(bars.x) == [100.0] * 4
    assert bars.text[0] == "overlap 83 %"
    dotted = [line for line in lines if line.line.dash == "dot"]
    assert [line.x[0] for line in dotted] == [120.0] * 3
    assert [line.showlegend for line in dotted] == [True, False, False]
    [dashed] = [line for line in lines if line.line.dash == "dash"]
    assert tuple(dashed.x) == (250.0, 250.0)
    without = replace(BOARD, ceiling=None, entries=[replace(PLAIN, io_only=None, overlap=None)])
    assert len(charts_compare.reached(without).data) == 1


def test_two_distributions_share_an_axis_and_differ_in_more_than_colour() -> None:
    both = {
        "a": series.distribution(np.array([1_000_000])),
        "<i>": series.distribution(np.zeros(3, np.int64)),
    }
    figure = charts_compare.distributions("wait", both)
    assert [trace.name for trace in figure.data] == ["a", "&lt;i&gt;"]
    assert len({trace.line.dash for trace in figure.data}) == 2
    assert figure.data[1].x.min() == pytest.approx(0.001)
    assert figure.layout.xaxis.type == "log"
    assert figure.layout.xaxis.title.text == "wait, ms (logarithmic)"


def test_steps_are_laid_over_each_other_from_the_same_start() -> None:
    both = {
        name: series.SteadySteps(np.arange(3), np.full(3, ms))
        for name, ms in (("a", 2.0), ("b", 1.0))
    }
    figure = charts_compare.overlaid(both)
    assert [tuple(trace.x) for trace in figure.data] == [(0, 1, 2)] * 2
    assert [trace.y[0] for trace in figure.data] == [2.0, 1.0]
