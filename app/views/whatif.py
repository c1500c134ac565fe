"""What if: what should I change?"""

from __future__ import annotations

import streamlit as st

import charts
import charts_whatif
import store
import text
from pick import pick_run
from probe.forecast import Forecast, Replay
from probe.insight.whatif import LEAST_CORES, MOST_CORES, describe
from probe.store.queries import Run

MOST_WORKERS = 32
PREFETCH_FACTORS = [1, 2, 4, 8]
MOST_SAMPLES = 1_000_000


def ask(run: Run, replay: Replay) -> Forecast:
    """Let the reader choose what to change; the link keeps the choice."""
    first, second, third = st.columns(3, gap="medium")
    with first:
        fewest, most = st.slider(
            "Workers", 0, MOST_WORKERS, (0, 8), key="workers", bind="query-params"
        )
        factors = st.pills(
            "Prefetch factor",
            PREFETCH_FACTORS,
            selection_mode="multi",
            default=[2, 4],
            key="prefetch_factor",
            bind="query-params",
            help="Batches that each worker makes ahead.",
        )
    with second:
        storage = st.number_input(
            "Storage time ×",
            min_value=0.0,
            max_value=10.0,
            value=1.0,
            step=0.25,
            key="storage",
            bind="query-params",
            help="What a fetch spends off the core, as a multiple: 0.25 is storage 4 × as fast.",
        )
        batch_size = st.number_input(
            "Samples per batch",
            min_value=1,
            max_value=max(MOST_SAMPLES, replay.batch_size),
            value=replay.batch_size,
            key="batch",
            bind="query-params",
        )
    with third:
        cores = st.number_input(
            "Cores",
            min_value=min(LEAST_CORES, replay.cores or LEAST_CORES),
            max_value=max(MOST_CORES, replay.cores or MOST_CORES),
            value=replay.cores,
            step=1.0,
            key="cores",
            bind="query-params",
            placeholder="not recorded: no limit",
        )
        side_stream = st.toggle(
            "Pinned memory and side stream",
            key="side_stream",
            bind="query-params",
            help="Copies run while the device computes.",
        )
        thread = st.toggle(
            "Background thread",
            key="background",
            bind="query-params",
            help="A thread takes one batch over ahead of the loop.",
        )
    return store.forecast(
        run,
        workers=tuple(range(fewest, most + 1)),
        prefetch_factors=tuple(factors or [2]),  # with none chosen, DataLoader's own
        storage=storage,
        batch_size=batch_size,
        background=int(thread),
        side_stream=side_stream,
        cores=cores,
    )


def show_predictions(forecast: Forecast) -> None:
    found, best = forecast.predicted, forecast.predicted.recommended
    ends = ", ".join(
        f"{describe(point.num_workers, point.prefetch_factor)} {text.rate(point.samples_per_s)}"
        for point in (found.points[0], found.points[-1])
    )
    st.plotly_chart(
        charts_whatif.predictions(found, forecast.measured),
        key="predictions",
        config=charts.STILL,
        alt=f"Predicted samples/s against the number of workers: {ends}; smallest setting that is "
        f"enough: {describe(best.num_workers, best.prefetch_factor)} "
        f"{text.rate(best.samples_per_s)}; ceiling {text.rate(found.ceiling)}.",
    )
    st.caption(
        "Band: 95 % interval from how much the recorded steps vary. Dots: runs of the same work. "
        "Dashed: a loop that never waits."
    )
    with st.expander("What is shown, as a table"):
        intervals = [point.samples_per_s_ci for point in found.points]
        st.dataframe(
            {
                "workers": [point.num_workers for point in found.points],
                "prefetch factor": [point.prefetch_factor for point in found.points],
                "samples/s": [point.samples_per_s for point in found.points],
                "95 % from": [interval and interval[0] for interval in intervals],
                "95 % to": [interval and interval[1] for interval in intervals],
                "stall": [text.in_percent(point.stall_share) for point in found.points],
            },
            hide_index=True,
            key="predictions_table",
            placeholder="–",
            alt="Predicted rate and stall of each setting",
            column_config={
                **dict.fromkeys(
                    ("samples/s", "95 % from", "95 % to"),
                    st.column_config.NumberColumn(format="%.0f"),
                ),
                "stall": st.column_config.NumberColumn(format="%.1f %%"),
            },
        )


def show_calibration(forecast: Forecast) -> None:
    st.subheader("How good were earlier predictions?")
    st.write(text.plain(forecast.calibration.sentence))
    checks = forecast.calibration.checks
    if not checks:
        return
    with st.expander("Predicted against measured"):
        st.dataframe(
            {
                "predicted from": [check.earlier for check in checks],
                "measured in": [check.later for check in checks],
                "workers": [check.num_workers for check in checks],
                "prefetch factor": [check.prefetch_factor for check in checks],
                "predicted": [check.predicted for check in checks],
                "measured": [check.measured for check in checks],
                "error": [text.in_percent(check.error) for check in checks],
            },
            hide_index=True,
            key="calibration",
            placeholder="–",
            alt="Samples/s that an earlier run predicted for a later one, and what was measured",
            column_config={
                **dict.fromkeys(
                    ("predicted", "measured"), st.column_config.NumberColumn(format="%.0f")
                ),
                "error": st.column_config.NumberColumn(format="%+.1f %%"),
            },
        )


runs = store.runs()
if not runs:
    st.write("Nothing is recorded yet. The page *Runs* shows the first three lines.")
    st.stop()
run = pick_run(runs)
headline = st.empty()
try:
    forecast = ask(run, store.replay(run))
except ValueError as error:
    st.error(text.sentence(error))
    st.stop()
headline.header(text.plain(forecast.predicted.sentence))
show_predictions(forecast)
for assumption in forecast.predicted.assumptions:
    st.caption(text.plain(assumption))
show_calibration(forecast)
