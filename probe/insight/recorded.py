"""What a recorded run says of the work in it, apart from how its batches reached the loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.insight import words
from probe.insight.bootstrap import MIN_STEPS
from probe.insight.machine import QUIET, SATURATED
from probe.insight.pairing import Paired
from probe.insight.pipeline import Handover, Series
from probe.insight.summary import steady
from probe.store.queries import Fetches, Loader, Steps

# A replay takes this many steps of a long run: in whole blocks, so that neighbours stay together,
# from everywhere in the run.
_MOST_STEPS = 1000
_BLOCKS = 8

# Fewer moments than this say nothing of a hand-over.
_FEW = 5

# Nothing takes so many times as long as usual by itself.
_LONGEST = 4.0

# Of the time from a batch made to a batch taken out of the queue, the taker is busy for this part:
# 0.59 to 0.68, measured with one to eight workers and torch's default way of sharing memory.
_RECEIVING = 0.65

# What the same measurements found, for a recording without workers.
_TYPICAL = Handover(between=0.15e-3, transit=0.5e-3, receive=0.9e-3)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run taken apart for replay; times in seconds, arrays of shape (n,), one row a step.

    `fetch_on` is the part of making a batch on a core, `fetch_off` the rest. `loop` is what a step
    takes beside wait and `copy`, and keeps `loop_cores` cores busy. If `runs_ahead`, the host asks
    for batches while the device is still at work, and `loop` is the device's time. If
    `copy_stalls`, the device clock saw that `copy` held the device up. `assumptions` are sentences
    for what was not measured.
    """

    fetch_off: Series
    fetch_on: Series
    loop: Series
    copy: Series
    samples: float
    samples_per_s: float
    handover: Handover
    cores: float
    loop_cores: float
    runs_ahead: bool
    copy_stalls: bool
    num_workers: int
    prefetch_factor: int | None
    in_order: bool
    assumptions: tuple[str, ...]


def recorded_from(
    loader: Loader,
    steps: Steps,
    fetches: Fetches,
    cores: float | None,
    busy_cores: float | None = None,
    other_cores: float | None = None,
) -> Recorded | str:
    """Take a run apart, or say in one sentence why that cannot be.

    Only steady steps count: neither warm-up nor the first step of an epoch. Without workers the
    wait is the fetch, so steps alone are enough.

    Args:
        loader: The loader that the loop reads.
        steps: Its steps.
        fetches: The batches that were made for it; of length 0 if that was not recorded.
        cores: How many cores the process may use; None if not recorded.
        busy_cores: How many cores the process and its children kept busy on average; None if not
            measured.
        other_cores: How many cores other programs kept busy meanwhile; None if not measured.
    """
    if loader.num_workers is None:
        return "This loop does not read a DataLoader, so there are no workers to change."
    paired = Paired.of(loader, steps, fetches)
    if len(fetches):
        counted = np.flatnonzero(steady(steps) & (paired.made >= 0))
    elif loader.num_workers == 0:
        counted = np.flatnonzero(steady(steps))
    else:
        return (
            "The time that workers take for a batch was not recorded in this run: record it again"
            " with this version of probe."
        )
    if paired.is_uneven and not len(counted):
        return (
            "Its workers made unequal numbers of batches, so it is not known which batch came from"
            " which worker: give each worker the same number of batches."
        )
    if len(counted) < MIN_STEPS:
        verb = "is" if len(counted) == 1 else "are"
        return (
            f"It takes {MIN_STEPS} steps after warm-up whose fetch was recorded, and there {verb}"
            f" {words.count(len(counted))}: record a longer run."
        )
    samples = _samples(loader, steps, counted)
    if samples is None:
        return "Neither the size of its batches nor the samples in them were recorded."
    if not samples:
        return "Its batches hold no samples, so there is no rate to predict: watch another loader."
    assumptions: list[str] = []
    off, on = _fetch(steps, fetches, paired, counted, assumptions)
    handover = _handover(loader, steps, fetches, paired, counted)
    if handover is None:
        handover = _TYPICAL
        assumptions.append(
            "Passing a batch from a worker to the loop was not measured and is taken to keep the"
            f" loop busy for {words.ms(_TYPICAL.receive * 1e3)} ms."
        )
    if cores is not None and (other_cores or 0.0) > QUIET * cores:
        assumptions.append(
            f"Other programs kept {other_cores:.1f} of the {cores:g} cores busy while this was"
            " recorded: expect other figures on a quiet machine."
        )
    if cores is None:
        cores = float("inf")
        assumptions.append("The number of cores was not recorded: none are taken to be missing.")
    if busy_cores is not None and busy_cores + (other_cores or 0.0) > SATURATED * cores:
        assumptions.append(
            "The cores were busy while this was recorded: what looks like waiting for storage is"
            " taken to be waiting for a core, as far as the number of workers explains it."
        )
        off = np.maximum(off - on * max(0.0, loader.num_workers / cores - 1), 0.0)
    step = steps.step_ns[counted] / 1e9
    loop, copy, ahead, copy_stalls = _loop(steps, counted)
    kept = _spread(len(counted))
    if not step.sum() or not (off + on + loop + copy)[kept].sum():
        return "Neither its batches nor its steps took any time, so there is nothing to replay."
    passing = handover.between + handover.receive if loader.num_workers else 0.0
    elsewhere = float(on.sum()) + len(on) * passing
    loop_cores = _loop_cores(loop, step, elsewhere, cores, busy_cores, ahead, assumptions)
    return Recorded(
        fetch_off=off[kept],
        fetch_on=on[kept],
        loop=loop[kept],
        copy=copy[kept],
        samples=samples,
        samples_per_s=samples * len(step) / float(step.sum()),
        handover=handover,
        cores=cores,
        loop_cores=loop_cores,
        runs_ahead=ahead,
        copy_stalls=copy_stalls,
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        in_order=loader.in_order is not False,
        assumptions=tuple(assumptions),
    )


