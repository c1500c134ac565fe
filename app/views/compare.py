"""Compare: did it help?"""

from __future__ import annotations

import streamlit as st

import charts
import store
import text
from probe.insight import series
from probe.insight.compare import Comparison
from probe.store.queries import Run, StoreError

MS = st.column_config.NumberColumn(format="%.2f")
SIGNED_MS = st.column_config.NumberColumn(format="%+.2f")


def pick_runs(runs: list[Run]) -> list[Run]:
    """Let the reader choose two or more; the link says what is chosen."""
    by_uid = {run.uid: run for run in runs}

    def follow() -> None:
        st.query_params["run"] = st.session_state.compared

    current = []
    for reference in st.query_params.get_all("run"):
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


def show_throughput(runs: list[Run], comparisons: list[Comparison]) -> None:
    """Set each run against the baseline, in one table."""
    reports = [store.run_report(run) for run in runs]
    intervals = [comparison.throughput_ci for comparison in comparisons]
    st.dataframe(
        {
            "run": [run.label for run in runs],
            "verdict": ["baseline", *(comparison.verdict for comparison in comparisons)],
            "samples/s": [report.consumer and report.consumer.samples_per_s for report in reports],
            "× baseline": [1.0, *(comparison.throughput_ratio for comparison in comparisons)],
            "95 % from": [None, *(interval and interval[0] for interval in intervals)],
            "95 % to": [None, *(interval and interval[1] for interval in intervals)],
            "Δ step, ms": [None, *(comparison.step_ms_delta for comparison in comparisons)],
            "stall": [
                report.consumer and text.in_percent(report.consumer.stall_share)
                for report in reports
            ],
            "strategy": [run.strategy or "–" for run in runs],
        },
        key="throughput",
        hide_index=True,
        placeholder="–",
        alt="Throughput of each run, and its ratio to the baseline with a 95 % interval",
        column_config={
            "run": st.column_config.TextColumn(pinned=True, width=130),
            "samples/s": st.column_config.NumberColumn(format="%.0f"),
            "× baseline": st.column_config.NumberColumn(format="%.2f"),
            "95 % from": st.column_config.NumberColumn(format="%.2f"),
            "95 % to": st.column_config.NumberColumn(format="%.2f"),
            "Δ step, ms": st.column_config.NumberColumn(format="%+.2f"),
            "stall": st.column_config.NumberColumn(format="%.1f %%"),
        },
    )


def show_verdict(comparison: Comparison) -> None:
    """Say whether it helped, and what speaks against relying on that."""
    st.header(text.plain(comparison.sentence))
    for warning in comparison.warnings:
        st.warning(text.plain(warning))


def show_waterfall(comparison: Comparison, key: str) -> None:
    """Account for the difference between two mean steps, phase by phase."""
    before, after = comparison.baseline_ms, comparison.candidate_ms
    stairs = series.staircase(before, comparison.phases_ms_delta)
    if stairs is None:
        return
    changes = stairs.changes
    st.subheader("Where the time of a step went")
    st.plotly_chart(
        charts.waterfall(comparison.baseline, comparison.candidate, stairs),
        key=f"waterfall_{key}",
        config=charts.STILL,
        alt=f"From {text.ms(stairs.first)} to {text.ms(stairs.last)} a step: "
        + ", ".join(f"{phase} {text.signed_ms(change)}" for phase, change in changes.items()),
    )
    with st.expander("What is shown, as a table"):
        st.caption("Means per step in ms, without warm-up and the first step of each epoch.")
        intervals = [comparison.phases_ms_ci[phase] for phase in changes]
        st.dataframe(
            {
                "phase": list(changes),
                "baseline": [before[phase] for phase in changes],
                "candidate": [after[phase] for phase in changes],
                "change": list(changes.values()),
                "95 % from": [interval and interval[0] for interval in intervals],
                "95 % to": [interval and interval[1] for interval in intervals],
            },
            hide_index=True,
            key=f"waterfall_table_{key}",
            placeholder="–",
            alt="Each phase of the mean step in both runs, and its change",
            column_config={
                **dict.fromkeys(("baseline", "candidate"), MS),
                **dict.fromkeys(("change", "95 % from", "95 % to"), SIGNED_MS),
            },
        )


def show_settings(comparison: Comparison, key: str) -> None:
    """List the settings that could explain the difference."""
    st.subheader("Settings that differ")
    if not comparison.differs:
        st.write("None that was recorded.")
        return
    st.dataframe(
        {
            "setting": [difference.setting for difference in comparison.differs],
            "a": [text.setting(difference.a) for difference in comparison.differs],
            "b": [text.setting(difference.b) for difference in comparison.differs],
        },
        hide_index=True,
        key=f"differs_{key}",
        alt="Each setting that differs, with its value in both runs",
        column_config={"a": comparison.baseline, "b": comparison.candidate},
    )


runs = pick_runs(store.runs())
if len(runs) < 2:
    st.header("Did the change help?")
    st.write("Choose the run from before the change, then the run with it. More can follow.")
    st.stop()
comparisons = [store.comparison(runs[0], run) for run in runs[1:]]
if len(runs) == 2:
    show_verdict(comparisons[0])
    show_throughput(runs, comparisons)
    show_waterfall(comparisons[0], runs[1].uid)
    show_settings(comparisons[0], runs[1].uid)
else:
    st.header("Did the changes help?")
    show_throughput(runs, comparisons)
    tabs = st.tabs([text.plain(comparison.candidate) for comparison in comparisons])
    for tab, run, comparison in zip(tabs, runs[1:], comparisons, strict=True):
        with tab:
            show_verdict(comparison)
            show_waterfall(comparison, run.uid)
            show_settings(comparison, run.uid)
