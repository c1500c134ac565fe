"""Why the loop waits: causes with their evidence, ranked by the time that each would give back."""

from __future__ import annotations

from probe.insight import words
from probe.insight.causes import making
from probe.insight.causes.burst import burst
from probe.insight.causes.cause import (
    BURST,
    COPY,
    CPU_LOADING,
    EPOCH_START,
    MAIN_THREAD,
    OVERSUBSCRIBED,
    STORAGE,
    TOO_FEW_WORKERS,
    Cause,
    less_sure,
)
from probe.insight.causes.copying import copy
from probe.insight.causes.draining import queue_draining, to_come
from probe.insight.causes.epoch_start import epoch_start
from probe.insight.causes.evidence import Evidence, Fetch
from probe.insight.causes.main_thread import main_thread
from probe.insight.causes.parts import split

# A cause is named from this part of the stall and this part of the step on.
_OF_STALL = 0.15
_OF_STEP = 0.02
# A stall of which less is explained gets a remark.
_MOSTLY = 0.5
# Copies that take less of a step need no remark.
_COPY_MATTERS = 0.05

_OF_WORKERS = {
    STORAGE: making.storage,
    CPU_LOADING: making.cpu_loading,
    TOO_FEW_WORKERS: making.too_few_workers,
    OVERSUBSCRIBED: making.oversubscribed,
}


def find_draining(evidence: Evidence) -> Cause | None:
    """Tell whether a stock of batches hides a stall to come."""
    draining, share = evidence.queue.draining, to_come(evidence)
    if draining is None or share is None:
        return None
    return queue_draining(evidence, draining, share)


def find(evidence: Evidence) -> list[Cause]:
    """Name the causes of a stall, the one that would give back most time first.

    Causes that explain less than 15 % of the stall, or less than 2 % of a step, are not named.

    Args:
        evidence: What was recorded of a loop that does stall.
    """
    parts = sorted(split(evidence).items(), key=lambda part: -part[1])
    named = (
        _name(evidence, cause, part_ns)
        for cause, part_ns in parts
        if part_ns > max(_OF_STALL * evidence.stall_ns, _OF_STEP * evidence.step_ns)
    )
    found = [cause for cause in named if cause is not None]
    return [less_sure(cause) for cause in found] if evidence.load.is_disturbed else found


def missing(evidence: Evidence, causes: list[Cause]) -> list[str]:
    """Say what was not recorded or is disturbed, and what cannot be told for it.

    Args:
        evidence: What was recorded of a loop that does stall.
        causes: What `find` made of it.
    """
    found = []
    fetch = evidence.fetch
    disturbed = evidence.load.is_disturbed
    if disturbed:
        found.append(_others(evidence))
    if evidence.helpers_ns:
        found.append(
            f"The run computes {words.ms_of_ns(evidence.helpers_ns)} ms a batch outside the loop"
            " and the threads that fetch, so that much of their time off the core is taken to be"
            " computing by threads or processes that they started."
        )
    if fetch is None:
        found.append(
            "No batch was seen being made, so storage, CPU and the number of workers cannot be told"
            " apart."
        )
    elif fetch.off_core is None:
        found.append(
            "CPU time of the fetches was not measured, so storage and CPU cannot be told apart."
        )
    elif evidence.busy is None and evidence.workers:
        found.append("CPU use was not sampled, so it is a guess whether more workers find a core.")
    if evidence.workers and evidence.queue.readiness is None:
        found.append(
            "How many batches lay ready was not recorded, so a queue that runs empty is not seen."
        )
    if not evidence.device_clock and evidence.host_copy_ns > _COPY_MATTERS * evidence.step_ns:
        found.append(
            f"Copies take {words.ms_of_ns(evidence.host_copy_ns)} ms of a step on the host; without"
            " a device clock it is not known how long they hold the device up."
        )
    if (causes or disturbed) and (rest := 1 - sum(cause.share for cause in causes)) > _MOSTLY:
        found.append(f"{words.percent(rest)} of the stall is not explained.")
    elif not (causes or disturbed) and fetch is not None and fetch.off_core is not None:
        found.append(
            "What was recorded does not explain the wait: batches are made fast enough on average,"
            f" so time passes between the workers and the loop{_busy(evidence)}."
        )
    return found


def _others(evidence: Evidence) -> str:
    others, cores = evidence.load.others or 0.0, evidence.cores
    if cores is None:
        used = f"{words.percent(others)} of the cores"
    else:
        used = f"{words.ms(others * cores)} of the {cores:g} core{'' if cores == 1 else 's'}"
    return (
        f"Other programs used {used}, so waiting for storage and waiting for a core cannot be told"
        " apart."
    )


def _busy(evidence: Evidence) -> str:
    if evidence.busy is None:
        return ""
    return f"; the cores are {words.percent(evidence.busy)} busy"


def _name(evidence: Evidence, cause: str, part_ns: float) -> Cause | None:
    if cause == EPOCH_START:
        return epoch_start(evidence, part_ns)
    if cause == COPY:
        return copy(evidence, part_ns)
    if cause == MAIN_THREAD:
        return main_thread(evidence, part_ns)
    if cause == BURST:
        assert evidence.rhythm is not None
        return burst(evidence, evidence.rhythm, part_ns)
    assert evidence.fetch is not None
    return _OF_WORKERS[cause](evidence, evidence.fetch, part_ns)


__all__ = ["Cause", "Evidence", "Fetch", "find", "find_draining", "missing"]