def _samples(loader: Loader, steps: Steps, counted: NDArray[np.int64]) -> float | None:
    seen = steps.samples[counted]
    if not np.isnan(seen).any():
        return float(seen.mean())
    return None if loader.batch_size is None else float(loader.batch_size)


def _fetch(
    steps: Steps,
    fetches: Fetches,
    paired: Paired,
    counted: NDArray[np.int64],
    assumptions: list[str],
) -> tuple[Series, Series]:
    """Return what each batch took off and on a core."""
    if len(fetches):
        wall = fetches.wall_ns[paired.made[counted]] / 1e9
        cpu = fetches.cpu_ns[paired.made[counted]] / 1e9
    else:
        wall = steps.wait_ns[counted] / 1e9
        cpu = np.full(len(wall), np.nan)
    if np.isnan(cpu).any():
        assumptions.append(
            "How much of making a batch needs a core was not measured: it is taken to be all."
        )
    cpu = np.where(np.isnan(cpu), wall, np.minimum(cpu, wall))
    return wall - cpu, cpu


def _handover(
    loader: Loader,
    steps: Steps,
    fetches: Fetches,
    paired: Paired,
    counted: NDArray[np.int64],
) -> Handover | None:
    """Find what passing a batch on took, from moments in which nothing else was waited for.

    A batch that came after it was asked for shows the way from worker to loop as a whole; one that
    lay ready, like the one before it, shows what taking it out costs.
    """
    if not loader.num_workers or not loader.prefetch_factor:
        return None
    made = paired.made[counted]
    begin = fetches.start_ns[made].astype(np.float64)
    end = begin + fetches.wall_ns[made]
    asked = steps.start_ns[counted].astype(np.float64)
    wait = steps.wait_ns[counted]
    late = end > asked
    way = _typical((asked + wait - end)[late])
    ready = (steps.ready[counted] > 0) & ~late
    ready[1:] &= ~late[:-1]
    ready[:1] = False
    receive = _typical(wait[ready].astype(np.float64))
    if way is None and receive is None:
        return None
    if receive is None:
        assert way is not None
        receive = _RECEIVING * way
    elif way is None:
        way = receive / _RECEIVING
    receive = min(receive, way)

    known = (paired.before[counted] >= 0) & (paired.freed[counted] >= 0)
    before, freed = paired.before[counted][known], paired.freed[counted][known]
    finished = fetches.start_ns[before] + fetches.wall_ns[before]
    sent = steps.start_ns[freed] + steps.wait_ns[freed]
    between = _typical((begin[known] - finished)[finished > sent])
    return Handover(
        between=_TYPICAL.between if between is None else between / 1e9,
        transit=(way - receive) / 1e9,
        receive=receive / 1e9,
    )


def _typical(durations_ns: NDArray[np.float64]) -> float | None:
    """Average durations; the longest, which waited for something else as well, are cut short."""
    if len(durations_ns) < _FEW:
        return None
    longest = _LONGEST * max(0.0, float(np.median(durations_ns)))
    return float(durations_ns.clip(0.0, longest).mean())


def _loop(steps: Steps, counted: NDArray[np.int64]) -> tuple[Series, Series, bool, bool]:
    """Return the loop's own time, its copies, whether the host ran ahead, whether copies stall."""
    loop = (steps.compute_ns + steps.other_ns)[counted] / 1e9
    copy = steps.copy_ns[counted] / 1e9
    exposed, device = steps.exposed_copy_ns[counted] / 1e9, steps.device_compute_ns[counted] / 1e9
    if np.isnan(device).any() or np.isnan(exposed).any():
        return loop, copy, False, False
    if device.sum() > loop.sum():
        return device, exposed, True, True
    return loop, exposed, False, True


def _loop_cores(
    loop: Series,
    step: Series,
    elsewhere: float,
    cores: float,
    busy_cores: float | None,
    runs_ahead: bool,
    assumptions: list[str],
) -> float:
    """Estimate how many cores the loop keeps busy while it computes.

    It is what is left of the time on all cores when `elsewhere`, the seconds that fetches and
    hand-over spent there, is taken off.
    """
    if runs_ahead or not loop.sum():
        return 0.0
    if busy_cores is None:
        assumptions.append(
            "How many cores the training step needs was not measured: it is taken to be one."
        )
        return 1.0
    left = busy_cores * float(step.sum()) - elsewhere
    return min(max(left, 0.0) / float(loop.sum()), cores)


def _spread(count: int) -> NDArray[np.int64]:
    """Choose the rows that are replayed."""
    if count <= _MOST_STEPS:
        return np.arange(count)
    length = _MOST_STEPS // _BLOCKS
    starts = np.linspace(0, count - length, _BLOCKS).astype(np.int64)
    return (starts[:, None] + np.arange(length)).ravel()
