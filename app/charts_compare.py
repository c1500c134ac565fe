"""Charts that set runs against each other: distributions, steps, and the board of strategies."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap

import plotly.graph_objects as go

from charts import SHORTEST_MS, finish, log_ticks
from probe.insight.board import Board
from probe.insight.series import Distribution, SteadySteps
from text import in_chart, percent, rate
from theme import BETTER, NEUTRAL, SIDES, SIDES_INK, TEXT_PX, WORSE

# Baseline and candidate differ in colour and in their dashes.
_DASHES = ("dash", "solid")
_SYMBOLS = {"faster": "circle", "slower": "square", "baseline": "diamond"}
_BELOW = 0.24  # of a row: repeats lie under their interval
_WIDE = 18  # characters that fit beside a chart on a phone
_COLOURS = {"faster": BETTER, "slower": WORSE}


def distributions(what: str, both: Mapping[str, Distribution]) -> go.Figure:
    """Draw how many of two runs' values are at most how long, on a logarithmic axis.

    Args:
        what: What is distributed: `wait` or `step`.
        both: The distribution of each run by its name, the baseline first.
    """
    figure = go.Figure()
    for (name, found), colour, dash in zip(both.items(), SIDES, _DASHES, strict=False):
        figure.add_scatter(
            x=found.ms.clip(SHORTEST_MS),
            y=found.share * 100,
            mode="lines",
            name=in_chart(name),
            line={"color": colour, "width": 2, "shape": "hv", "dash": dash},
            hovertemplate=f"%{{y:.1f}} % of the {what}s are at most %{{x:.3g}} ms<extra></extra>",
        )
    ends = [end for found in both.values() for end in (found.ms[0], found.ms[-1])]
    ticks = log_ticks(max(min(ends), SHORTEST_MS), max(*ends, SHORTEST_MS))
    figure.update_xaxes(
        title_text=f"{what}, ms (logarithmic)",
        type="log",
        tickvals=ticks,
        ticktext=[f"{tick:g}" for tick in ticks],
        fixedrange=True,
    )
    figure.update_yaxes(
        title_text="% of steps", range=[0, 103], tickvals=[0, 25, 50, 75, 100], fixedrange=True
    )
    return finish(figure, height=280)


def overlaid(both: Mapping[str, SteadySteps]) -> go.Figure:
    """Draw the steps of two runs over each other, from where each is past its warm-up."""
    figure = go.Figure()
    for (name, steps), colour, dash in zip(both.items(), SIDES, _DASHES, strict=False):
        figure.add_scatter(
            x=steps.step,
            y=steps.ms,
            mode="lines",
            name=in_chart(name),
            line={"color": colour, "width": 1.5, "dash": dash},
            hovertemplate="step %{x}: %{y:.2f} ms<extra></extra>",
        )
    figure.update_xaxes(title_text="steps since steady state", fixedrange=True)
    # Both axes begin with a 0 in the same corner.
    figure.update_yaxes(
        title_text="ms a step", rangemode="tozero", ticklabelstandoff=6, fixedrange=True
    )
    return finish(figure, height=280)


def forest(board: Board) -> go.Figure:
    """Draw each strategy's rate ÷ the baseline's, with its interval and its repeats as dots.

    What is not shown to differ is grey.
    """
    figure = go.Figure()
    shown = [entry for entry in board.entries if entry.ratio is not None]
    for row, entry in enumerate(shown):
        low, high = entry.ratio_ci or (entry.ratio, entry.ratio)
        colour = _COLOURS.get(entry.verdict, NEUTRAL)
        figure.add_scatter(
            x=[low, high],
            y=[row, row],
            mode="lines",
            showlegend=False,
            line={"color": colour, "width": 3},
            hoverinfo="skip",
        )
        figure.add_scatter(
            x=entry.repeat_ratios,
            y=[row + _BELOW] * len(entry.repeat_ratios),
            mode="markers",
            showlegend=False,
            marker={"color": colour, "size": 7, "symbol": "circle-open"},
            hovertemplate="one run: %{x:.3f} ×<extra></extra>",
        )
        figure.add_scatter(
            x=[entry.ratio],
            y=[row],
            mode="markers",
            showlegend=False,
            marker={
                "color": colour,
                "size": 12,
                "symbol": _SYMBOLS.get(entry.verdict, "circle-open"),
            },
            hovertemplate=f"{in_chart(entry.name)}: %{{x:.3f}} ×<extra>{entry.verdict}</extra>",
        )
    figure.add_vline(x=1, line={"color": NEUTRAL, "width": 1})
    _rows(figure, [entry.name for entry in shown])
    figure.update_xaxes(title_text=f"{board.unit} ÷ those of the baseline", fixedrange=True)
    return finish(figure, height=90 + 44 * len(shown))


def reached(board: Board) -> go.Figure:
    """Draw what each strategy reaches, against the ceiling and what its loader gives alone."""
    figure = go.Figure()
    shown = [entry for entry in board.entries if entry.samples_per_s is not None]
    figure.add_bar(
        x=[entry.samples_per_s for entry in shown],
        y=list(range(len(shown))),
        orientation="h",
        marker={"color": [SIDES[entry is not board.entries[0]] for entry in shown]},
        text=[
            "" if entry.overlap is None else f"overlap {percent(entry.overlap)}" for entry in shown
        ],
        textposition="inside",
        insidetextanchor="start",
        textangle=0,
        textfont={"color": [SIDES_INK[entry is not board.entries[0]] for entry in shown]},
        showlegend=False,
        hovertemplate="%{x:,.0f} " + board.unit + "<extra></extra>",
    )
    for row, entry in enumerate(shown):
        if entry.io_only is not None:
            figure.add_scatter(
                x=[entry.io_only] * 2,
                y=[row - 0.42, row + 0.42],
                mode="lines",
                name="io-only: the loader alone",
                legendgroup="io-only",
                showlegend=row == next(i for i, e in enumerate(shown) if e.io_only is not None),
                line={"color": NEUTRAL, "width": 3, "dash": "dot"},
                hovertemplate=f"io-only {rate(entry.io_only)}<extra></extra>",
            )
    if board.ceiling is not None:
        figure.add_scatter(
            x=[board.ceiling] * 2,
            y=[-0.5, len(shown) - 0.5],
            mode="lines",
            name="ceiling: compute alone",
            line={"color": NEUTRAL, "width": 2, "dash": "dash"},
            hovertemplate=f"ceiling {rate(board.ceiling)}<extra></extra>",
        )
    # Plotly hides a label that does not fit at this size; the table below holds every number.
    figure.update_layout(uniformtext={"minsize": TEXT_PX - 2, "mode": "hide"})
    _rows(figure, [entry.name for entry in shown])
    figure.update_xaxes(title_text=board.unit, rangemode="tozero", fixedrange=True)
    return finish(figure, height=120 + 44 * len(shown))


def _rows(figure: go.Figure, names: list[str]) -> None:
    """Name the rows by position: two strategies may be called alike."""
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=["<br>".join(map(in_chart, wrap(name, _WIDE)[:2])) for name in names],
        range=[len(names) - 0.5, -0.5],
        automargin=True,
        showgrid=False,
        zeroline=False,
        fixedrange=True,
    )
