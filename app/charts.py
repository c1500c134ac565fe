"""Arrays to figures: each function draws one chart and computes nothing but positions.

Fonts, grid and background follow Streamlit's light or dark theme; only marks carry a colour here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from probe.insight.series import Buckets, Distribution, Samples, Staircase
from text import in_chart, ms, percent, signed_ms
from theme import INK, NEUTRAL, PHASE, STACK, TEXT_PX

# A static chart must not swallow the swipe that scrolls a phone.
STILL = {"displayModeBar": False, "scrollZoom": False}

# A logarithmic axis has no zero.
SHORTEST_MS = 0.001


def step_bar(phases_ms: Mapping[str, float], shares: Mapping[str, float]) -> go.Figure:
    """Draw one step as a bar of 100 %.

    Args:
        phases_ms: What each phase takes.
        shares: The same as shares of the whole, 0–1.
    """
    figure = go.Figure()
    for phase in STACK:
        if not phases_ms[phase] and phase == "other":
            continue
        label = f"{phase} {ms(phases_ms[phase])} ({percent(shares[phase])})"
        figure.add_bar(
            x=[shares[phase] * 100],
            y=[""],
            orientation="h",
            name=label,
            text=f"{phase}<br>{ms(phases_ms[phase])}",
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": INK[phase]},
            marker={"color": PHASE[phase]},
            hovertemplate=f"{label}<extra></extra>",
        )
    # Plotly hides a label that does not fit at this size; the key below holds every number.
    figure.update_layout(barmode="stack", uniformtext={"minsize": TEXT_PX - 1, "mode": "hide"})
    ticks = [0, 25, 50, 75, 100]
    figure.update_xaxes(
        range=[0, 100], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks], fixedrange=True
    )
    figure.update_yaxes(visible=False, fixedrange=True)
    figure = finish(figure, height=170)
    below = {"y": -0.45, "yanchor": "top"}
    return figure.update_layout(margin={"l": 20, "r": 24}, legend=below)


def timeline(
    buckets: Buckets, top_ms: float, gpu: Samples | None, cpu: Samples | None
) -> go.Figure:
    """Draw the steps over time, and below on the same axis what GPU and CPU did meanwhile.

    Args:
        buckets: Steps, summed up; each bar is as wide as its steps took.
        top_ms: Where the axis of the steps ends.
        gpu: GPU utilisation, 0–1, or None: then it has no panel.
        cpu: CPU utilisation, 0–1, or None: then it has no panel.
    """
    below = [(name, samples) for name, samples in (("GPU", gpu), ("CPU", cpu)) if samples]
    figure = make_subplots(
        rows=1 + len(below),
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        row_heights=[1.0, *[0.32] * len(below)],
    )
    middle = buckets.start_s + buckets.width_s / 2
    for phase in STACK:
        height = getattr(buckets, f"{phase}_ms")
        if phase == "other" and not height.any():
            continue
        figure.add_bar(
            x=middle,
            y=height,
            width=buckets.width_s,
            name=phase,
            marker={"color": PHASE[phase], "line": {"width": 0}},
            hovertemplate=f"{phase} %{{y:.2f}} ms<extra></extra>",
            row=1,
            col=1,
        )
    if (buckets.steps > 1).any():
        figure.add_scatter(
            x=middle,
            y=buckets.longest_ms,
            mode="lines",
            name="longest step",
            line={"color": NEUTRAL, "width": 1},
            hovertemplate="longest step %{y:.2f} ms<extra></extra>",
            row=1,
            col=1,
        )
    figure.update_yaxes(title_text="ms a step", range=[0, top_ms], row=1, col=1)
    for row, (name, samples) in enumerate(below, start=2):
        figure.add_scatter(
            x=samples.time_s,
            y=samples.value * 100,
            mode="lines",
            name=f"{name} utilisation",
            showlegend=False,
            line={"color": NEUTRAL, "width": 1.5},
            fill="tozeroy",
            hovertemplate=f"{name} %{{y:.0f}} %<extra></extra>",
            row=row,
            col=1,
        )
        figure.update_yaxes(
            title_text=f"{name} %", range=[0, 105], tickvals=[0, 50, 100], row=row, col=1
        )
    figure.update_layout(barmode="stack", bargap=0, hovermode="x", uirevision="timeline")
    figure.update_xaxes(title_text="seconds since the run began", row=1 + len(below), col=1)
    figure.update_yaxes(fixedrange=True)
    return finish(figure, height=340 + 110 * len(below))


def wait_distribution(waits: Distribution, marks: Mapping[str, float]) -> go.Figure:
    """Draw how many waits are at most how long, on a logarithmic axis.

    Args:
        waits: The distribution.
        marks: Percentiles to point out: `p95` to its value in ms.
    """
    figure = go.Figure()
    figure.add_scatter(
        x=waits.ms.clip(SHORTEST_MS),
        y=waits.share * 100,
        mode="lines",
        line={"color": PHASE["wait"], "width": 2, "shape": "hv"},
        showlegend=False,
        hovertemplate="%{y:.1f} % of the waits are at most %{x:.3g} ms<extra></extra>",
    )
    for symbol, (name, at_ms) in zip(("circle", "diamond", "square"), marks.items(), strict=False):
        figure.add_scatter(
            x=[max(at_ms, SHORTEST_MS)],
            y=[float(name.removeprefix("p"))],
            mode="markers",
            name=f"{name} {ms(at_ms)}",
            marker={"color": NEUTRAL, "size": 11, "symbol": symbol},
            hovertemplate=f"{name} {ms(at_ms)}<extra></extra>",
        )
    ticks = log_ticks(max(waits.ms[0], SHORTEST_MS), max(waits.ms[-1], SHORTEST_MS))
    figure.update_xaxes(
        title_text="wait, ms (logarithmic)",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
        fixedrange=True,
    )
    figure.update_yaxes(
        title_text="% of steps",
        range=[0, 103],
        tickvals=[0, 25, 50, 75, 100],
        fixedrange=True,
    )
    return finish(figure, height=300)


def waterfall(baseline: str, candidate: str, stairs: Staircase) -> go.Figure:
    """Draw how the baseline's mean step becomes the candidate's, phase by phase.

    Args:
        baseline: What to call the first bar.
        candidate: What to call the last bar.
        stairs: The mean steps at both ends and the changes between them, in ms.
    """
    changes = stairs.changes
    rows = [in_chart(baseline), *changes, in_chart(candidate)]
    lengths = [stairs.first, *changes.values(), stairs.last]
    starts = [0.0, *stairs.begins, 0.0]
    ends = [start + length for start, length in zip(starts, lengths, strict=True)]
    figure = go.Figure()
    # Drawn from left to right, whatever the sign, so that no label runs into the names.
    figure.add_bar(
        x=[abs(length) for length in lengths],
        base=[min(span) for span in zip(starts, ends, strict=True)],
        y=list(range(len(rows))),
        orientation="h",
        marker={"color": [NEUTRAL, *(PHASE[phase] for phase in changes), NEUTRAL]},
        text=[ms(stairs.first), *map(signed_ms, changes.values()), ms(stairs.last)],
        textposition="outside",
        showlegend=False,
        hovertemplate="%{text}<extra></extra>",
    )
    # Positions instead of names: a run may be called like a phase, or like the other run.
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=rows,
        autorange="reversed",
        automargin=True,
        fixedrange=True,
    )
    room_for_labels = 1.35
    figure.update_xaxes(
        title_text="ms a step",
        range=[0, max(*starts, *ends) * room_for_labels],
        fixedrange=True,
    )
    return finish(figure, height=320)


def log_ticks(low: float, high: float) -> list[float]:
    """Return where a logarithmic axis has its labels."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [factor * 10.0**decade for decade in decades for factor in factors]


def finish(figure: go.Figure, height: int) -> go.Figure:
    """Give a figure the looks that all of them share."""
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 16, "t": 8, "b": 8},
        font={"size": TEXT_PX},
        legend={
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "traceorder": "normal",
            "itemclick": False,
            "itemdoubleclick": False,
        },
    )
    return figure
