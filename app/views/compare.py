"""Compare: did it help?"""

from __future__ import annotations

import streamlit as st

import charts
import charts_compare
import store
import text
from probe import tables
from probe.insight import series
from probe.insight.board import Board
from probe.insight.compare import Comparison
from probe.insight.summary import PHASES
from probe.store.queries import Run, StoreError
from probe.tables import Table

MS = st.column_config.NumberColumn(format="%.2f")


def pick_runs(runs: list[Run]) -> list[Run]:
    """Let the reader choose two or more; the link says what is chosen."""
    by_uid = {run.uid: run for run in runs}

    def follow() -> None:
        # Nothing chosen is a choice too: then the two newest are not proposed again.
        st.query_params["run"] = st.session_state.compared or [""]

    named = st.query_params.get_all("run")
    if not named:
        # The older of the two is the baseline: people record what they have before they change it.
        named = [run.uid for run in sorted(runs[:2], key=lambda run: (run.started_at, run.id))]
    current = []
    for reference in filter(None, named):
        try:
            current.append(store.find(reference).uid)
        except StoreError as error:
            st.warning(text.sentence(error))
    st.session_state.compared = list(dict.fromkeys(current))
    st.multiselect(
        "Runs; the first is the baseline",
        list(by_uid),
        format_func=lambda uid: text.run_choice(by_uid[uid]),
        key="compared",
        on_change=follow,
        placeholder="Choose two or more",
    )
    return [by_uid[uid] for uid in st.session_state.compared]


def show_table(table: Table, key: str, alt: str) -> None:
    """Show a table of text; two runs may have one name, so columns are told apart by position."""
    names = [f"{i}" for i in range(len(table.head))]
    st.dataframe(
        {name: [row[i] for row in table.rows] for i, name in enumerate(names)},
        key=key,
        hide_index=True,
        height="content",
        alt=alt,
        column_config={
            name: st.column_config.TextColumn(
                head or " ", pinned=i == 0, alignment="right" if i >= table.numbers_from else "left"
            )
            for i, (name, head) in enumerate(zip(names, table.head, strict=True))
        },
    )


def show_waterfall(comparison: Comparison) -> None:
    """Account for the difference between two mean steps, phase by phase."""
    stairs = series.staircase(comparison.baseline_ms, comparison.phases_ms_delta)
    if stairs is None:
        return
    st.subheader("Where the time of a step went")
    st.plotly_chart(
        charts.waterfall(comparison.baseline, comparison.candidate, stairs),
        key="waterfall",
        config=charts.STILL,
        alt=f"From {text.ms(stairs.first)} to {text.ms(stairs.last)} a step: "
        + ", ".join(f"{phase} {text.signed_ms(stairs.changes[phase])}" for phase in PHASES),
    )
    with st.expander("What is shown, as a table"):
        st.caption("Means per step in ms, without warm-up and the first step of each epoch.")
        alt = "Each phase of the mean step in both runs, and its change"
        show_table(tables.changes(comparison), "changes", alt)


def show_steps(comparison: Comparison, runs: list[Run]) -> None:
    """Lay the distributions and the steps of both runs over each other."""
    names = (comparison.baseline, comparison.candidate)
    steps = [store.steps(run, store.consumer(run)) for run in runs]
    if not all(series.waits(each).size for each in steps):
        return
    for what, durations in (("wait", series.waits), ("step", series.durations)):
        st.subheader(f"How long a {what} is")
        both = {
            name: series.distribution(durations(each))
            for name, each in zip(names, steps, strict=True)
        }
        st.plotly_chart(
            charts_compare.distributions(what, both),
            key=f"distribution_{what}",
            config=charts.STILL,
            alt=f"Share of steps whose {what} is at most so many milliseconds, for both runs",
        )
    st.subheader("Steps from steady state on")
    laid = {name: series.from_steady_state(each) for name, each in zip(names, steps, strict=True)}
    st.plotly_chart(
        charts_compare.overlaid(laid),
        key="overlaid",
        config=charts.STILL,
        alt="Milliseconds a step of both runs, numbered from the first step past warm-up",
    )


def show_two(comparison: Comparison, runs: list[Run]) -> None:
    """Say whether it helped, what speaks against relying on that, and show the evidence."""
    st.header(text.plain(comparison.sentence))
    for warning in comparison.warnings:
        st.warning(text.plain(warning))
    show_waterfall(comparison)
    show_steps(comparison, runs)
    st.subheader("Both runs in figures")
    alt = "Rate, stall, percentiles of wait and step, and start of epochs of both runs"
    show_table(tables.figures(comparison), "figures", alt)
    st.subheader("Settings that differ")
    if comparison.differs:
        alt = "Each setting that differs, with its value in both runs"
        show_table(tables.differences(comparison), "differs", alt)
    else:
        st.write("None that was recorded.")
    if comparison.alike:
        st.caption(f"The same in both: {', '.join(comparison.alike)}.")


def show_board(board: Board) -> None:
    """Set all strategies against the first."""
    st.header(text.plain(board.sentence))
    st.subheader("How much faster than the baseline")
    st.plotly_chart(
        charts_compare.forest(board),
        key="forest",
        config=charts.STILL,
        alt="Rate of each strategy divided by that of the baseline, with its interval",
    )
    st.caption(
        "Bars are 95 % intervals, rings are single runs. Grey is what is not shown to differ from"
        " the baseline."
    )
    st.subheader("How much of what is possible")
    st.plotly_chart(
        charts_compare.reached(board),
        key="reached",
        config=charts.STILL,
        alt="Rate of each strategy, beside the ceiling and the rate of its loader alone",
    )
    if board.ceiling is None:
        st.caption("The ceiling was not measured: `probe race` measures it.")
    show_table(tables.board(board), "board", "Each strategy in figures; the first is the baseline")
    for note in board.notes:
        st.caption(text.plain(note))


runs = pick_runs(store.runs())
if len(runs) < 2:
    st.header("Did the change help?")
    st.write("Choose the run from before the change, then the run with it. More can follow.")
elif len(runs) == 2:
    show_two(store.comparison(*runs), runs)
else:
    show_board(store.board(runs))
