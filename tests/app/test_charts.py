"""What is drawn is what was measured: the figures' numbers, not their looks."""

from __future__ import annotations

import numpy as np
import pytest

import charts
import theme
from probe.insight import series
from probe.insight.summary import PHASES

STEP = {"wait": 57.0, "copy": 1.0, "compute": 36.0, "other": 0.0}


def buckets(size: int) -> series.Buckets:
    count = 4
    return series.Buckets(
        start_s=np.arange(count) * 2.0,
        width_s=np.full(count, 1.5),
        steps=np.full(count, size),
        wait_ms=np.array([5.0, 6.0, 7.0, 8.0]),
        copy_ms=np.ones(count),
        compute_ms=np.full(count, 40.0),
        other_ms=np.zeros(count),
        longest_ms=np.array([46.0, 47.0, 300.0, 49.0]),
    )


def traces(figure: object) -> dict[str, object]:
    return {trace.name: trace for trace in figure.data}


def test_the_step_bar_is_a_hundred_percent_and_says_every_number() -> None:
    figure = charts.step_bar(STEP, series.shares(STEP))
    assert sum(trace.x[0] for trace in figure.data) == pytest.approx(100)
    assert [trace.name for trace in figure.data] == [
        "compute 36.0 ms (38 %)",
        "copy 1.0 ms (1.1 %)",
        "wait 57.0 ms (61 %)",
    ]
    assert [trace.marker.color for trace in figure.data] == ["#0072B2", "#CC79A7", "#D55E00"]


def test_other_time_is_part_of_the_bar_when_there_is_any() -> None:
    step = STEP | {"other": 6.0}
    names = [trace.name for trace in charts.step_bar(step, series.shares(step)).data]
    assert [name.split()[0] for name in names] == list(theme.STACK)


def test_steps_are_stacked_in_order_at_their_time_and_width() -> None:
    figure = charts.timeline(buckets(size=3), 100.0, None, None)
    assert [trace.name for trace in figure.data] == ["compute", "copy", "wait", "longest step"]
    assert figure.layout.barmode == "stack"
    for trace in figure.data[:3]:
        assert trace.x.tolist() == [0.75, 2.75, 4.75, 6.75]
        assert trace.width.tolist() == [1.5] * 4
    assert traces(figure)["wait"].y.tolist() == [5, 6, 7, 8]
    assert traces(figure)["longest step"].y.max() == 300
    assert figure.layout.yaxis.range == (0, 100)


def test_bars_of_one_step_need_no_line_for_the_longest() -> None:
    assert "longest step" not in traces(charts.timeline(buckets(size=1), 100.0, None, None))


def test_gpu_and_cpu_share_the_axis_of_the_steps() -> None:
    gpu = series.Samples(np.array([0.0, 1.0, 2.0]), np.array([0.5, np.nan, 1.0]))
    cpu = series.Samples(np.array([0.0, 1.0]), np.array([0.25, 0.5]))
    figure = charts.timeline(buckets(size=1), 100.0, gpu, cpu)
    found = traces(figure)["GPU utilisation"].y
    assert found.tolist() == pytest.approx([50, np.nan, 100], nan_ok=True)  # a gap, not a zero
    assert traces(figure)["CPU utilisation"].y.tolist() == [25, 50]
    assert figure.layout.xaxis.matches == figure.layout.xaxis2.matches == "x3"
    assert "seconds" in figure.layout.xaxis3.title.text


def test_what_was_not_measured_has_no_panel() -> None:
    figure = charts.timeline(buckets(size=1), 100.0, None, None)
    assert [axis for axis in figure.layout if axis.startswith("yaxis")] == ["yaxis"]


def test_the_distribution_is_logarithmic_and_marks_its_percentiles() -> None:
    waits = series.distribution(np.arange(1, 1001) * 100_000)
    figure = charts.wait_distribution(waits, {"p50": 50.05, "p95": 95.005, "p99": 99.001})
    assert figure.layout.xaxis.type == "log"
    curve, *marks = figure.data
    assert curve.y[-1] == 100
    assert [(mark.name, mark.x[0], mark.y[0]) for mark in marks] == [
        ("p50 50.0 ms", 50.05, 50),
        ("p95 95.0 ms", 95.005, 95),
        ("p99 99.0 ms", 99.001, 99),
    ]
    assert len({mark.marker.symbol for mark in marks}) == 3
    assert {0.1, 1.0, 10.0, 100.0} <= set(figure.layout.xaxis.tickvals)


def test_no_wait_at_all_is_drawn_at_a_microsecond() -> None:
    waits = series.distribution(np.zeros(50, dtype=np.int64))
    figure = charts.wait_distribution(waits, {"p50": 0.0})
    assert figure.data[0].x.min() == figure.data[1].x[0] == charts.SHORTEST_MS


def test_the_waterfall_leads_from_the_baseline_to_the_candidate() -> None:
    changes = {"wait": -56.0, "copy": 0.0, "compute": 2.5, "other": 0.0}
    stairs = series.staircase(STEP, changes)
    assert stairs is not None
    [bars] = charts.waterfall("baseline", "<b>wait", stairs).data
    spans = [(base, base + length) for base, length in zip(bars.base, bars.x, strict=True)]
    assert spans == [(0, 94), (38, 94), (38, 38), (38, 40.5), (40.5, 40.5), (0, 40.5)]
    assert list(bars.text) == ["94.0 ms", "−56.0 ms", "0 ms", "+2.5 ms", "0 ms", "40.5 ms"]
    figure = charts.waterfall("baseline", "<b>wait", stairs)
    assert list(figure.layout.yaxis.ticktext) == ["baseline", *PHASES, "&lt;b&gt;wait"]


def test_every_axis_has_a_unit() -> None:
    stairs = series.staircase(STEP, dict.fromkeys(PHASES, 0.0))
    assert stairs is not None
    assert "ms" in charts.waterfall("a", "b", stairs).layout.xaxis.title.text
    assert "ms" in charts.timeline(buckets(1), 1.0, None, None).layout.yaxis.title.text
    assert "%" in charts.step_bar(STEP, series.shares(STEP)).layout.xaxis.ticktext[0]
