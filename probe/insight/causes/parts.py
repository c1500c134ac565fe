"""Divides the stall among its causes, so that no part of it is explained twice."""

from __future__ import annotations

from probe.insight.causes.cause import (
    BURST,
    COPY,
    CPU_LOADING,
    EPOCH_START,
    MAIN_THREAD,
    OVERSUBSCRIBED,
    STORAGE,
    TOO_FEW_WORKERS,
)
from probe.insight.causes.evidence import Evidence, Fetch
from probe.insight.causes.workers import needed, reach
from probe.insight.machine import SATURATED

# Workers that need less than this share of the cores do not wait for one another.
_CROWD = 0.5
# Off the core for less than this, nobody waits for a core.
_GREW = 0.2


def split(evidence: Evidence) -> dict[str, float]:
    """Say how many ns of a step each cause explains; what cannot be explained is left out.

    Starts of epochs and copies are known apart. A wait with a rhythm is a burst, unless the cores
    are what is short. The rest is as long as it takes to make a batch, and is divided like that
    time. Off the core it is storage, or the lack of a core where those are short. On the core it is
    too few workers as far as more of them would find a core, and CPU-bound loading beyond that;
    without workers it is the training process's own. Where other programs hold the cores, neither
    storage nor too few workers is claimed.

    Args:
        evidence: What was recorded.
    """
    parts = {EPOCH_START: evidence.epoch_start_ns, COPY: evidence.copy_ns}
    wait, fetch = evidence.wait_ns, evidence.fetch
    # Workers that have all the cores busy keep in step too, but more even waits would be as long.
    if evidence.rhythm is not None and not _fill_cores(evidence):
        parts[BURST] = wait * evidence.rhythm.share
        wait -= parts[BURST]
    if fetch is None:
        if evidence.workers == 0:
            parts[MAIN_THREAD] = wait
        return parts
    if fetch.off_core is None:
        return parts
    wait *= _of_making(evidence, fetch)
    off = wait * fetch.off_core
    on = wait - off
    if is_crowded(evidence, fetch):
        parts[OVERSUBSCRIBED], off = off, 0.0
    elif evidence.ahead or _is_saturated(evidence):
        # Off the core a thread may also wait for the interpreter's lock or for a core: taking
        # turns, up to as long as it has them.
        queued = min(off, on)
        off, on = off - queued, on + queued
    if evidence.load.is_disturbed:
        # How long a worker waits for a core that another program has is not known, nor whether
        # more workers would get any.
        return parts | {CPU_LOADING if evidence.workers else MAIN_THREAD: on}
    if not evidence.workers:
        return parts | {STORAGE: off, MAIN_THREAD: on}
    fewer = on * (reach(evidence, fetch) or 0.0) if _short(evidence, fetch) else 0.0
    return parts | {
        STORAGE: off,
        TOO_FEW_WORKERS: fewer,
        CPU_LOADING: on - fewer,
    }


def is_crowded(evidence: Evidence, fetch: Fetch) -> bool:
    """Tell whether workers and the main process want more cores than there are.

    All cores must be busy, mostly by the workers, and fetches must take longer than their CPU time.
    A worker is one thread, as torch sets it up.
    """
    cores, workers = evidence.cores, evidence.workers or 0
    return (
        _fill_cores(evidence)
        and cores is not None
        and workers + evidence.main_threads > cores
        and fetch.off_core is not None
        and fetch.off_core >= _GREW
    )


def _fill_cores(evidence: Evidence) -> bool:
    fetch, cores = evidence.fetch, evidence.cores
    if fetch is None or fetch.off_core is None or cores is None:
        return False
    busy_workers = (evidence.workers or 0) * (1 - fetch.off_core)
    return _is_saturated(evidence) and busy_workers >= _CROWD * cores


def _is_saturated(evidence: Evidence) -> bool:
    return evidence.busy is not None and evidence.busy >= SATURATED


def _short(evidence: Evidence, fetch: Fetch) -> bool:
    return needed(evidence, fetch) > (evidence.workers or 0)


def _of_making(evidence: Evidence, fetch: Fetch) -> float:
    """Give the share of the wait in which the batch was still being made.

    With too few workers that is all of it. With enough of them only single slow batches delay the
    loop, and what passes after a batch is finished lies between the workers and the loop.
    """
    if _short(evidence, fetch):
        return 1.0
    return evidence.queue.late_share or 0.0
