"""What the steps of one loader add up to: shares, percentiles, intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.insight.bootstrap import ratio_interval
from probe.store.queries import Loader, Steps

WARM_UP_STEPS = 20
PHASES = ("wait", "copy", "compute", "other")


@dataclass(frozen=True, slots=True)
class Times:
    """The distribution of one phase over the steps, in ms; None where there is nothing to say.

    `total` counts every step. The rest leaves out the first step of each epoch, whose wait holds
    worker start-up.
    """

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None
    total: float


@dataclass(frozen=True, slots=True)
class LoaderSummary:
    """What the report says of one loader; see `summarize` for what counts."""

    name: str
    role: str
    steps: int
    samples_per_s: float | None
    stall_share: float | None
    stall_share_ci: tuple[float, float] | None
    stall_clock: str
    wait_ms: Times
    copy_ms: Times
    compute_ms: Times
    other_ms: Times
    step_ms: Times
    epoch_start_ms: float | None


def after_warm_up(steps: Steps, warm_up: int = WARM_UP_STEPS) -> NDArray[np.bool_]:
    """Mark the steps that count for the verdict: all but the first `warm_up`. Shape (n,)."""
    return np.arange(len(steps)) >= warm_up


def steady(steps: Steps, warm_up: int = WARM_UP_STEPS) -> NDArray[np.bool_]:
    """Mark the steps that comparisons use: after warm-up and not the first of an epoch."""
    return after_warm_up(steps, warm_up) & ~steps.epoch_start


def only(steps: Steps, marked: NDArray[np.bool_]) -> Steps:
    """Return the marked steps, in order."""
    return Steps(**{name: getattr(steps, name)[marked] for name in Steps.__slots__})


def summarize(loader: Loader, steps: Steps, warm_up: int = WARM_UP_STEPS) -> LoaderSummary:
    """Sum up one loader.

    The stall share is Σ stall / Σ step over the steps after warm-up, epoch starts included, with a
    95 % interval from a block bootstrap. Samples/s divides by the wall time of the same steps and
    is None if any of their batches could not be counted.

    Args:
        loader: The loader's row.
        steps: Its steps.
        warm_up: How many steps at the start do not count for share and rate.
    """
    counted = after_warm_up(steps, warm_up)
    wall_ns = int(steps.step_ns[counted].sum())
    samples = steps.samples[counted]
    share, interval = None, None
    if wall_ns:
        share = float(steps.stall_ns[counted].sum()) / wall_ns
        interval = _within_0_1(ratio_interval(steps.stall_ns[counted], steps.step_ns[counted]))
    rate = None
    if wall_ns and not np.isnan(samples).any():
        rate = float(samples.sum()) / (wall_ns / 1e9)
    starts = steps.wait_ns[steps.epoch_start]
    return LoaderSummary(
        name=loader.name,
        role=loader.role,
        steps=len(steps),
        samples_per_s=rate,
        stall_share=share,
        stall_share_ci=interval,
        stall_clock="host" if np.isnan(steps.exposed_wait_ns).all() else "device",
        wait_ms=_times(steps.wait_ns, steps),
        copy_ms=_times(steps.copy_ns, steps),
        compute_ms=_times(steps.compute_ns, steps),
        other_ms=_times(steps.other_ns, steps),
        step_ms=_times(steps.step_ns, steps),
        epoch_start_ms=float(starts.mean()) / 1e6 if len(starts) else None,
    )


def _within_0_1(interval: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if interval is None else (max(interval[0], 0.0), min(interval[1], 1.0))


def _times(values_ns: NDArray[np.int64], steps: Steps) -> Times:
    total = float(values_ns.sum()) / 1e6
    inner = values_ns[~steps.epoch_start] / 1e6
    if not len(inner):
        return Times(None, None, None, None, None, total)
    p50, p95, p99 = (float(value) for value in np.percentile(inner, (50, 95, 99)))
    return Times(float(inner.mean()), p50, p95, p99, float(inner.max()), total)
