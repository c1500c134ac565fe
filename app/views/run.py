"""Run: is my GPU waiting for data?"""

from __future__ import annotations

import streamlit as st

import charts
import store
import text
from pick import pick_run
from probe.insight import series
from probe.insight.causes import Cause
from probe.insight.summary import LoaderSummary
from probe.store.queries import Loader, Run, Steps

MS = st.column_config.NumberColumn(format="%.2f")
PERCENT = st.column_config.NumberColumn(format="%.1f %%")


def pick_loader(loaders: list[Loader], consumer: LoaderSummary) -> Loader:
    """Return the loader that the verdict is about, or another one of the reader's choice."""
    labels = {
        loader.name if loader.role == "consumer" else f"{loader.name} ({loader.role})": loader
        for loader in loaders
    }
    if len(labels) == 1:
        return loaders[0]
    chosen = st.selectbox(
        "Loader in the charts",
        list(labels),
        index=list(labels).index(consumer.name),
        key="loader",
        bind="query-params",
        width=320,
    )
    return labels[chosen]


def show_causes(causes: list[Cause]) -> None:
    st.subheader("Why, and what to change")
    for rank, cause in enumerate(causes, 1):
        title = text.plain(f"{cause.title[:1].upper()}{cause.title[1:]}")
        share = text.plain(f"{text.percent(cause.share)} of the stall")
        advice = text.plain(cause.advice)
        for setting in cause.settings:
            advice = advice.replace(text.plain(setting), f"`{setting}`")
        st.markdown(
            f"{rank}. **{title}**: {share}, confidence {cause.confidence}\n"
            f"    - {text.plain(cause.evidence)}\n"
            f"    - {advice}"
        )


def show_median_step(steps: Steps) -> None:
    st.subheader("How the median step spends its time")
    phases = series.median_step(steps)
    if phases is None:
        st.write("There are too few steps to say: the first 20 are warm-up and do not count.")
        return
    shares = series.shares(phases)
    st.plotly_chart(
        charts.step_bar(phases, shares),
        key="median_step",
        config=charts.STILL,
        alt="The median step as a bar of 100 %: "
        + ", ".join(f"{name} {text.percent(share)}" for name, share in shares.items()),
    )
    with st.expander("What is shown, as a table"):
        st.caption("Means over the middle tenth of the steps, ordered by how long they took.")
        st.dataframe(
            {
                "phase": list(phases),
                "ms": list(phases.values()),
                "share": [text.in_percent(share) for share in shares.values()],
            },
            hide_index=True,
            key="median_step_table",
            column_config={"ms": MS, "share": PERCENT},
            alt="Each phase of the median step",
        )


def show_timeline(run: Run, steps: Steps) -> None:
    st.subheader("Steps over time")
    hardware = store.hardware(run)
    buckets = series.bucketed(steps)
    top_ms = series.axis_top_ms(buckets)
    cpu = series.sampled(hardware.host.time_ns, hardware.host.cpu)
    measured = [series.sampled(gpu.time_ns, gpu.utilization) for gpu in hardware.gpus]
    gpu = next((samples for samples in measured if samples), None)
    st.plotly_chart(
        charts.timeline(buckets, top_ms, gpu, cpu),
        key="timeline",
        config=charts.STILL,
        alt="Milliseconds a step over the seconds of the run, stacked from compute to wait; below, "
        "on the same axis, GPU and CPU utilisation where they were measured.",
    )
    longest_ms = max(buckets.longest_ms, default=0.0)
    if longest_ms > top_ms:
        st.caption(
            f"The axis ends at {text.ms(top_ms)}; the longest step took {text.ms(longest_ms)}."
        )
    if gpu is None:
        reason = "the GPU does not report it" if hardware.gpus else "no NVIDIA GPU"
        st.write(f"GPU utilisation: {text.NOT_MEASURED}, {reason}.")
    else:
        st.caption(
            "GPU utilisation is the share of time in which at least one kernel ran, as NVML tells "
            "it up to six times a second: coarse evidence."
        )
    if cpu is None:
        st.write(f"CPU utilisation: {text.NOT_MEASURED}.")
    with st.expander("What is shown, as a table"):
        st.dataframe(
            {
                "from, s": buckets.start_s,
                "steps": buckets.steps,
                "compute, ms": buckets.compute_ms,
                "other, ms": buckets.other_ms,
                "copy, ms": buckets.copy_ms,
                "wait, ms": buckets.wait_ms,
                "longest step, ms": buckets.longest_ms,
            },
            hide_index=True,
            key="timeline_table",
            column_config=dict.fromkeys(
                ("compute, ms", "other, ms", "copy, ms", "wait, ms", "longest step, ms"), MS
            ),
            alt="Mean milliseconds a step in each bar of the chart",
        )


