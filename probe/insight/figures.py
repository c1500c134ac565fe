"""What a comparison shows of each run beside the ratio: rate, stall, percentiles, epoch start."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probe.insight.settings import Side
from probe.insight.summary import Times, summarize
from probe.insight.throughput import per_second, steady_part


@dataclass(frozen=True, slots=True)
class Figures:
    """One run in figures; None where not measured.

    `samples_per_s` is over steady steps, as the ratio of two runs is. Stall share and times are
    those of the run's own report. `gpu_utilization` is 0–1.
    """

    samples_per_s: float | None
    stall_share: float | None
    stall_share_ci: tuple[float, float] | None
    wait_ms: Times
    step_ms: Times
    epoch_start_ms: float | None
    gpu_utilization: float | None


@dataclass(frozen=True, slots=True)
class Reach:
    """How many seconds two runs took until they had trained on so many samples.

    The clock starts when the loop asks for its first batch and does not stop between epochs, so the
    start of workers, warm-up and validation are in it.
    """

    samples: int
    baseline_s: float
    candidate_s: float


def figures(side: Side) -> Figures:
    """Describe a side; `side` holds all of its steps."""
    summary = summarize(side.loader, side.steps)
    steady = steady_part(side)
    units = steady.steps.samples
    return Figures(
        samples_per_s=None if np.isnan(units).any() else per_second(steady, units),
        stall_share=summary.stall_share,
        stall_share_ci=summary.stall_share_ci,
        wait_ms=summary.wait_ms,
        step_ms=summary.step_ms,
        epoch_start_ms=summary.epoch_start_ms,
        gpu_utilization=side.gpu_utilization,
    )


def reach(a: Side, b: Side) -> Reach | None:
    """Time both runs up to the largest number of samples that both have reached.

    Returns:
        None if a batch could not be counted, or a run has no steps.
    """
    counted = a.steps.samples, b.steps.samples
    if not all(len(samples) and not np.isnan(samples).any() for samples in counted):
        return None
    goal = min(float(samples.sum()) for samples in counted)
    return Reach(round(goal), _seconds_to(a, goal), _seconds_to(b, goal)) if goal > 0 else None


def _seconds_to(side: Side, goal: float) -> float:
    steps = side.steps
    last = int(np.searchsorted(np.cumsum(steps.samples), goal))
    return float(steps.start_ns[last] + steps.step_ns[last] - steps.start_ns[0]) / 1e9
