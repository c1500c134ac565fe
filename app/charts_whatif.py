"""The chart of predictions: samples/s against workers, with what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from charts import finish
from probe.forecast import Measured
from probe.insight.whatif import Prediction, WhatIf
from text import in_chart, rate
from theme import LINES, NEUTRAL

_SYMBOLS = ("circle-open", "square-open", "diamond-open", "triangle-up-open")
_DASHES = ("solid", "dot", "dash", "dashdot")


def predictions(found: WhatIf, measured: Sequence[Measured]) -> go.Figure:
    """Draw the predictions with their intervals, the measured runs, the ceiling and the advice.

    Args:
        found: What was predicted.
        measured: Runs that can be held against it.
    """
    figure = go.Figure()
    factors = list(dict.fromkeys(p.prefetch_factor for p in found.points if p.num_workers))
    # A line without workers alone is drawn as well, as a single mark.
    for index, factor in enumerate(factors or [None]):
        line = [p for p in found.points if p.prefetch_factor in (None, factor)]
        _line(figure, line, factor, index)
    figure.add_scatter(
        x=[run.num_workers for run in measured],
        y=[run.samples_per_s for run in measured],
        mode="markers",
        name="measured",
        marker={"color": NEUTRAL, "size": 9},
        text=[in_chart(run.name) for run in measured],
        hovertemplate="%{text}: %{y:,.0f} samples/s measured<extra></extra>",
    )
    if found.ceiling is not None:
        figure.add_hline(
            y=found.ceiling,
            line={"color": NEUTRAL, "width": 1.5, "dash": "dash"},
            annotation={"text": f"ceiling: {rate(found.ceiling)}", "yanchor": "bottom"},
        )
    best = found.recommended
    figure.add_scatter(
        x=[best.num_workers],
        y=[best.samples_per_s],
        mode="markers",
        name="smallest that is enough",
        marker={"color": NEUTRAL, "size": 20, "symbol": "circle-open", "line": {"width": 2}},
        hoverinfo="skip",
    )
    figure.update_xaxes(title_text="workers", dtick=None, tickformat="d", fixedrange=True)
    figure.update_yaxes(title_text="samples/s", rangemode="tozero", fixedrange=True)
    return finish(figure, height=380)


def _line(figure: go.Figure, line: list[Prediction], factor: int | None, index: int) -> None:
    workers = [point.num_workers for point in line]
    name = "predicted" if factor is None else f"prefetch_factor {factor}"
    look = index % len(LINES)
    low, high = (
        [(point.samples_per_s_ci or (point.samples_per_s,) * 2)[end] for point in line]
        for end in (0, 1)
    )
    figure.add_scatter(
        x=workers + workers[::-1],
        y=high + low[::-1],
        fill="toself",
        mode="none",
        fillcolor=LINES[look],
        opacity=0.15,
        name=f"{name}, 95 %",
        showlegend=False,
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=workers,
        y=[point.samples_per_s for point in line],
        mode="lines+markers",
        name=name,
        line={"color": LINES[look], "width": 2, "dash": _DASHES[look]},
        marker={"symbol": _SYMBOLS[look], "size": 8},
        hovertemplate=f"{name}, %{{x}} workers: %{{y:,.0f}} samples/s<extra></extra>",
    )