def show_waits(steps: Steps, summary: LoaderSummary) -> None:
    st.subheader("How long the loop waits for a batch")
    marks = {
        name: at_ms
        for name in ("p50", "p95", "p99")
        if (at_ms := getattr(summary.wait_ms, name)) is not None
    }
    if not marks:
        st.write("Nothing to show yet: the first step of an epoch is kept apart.")
        return
    st.plotly_chart(
        charts.wait_distribution(series.distribution(series.waits(steps)), marks),
        key="waits",
        config=charts.STILL,
        alt="Share of steps whose wait is at most so many milliseconds; "
        + ", ".join(f"{name} {text.ms(at_ms)}" for name, at_ms in marks.items()),
    )
    with st.expander("What is shown, as a table"):
        phases = ("wait", "copy", "compute", "other", "step")
        times = [getattr(summary, f"{phase}_ms") for phase in phases]
        st.caption("In ms, without the first step of each epoch.")
        st.dataframe(
            {"phase": phases}
            | {
                column: [getattr(row, column) for row in times]
                for column in ("mean", "p50", "p95", "p99", "max")
            },
            hide_index=True,
            key="waits_table",
            column_config=dict.fromkeys(("mean", "p50", "p95", "p99", "max"), MS),
            alt="Mean and percentiles of each phase",
        )


def show_epochs(steps: Steps) -> None:
    st.subheader("Epochs")
    epochs = series.by_epoch(steps)
    st.dataframe(
        {
            "epoch": [epoch.epoch for epoch in epochs],
            "start-up, ms": [epoch.start_up_ms for epoch in epochs],
            "steps": [epoch.steps for epoch in epochs],
            "samples/s": [epoch.samples_per_s for epoch in epochs],
            "stall": [text.in_percent(epoch.stall_share) for epoch in epochs],
        },
        hide_index=True,
        key="epochs",
        placeholder=text.NOT_MEASURED,
        column_config={
            "start-up, ms": MS,
            "samples/s": st.column_config.NumberColumn(format="%.0f"),
            "stall": PERCENT,
        },
        alt="Start-up time, steps, rate and stall of each epoch",
    )
    st.caption("Start-up is the wait of an epoch's first step, which holds the start of workers.")


def show_configuration(run: Run, loader: Loader, cost: float | None) -> None:
    st.subheader("Configuration")
    settings = {
        "loader": " around ".join(loader.chain),
        "dataset": loader.dataset,
        "batch size": loader.batch_size,
        "workers": loader.num_workers,
        "prefetch factor": loader.prefetch_factor,
        "pinned memory": loader.pin_memory,
        "persistent workers": loader.persistent_workers,
        "start method": loader.start_method,
        "batches in order": loader.in_order,
        "device": run.device,
        "driver": run.driver,
        "torch": run.torch,
        "python": run.python,
        "host": run.host,
        "command": run.command,
        "git commit": run.git_commit,
        **run.config,
        "probe": run.probe_version,
        "what probe cost": text.percent(cost),
    }
    recorded = {name: value for name, value in settings.items() if value is not None}
    st.dataframe(
        {
            "setting": list(recorded),
            "value": [text.setting(value) for value in recorded.values()],
        },
        hide_index=True,
        height="content",
        key="configuration",
        alt="What the run was started with",
    )


runs = store.runs()
if not runs:
    st.write("Nothing is recorded yet. The page *Runs* shows the first three lines.")
    st.stop()
run = pick_run(runs)
report = store.run_report(run)
st.header(text.plain(report.verdict.sentence))
evidence = [*report.verdict.evidence, *(pair.sentence for pair in report.overlaps)]
if report.queue is not None and report.queue.sentence:
    evidence.append(report.queue.sentence)
evidence += [cost.sentence for cost in report.stages]
st.markdown("\n".join(f"- {text.plain(line)}" for line in evidence))
if report.verdict.causes:
    show_causes(report.verdict.causes)
st.caption(text.plain(text.run_line(run)))
if run.notes:
    st.write(text.plain(run.notes))
if run.dropped:
    st.warning(f"{run.dropped:,} steps were measured but could not be written: they are missing.")
if report.consumer is None:
    st.stop()
loader = pick_loader(report.rows, report.consumer)
steps = store.steps(run, loader)
show_median_step(steps)
show_timeline(run, steps)
show_waits(steps, report.loaders[report.rows.index(loader)])
show_epochs(steps)
show_configuration(run, loader, report.overhead_share)
