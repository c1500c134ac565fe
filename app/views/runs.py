"""Runs: what have I recorded?"""

from __future__ import annotations

import streamlit as st

import store
import text
from theme import PHASE

FIRST_RUN = """\
import probe

for batch in probe.watch(loader):
    ...  # your training step, as it was"""

runs = store.runs()
live = [run for run in runs if run.status == "running"]

if not runs:
    st.header("Nothing is recorded yet")
    st.write("Put one line around the loader of your training loop, and run it here:")
    st.code(FIRST_RUN, language="python")
    st.write("Or let probe train a small network under several strategies, without a GPU:")
    st.code("probe demo", language="bash")
    st.stop()

st.header("What have I recorded?")
st.caption(
    f"{text.plain(store.recording().path.name)} · {len(runs)} runs"
    + (f" · {len(live)} live" if live else "")
)
hint = st.empty()
reports = [store.run_report(run) for run in runs]
table = {
    "name": [run.label for run in runs],
    "strategy": [run.strategy or "–" for run in runs],
    "status": ["● live" if run.status == "running" else run.status for run in runs],
    "steps": [report.consumer.steps if report.consumer else 0 for report in reports],
    "samples/s": [report.consumer and report.consumer.samples_per_s for report in reports],
    "stall": [
        report.consumer and text.in_percent(report.consumer.stall_share) for report in reports
    ],
    "GPU": [text.in_percent(report.gpu_utilization) for report in reports],
    "verdict": [report.verdict.short for report in reports],
    "started, UTC": [text.moment(run.started_at) for run in runs],
}
chosen = st.dataframe(
    table,
    key="runs",
    hide_index=True,
    on_select="rerun",
    selection_mode="multi-row",
    placeholder=text.NOT_MEASURED,
    alt="One row a run: how it was fed, how fast it ran, how much of its time it waited for data.",
    column_config={
        "name": st.column_config.TextColumn(pinned=True, width=130),
        "steps": st.column_config.NumberColumn(format="localized"),
        "samples/s": st.column_config.NumberColumn(format="%.0f", width=105),
        "stall": st.column_config.ProgressColumn(
            format="%.1f %%",
            min_value=0,
            max_value=100,
            color=PHASE["wait"],
            help="Share of the time in which training waited for data.",
        ),
        "GPU": st.column_config.NumberColumn(
            format="%.0f %%",
            width=105,
            help="Share of the time in which at least one kernel ran, as NVML tells it: coarse.",
        ),
    },
)
selected = [runs[row] for row in chosen.selection.rows]
with hint:
    if not selected:
        st.write("Select one run to open it, two or more to compare them.")
    elif len(selected) == 1:
        st.page_link(
            "views/run.py",
            label=f"Open {text.plain(selected[0].label)}",
            query_params={"run": selected[0].uid},
        )
    else:
        # The oldest is the baseline: people record what they have before they change it.
        oldest_first = sorted(selected, key=lambda run: run.id)
        st.page_link(
            "views/compare.py",
            label="Compare " + ", ".join(text.plain(run.label) for run in oldest_first),
            query_params={"run": [run.uid for run in oldest_first]},
        )
