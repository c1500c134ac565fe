"""The chart of predictions shows each of them, what was measured, and the advice."""

from __future__ import annotations

from typing import Any

import charts_whatif
from probe.forecast import Measured
from probe.insight.whatif import Prediction, WhatIf


def point(workers: int, factor: int | None, rate: float) -> Prediction:
    return Prediction(workers, factor, rate, (rate - 5, rate + 5), 0.1)


POINTS = [
    point(0, None, 100),
    point(1, 2, 150),
    point(1, 4, 160),
    point(2, 2, 290),
    point(2, 4, 300),
]


def found(points: list[Prediction], ceiling: float | None = 320.0) -> WhatIf:
    return WhatIf(points, points[-1], ceiling, 100.0, "", [])


def traces(*arguments: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in charts_whatif.predictions(*arguments).data}


def test_each_prefetch_factor_is_a_line_that_begins_without_workers() -> None:
    drawn = traces(found(POINTS), [])
    for factor, rates in ((2, (100, 150, 290)), (4, (100, 160, 300))):
        line = drawn[f"prefetch_factor {factor}"]
        assert tuple(line.x) == (0, 1, 2)
        assert tuple(line.y) == rates
        band = drawn[f"prefetch_factor {factor}, 95 %"]
        low = [rate - 5 for rate in rates]
        high = [rate + 5 for rate in rates]
        assert tuple(band.y) == (*high, *low[::-1])
    looks = {(t.line.color, t.line.dash, t.marker.symbol) for t in drawn.values() if t.line.dash}
    assert len(looks) == 2


def test_the_advice_the_ceiling_and_measured_runs_are_marked() -> None:
    figure = charts_whatif.predictions(found(POINTS), [Measured("<b>one</b>", 1, 2, 0, 155.0)])
    drawn = {trace.name: trace for trace in figure.data}
    assert (drawn["smallest that is enough"].x, drawn["smallest that is enough"].y) == (
        (2,),
        (300,),
    )
    assert (tuple(drawn["measured"].x), tuple(drawn["measured"].y)) == ((1,), (155.0,))
    assert drawn["measured"].text[0] == "&lt;b&gt;one&lt;/b&gt;"
    [ceiling] = figure.layout.shapes
    assert (ceiling.y0, ceiling.y1, ceiling.line.dash) == (320, 320, "dash")


def test_a_loop_that_does_nothing_has_no_ceiling_and_one_point_is_a_chart() -> None:
    figure = charts_whatif.predictions(found(POINTS[:1], ceiling=None), [])
    assert not figure.layout.shapes
    assert tuple({trace.name: trace for trace in figure.data}["predicted"].y) == (100,)
