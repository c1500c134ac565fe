"""What probe says of a recording: queries and insight put together, for every screen alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from probe.insight import queue, series, stages
from probe.insight.board import CEILING, IO_ONLY, Board
from probe.insight.board import board as board_of
from probe.insight.causes.evidence import Evidence, gather
from probe.insight.compare import Comparison, compare
from probe.insight.crowding import crowd
from probe.insight.overlap import Overlap, overlaps
from probe.insight.queue import Queue
from probe.insight.settings import Side
from probe.insight.stages import StageCost
from probe.insight.summary import LoaderSummary, summarize
from probe.insight.verdict import Verdict, judge
from probe.store.queries import Fetches, GpuSamples, Loader, Run, Steps, Store, StoreError


@dataclass(frozen=True, slots=True)
class RunReport:
    """What there is to say of one run.

    `loaders` sum up the loaders of `rows`, in the same order: a run in progress changes from one
    reading to the next, so both come from one. `consumer` is the one that the verdict is about.
    `overlaps` pairs each watched producer with it. `gpu_utilization` is the mean of the first GPU
    that reported any, 0–1, and `overhead_share` what recording cost, as a share of the time that
    the run lasted; None where not measured. `queue` is what lies between the workers and the
    consumer, `stages` what its workers spent by name, if that was recorded.
    """

    run: Run
    rows: list[Loader]
    loaders: list[LoaderSummary]
    consumer: LoaderSummary | None
    verdict: Verdict
    gpu_utilization: float | None
    overhead_share: float | None
    overlaps: list[Overlap]
    queue: Queue | None
    stages: list[StageCost]


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
    lying: Queue | None = None
    recorded: Evidence | None = None
    costs: list[StageCost] = []
    if chosen is not None and steps is not None:
        maker, fetches = _maker(store, run, chosen, [loader for loader, _ in watched])
        lying = queue.examine(maker, steps, fetches)
        recorded = gather(run, maker, steps, fetches, store.host_samples(run.id), lying)
        costs = stages.costs(store.stages(run.id, maker.id), fetches)
    return RunReport(
        run=run,
        rows=[loader for loader, _ in watched],
        loaders=summaries,
        consumer=consumer,
        verdict=judge(consumer, steps, recorded),
        gpu_utilization=_utilization(store.gpu_samples(run.id)),
        overhead_share=series.overhead_share(run),
        overlaps=overlaps(watched),
        queue=lying,
        stages=costs,
    )


def comparison(store: Store, run_a: Run, run_b: Run) -> Comparison:
    """Compare run B with run A, the baseline, by the loaders that their verdicts are about.

    Raises:
        StoreError: A run has no consumer loader.
    """
    return compare(side(store, run_a), side(store, run_b))


def board(store: Store, runs: Sequence[Run]) -> Board:
    """Set the strategies of several runs against that of the first.

    The ceiling and the rates of loaders alone come from runs of the same experiments that are
    tagged `ceiling` and `io-only`.

    Raises:
        StoreError: A run has no consumer loader, or there is nothing beside the first strategy.
    """
    experiments = {run.experiment for run in runs if run.experiment is not None}
    beside = [
        run
        for run in store.runs()
        if run.experiment in experiments and not {CEILING, IO_ONLY}.isdisjoint(run.tags)
    ]
    try:
        return board_of([side(store, run) for run in runs], [side(store, run) for run in beside])
    except ValueError as error:
        raise StoreError(str(error)) from error


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
        "queue": None if found.queue is None else asdict(found.queue),
        "stages": [asdict(cost) for cost in found.stages],
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
        "cause": found.verdict.causes[0].cause if found.verdict.causes else None,
    }


def _maker(store: Store, run: Run, chosen: int, loaders: list[Loader]) -> tuple[Loader, Fetches]:
    """Find the loader that makes the batches: the consumer itself, or one watched inside it."""
    found = loaders[chosen], store.fetches(run.id, loaders[chosen].id)
    producers = [loader for loader in loaders if loader.role == "producer"]
    if len(found[1]) or len(producers) != 1:
        return found
    made = store.fetches(run.id, producers[0].id)
    return (producers[0], made) if len(made) else found


def side(store: Store, run: Run) -> Side:
    """Return a run as a comparison takes it, with the loader that its verdict is about.

    Raises:
        StoreError: The run has no consumer loader.
    """
    watched = [(loader, store.steps(run.id, loader.id)) for loader in store.loaders(run.id)]
    chosen = _consumer(watched)
    if chosen is None:
        raise StoreError(f"run {run.label!r} has no watched loop, so there is nothing to compare")
    return Side(
        run,
        *watched[chosen],
        gpu_utilization=_utilization(store.gpu_samples(run.id)),
        crowd=crowd(store.host_samples(run.id)),
    )


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
