"""How many workers a loop needs, what keeps them from helping, and what they would bring."""

from __future__ import annotations

import math
from dataclasses import dataclass

from probe.insight.causes.evidence import Evidence, Fetch
from probe.insight.whatif import Setting, predict

# What torch takes when none is given.
_PREFETCH_FACTOR = 2
# Beyond this many the memory and the start of the workers are what matters.
_MOST_WORKERS = 64
# A worker is not asked for to gain the last few percent.
_TOLERANCE = 0.02
# Nor to take away less than this share of the wait.
_TOO_LITTLE = 0.1
# What a busy machine leaves to one of two programs.
_FAIR = 0.5
# How far predictions were off in the sweep of docs/accuracy.md, in the median.
_MODEL_ERROR = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of the DataLoader's settings, and the speed-up that it would bring.

    `enough` is False if the loop would still wait with it.
    """

    setting: str
    workers: int
    now: str
    gain: tuple[float, float]
    enough: bool


def needed(evidence: Evidence, fetch: Fetch) -> int:
    """Count the workers with which batches come as fast as the loop takes them.

    That is ceil(mean fetch ÷ mean consumer period), were there cores for all of them.
    """
    return workers_for(evidence, fetch.wall_ns)


def workers_for(evidence: Evidence, fetch_ns: float) -> int:
    """Count the workers that keep up with the loop if a batch takes them `fetch_ns`; at least 1."""
    return max(1, math.ceil(fetch_ns / max(evidence.period_ns, 1.0) - _TOLERANCE))


def core_limit_ns(evidence: Evidence, fetch: Fetch) -> float | None:
    """Give the shortest step that the cores allow, however many workers there are.

    A step's work on the cores stays the same, so with all of them busy it takes the busy share of
    what it takes now. What other programs use is out of reach, but for the fair share of a half.
    Where nothing was sampled it is estimated from the fetches and a loop that keeps one core busy.
    None if the number of cores is not known either.
    """
    if evidence.busy is not None and evidence.own is not None:
        others = evidence.busy - evidence.own
        return evidence.own * evidence.ordinary_ns / max(1 - others, _FAIR)
    if evidence.cores is not None:
        return (fetch.on_ns + evidence.loop_ns) / evidence.cores
    return None


def reach(evidence: Evidence, fetch: Fetch) -> float | None:
    """Give the share of the wait that more workers can take away on the cores there are, 0–1."""
    limit = core_limit_ns(evidence, fetch)
    if limit is None or not evidence.wait_ns:
        return None
    shortest = max(evidence.period_ns, limit)
    return min(1.0, max(0.0, (evidence.ordinary_ns - shortest) / evidence.wait_ns))


def plan(evidence: Evidence, fetch: Fetch, part_ns: float) -> Plan | None:
    """Choose the number of workers, or a deeper queue where there are enough of them.

    The gain is what the simulator predicts, give or take how well it fits. Where a run cannot be
    simulated, the upper end is a fetch spread evenly over the workers, and the lower end lets each
    added worker do half of that.

    Args:
        evidence: What was recorded.
        fetch: What making a batch takes.
        part_ns: What the deeper queue would save of a step at best.

    Returns:
        The change, or None if more workers are needed and cores or memory do not allow them.
    """
    have = evidence.workers or 0
    if needed(evidence, fetch) <= have:
        return deeper_queue(evidence, part_ns)
    reached = reach(evidence, fetch)
    if have and ((reached is not None and reached < _TOO_LITTLE) or have >= _MOST_WORKERS):
        return None
    shortest = max(evidence.period_ns, core_limit_ns(evidence, fetch) or 0.0, 1.0)
    wanted = max(have + 1, math.ceil(fetch.wall_ns / shortest - _TOLERANCE))
    workers = min(wanted, _MOST_WORKERS)
    simulated = _simulated_ns(evidence, workers)
    kept = max(have, 1)
    half = kept + (workers - kept) / 2
    steps_ns = simulated or [max(shortest, fetch.wall_ns / count) for count in (half, workers)]
    longest_ns, shortest_ns = steps_ns
    return Plan(
        setting=f"num_workers={workers}",
        workers=workers,
        now=f"now {have}",
        gain=(
            evidence.gives(evidence.ordinary_ns - longest_ns),
            evidence.gives(evidence.ordinary_ns - shortest_ns),
        ),
        enough=needed(evidence, fetch) <= workers,
    )


def _simulated_ns(evidence: Evidence, workers: int) -> list[float] | None:
    """Return the longest and the shortest step that the simulator allows for."""
    replay = evidence.replay
    if replay is None:
        return None
    factor = replay.prefetch_factor or _PREFETCH_FACTOR
    found = predict(replay, Setting(workers, factor, replay.in_order))
    low, high = found.samples_per_s_ci or (found.samples_per_s, found.samples_per_s)
    rates = low * (1 - _MODEL_ERROR), high * (1 + _MODEL_ERROR)
    return [evidence.ordinary_ns * replay.samples_per_s / rate for rate in rates]


def deeper_queue(evidence: Evidence, part_ns: float) -> Plan:
    """Double `prefetch_factor`, so that batches wait for the loop and not the other way round."""
    factor = evidence.loader.prefetch_factor or _PREFETCH_FACTOR
    return Plan(
        setting=f"prefetch_factor={2 * factor}",
        workers=evidence.workers or 0,
        now=f"now {factor}",
        gain=(1.0, evidence.gives(part_ns)),
        enough=True,
    )
