"""What probe says of a recording: queries and insight put together, for every screen alike."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from probe.insight import series
from probe.insight.compare import Comparison, compare
from probe.insight.overlap import Overlap, overlaps
from probe.insight.settings import Side
from probe.insight.summary import LoaderSummary, summarize
from probe.insight.verdict import Verdict, judge
from probe.store.queries import GpuSamples, Loader, Run, Steps, Store, StoreError


@dataclass(frozen=True, slots=True)
class RunReport:
    """What there is to say of one run.

    `loaders` come in the order of `Store.loaders`. `consumer` is the one that the verdict is about.
    `overlaps` pairs each watched producer with it. `gpu_utilization` is the mean of the first GPU
    that reported any, 0–1, and `overhead_share`
    what recording cost, as a share of the consumer's steps; None where not measured.
    """

    run: Run
    loaders: list[LoaderSummary]
    consumer: LoaderSummary | None
    verdict: Verdict
    gpu_utilization: float | None
    overhead_share: float | None
    overlaps: list[Overlap]


def report(store: Store, run: Run) -> RunReport:
    """Report on one run.

    The verdict is about the consumer loader named `train`, else about the consumer whose steps
    took the longest in total.
    """
    watched = [(loader, store.steps(run.id, loader.id)) for loader in store.loaders(run.id)]
    summaries = [summarize(loader, steps) for loader, steps in watched]
    chosen = _consumer(watched)
    consumer = None if chosen is None else summaries[chosen]
    steps = None if chosen is None else watched[chosen][1]
    return RunReport(
        run=run,
        loaders=summaries,
        consumer=consumer,
        verdict=judge(consumer, steps),
        gpu_utilization=_utilization(store.gpu_samples(run.id)),
        overhead_share=None if steps is None else series.overhead_share(run.overhead_ns, steps),
        overlaps=overlaps(watched),
    )


def comparison(store: Store, run_a: Run, run_b: Run) -> Comparison:
    """Compare run B with run A, the baseline, by the loaders that their verdicts are about.

    Raises:
        StoreError: A run has no consumer loader.
    """
    return compare(_side(store, run_a), _side(store, run_b))


def runs_table(store: Store) -> list[dict[str, Any]]:
    """Return what `probe runs --json` prints: a row a run, the newest first."""
    return [_table_row(report(store, run)) for run in store.runs()]


def to_json(found: RunReport) -> dict[str, Any]:
    """Return what `probe show --json` prints."""
    verdict = asdict(found.verdict)
    verdict["class"] = verdict.pop("class_")
    return {
        "run": asdict(found.run),
        "loaders": [asdict(summary) for summary in found.loaders],
        "consumer": None if found.consumer is None else found.consumer.name,
        "verdict": verdict,
        "gpu_utilization": found.gpu_utilization,
        "overhead_share": found.overhead_share,
        "overlaps": [asdict(pair) for pair in found.overlaps],
    }


def _table_row(found: RunReport) -> dict[str, Any]:
    consumer = found.consumer
    return {
        **asdict(found.run),
        "steps": consumer.steps if consumer else 0,
        "samples_per_s": consumer.samples_per_s if consumer else None,
        "stall_share": consumer.stall_share if consumer else None,
        "gpu_utilization": found.gpu_utilization,
        "class": found.verdict.class_,
    }


def _side(store: Store, run: Run) -> Side:
    watched = [(loader, store.steps(run.id, loader.id)) for loader in store.loaders(run.id)]
    chosen = _consumer(watched)
    if chosen is None:
        raise StoreError(f"run {run.label!r} has no watched loop, so there is nothing to compare")
    return Side(run, *watched[chosen])


def _consumer(watched: list[tuple[Loader, Steps]]) -> int | None:
    consumers = [i for i, (loader, _) in enumerate(watched) if loader.role == "consumer"]
    return max(
        consumers,
        key=lambda i: (watched[i][0].name == "train", int(watched[i][1].step_ns.sum())),
        default=None,
    )


def _utilization(gpus: list[GpuSamples]) -> float | None:
    for gpu in gpus:
        if not np.isnan(gpu.utilization).all():
            return float(np.nanmean(gpu.utilization))
    return None
