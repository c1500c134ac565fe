"""Batches are made too slowly by workers: for want of storage, of cores, or of workers."""

from __future__ import annotations

from probe.insight import words
from probe.insight.causes.cause import (
    CPU_LOADING,
    OVERSUBSCRIBED,
    STORAGE,
    TOO_FEW_WORKERS,
    Cause,
    advise,
    confidence,
)
from probe.insight.causes.evidence import Evidence, Fetch
from probe.insight.causes.workers import core_limit_ns, deeper_queue, needed, plan
from probe.insight.words import ms_of_ns as ms

# Less waiting for I/O than this is every machine's background.
_IOWAIT = 0.01


def storage(evidence: Evidence, fetch: Fetch, part_ns: float) -> Cause:
    """Fetches pass off the core: they wait for files, the network, or a lock."""
    who = "Workers sit" if evidence.workers else "The training process sits"
    io = evidence.iowait
    waits = "" if io is None or io < _IOWAIT else f"; cores wait for I/O {words.percent(io)}"
    change = plan(evidence, fetch, part_ns)
    if change is None:
        action, settings = "Put the data on faster storage or into memory", []
        gain = (evidence.gives(part_ns / 2), evidence.gives(part_ns))
        assumption = "reading then takes at most half as long"
    else:
        action, settings = f"Set {change.setting} ({change.now})", [change.setting]
        gain = change.gain
        if not change.enough:
            action += " and put the data on faster storage or into memory"
        readers = words.plural(change.workers, "reader")
        assumption = f"storage serves {readers} at once, each as fast as now"
    return Cause(
        cause=STORAGE,
        share=part_ns / evidence.stall_ns,
        evidence=f"{who} {ms(fetch.off_ns)} of {ms(fetch.wall_ns)} ms a batch off the core,"
        f" {_off_core(fetch)}{waits}.",
        advice=advise(action, gain, assumption),
        gain=gain,
        confidence=confidence(fetch.off_core_ci is not None, evidence.busy is not None),
        title="storage",
        settings=tuple(settings),
    )


def cpu_loading(evidence: Evidence, fetch: Fetch, part_ns: float) -> Cause:
    """Fetches keep a core busy, and there are no cores for enough workers."""
    workers = evidence.workers or 1
    goal_ns = evidence.period_ns * workers
    gain = (evidence.gives(part_ns / 2), evidence.gives(part_ns))
    settings = []
    if needed(evidence, fetch) <= workers:
        change = deeper_queue(evidence, part_ns)
        gain, settings = change.gain, [change.setting]
        action = f"Set {change.setting} ({change.now})"
        assumption = "slow batches are rare enough for a longer queue to make up for them"
    else:
        action = (
            f"Make a batch within {ms(goal_ns)} ms (now {ms(fetch.wall_ns)}) by storing samples"
            " decoded or smaller, or by moving transforms to the device"
        )
        assumption = "that takes the work off these cores"
    return Cause(
        cause=CPU_LOADING,
        share=part_ns / evidence.stall_ns,
        evidence=f"Workers compute {ms(fetch.on_ns)} of {ms(fetch.wall_ns)} ms a batch;"
        f" {_cores(evidence)}.",
        advice=advise(action, gain, assumption),
        gain=gain,
        confidence=confidence(
            fetch.off_core_ci is not None, evidence.busy is not None, evidence.cores is not None
        ),
        title="CPU-bound loading",
        settings=tuple(settings),
    )


def too_few_workers(evidence: Evidence, fetch: Fetch, part_ns: float) -> Cause | None:
    """More workers are needed than there are, and they would find a core."""
    have, wanted = evidence.workers or 0, needed(evidence, fetch)
    change = plan(evidence, fetch, part_ns)
    if change is None:
        return None
    limited = (
        f", {words.count(change.workers)} of which find a core" if change.workers < wanted else ""
    )
    limit = core_limit_ns(evidence, fetch)
    return Cause(
        cause=TOO_FEW_WORKERS,
        share=part_ns / evidence.stall_ns,
        evidence=f"A batch takes {ms(fetch.wall_ns)} ms to make, the loop could take one every"
        f" {ms(evidence.period_ns)} ms: that needs {words.count(wanted)} workers{limited}, there"
        f" {'is 1' if have == 1 else f'are {have}'}; {_cores(evidence)}.",
        advice=advise(
            f"Set {change.setting} ({change.now})",
            change.gain,
            "the free cores stay free and a batch takes each worker as long as now",
        ),
        gain=change.gain,
        confidence=confidence(
            fetch.off_core_ci is not None, evidence.busy is not None, limit is not None
        ),
        title="too few workers",
        settings=(change.setting,),
    )


def oversubscribed(evidence: Evidence, fetch: Fetch, part_ns: float) -> Cause:
    """Workers and the threads of the main process wait for one another's cores."""
    have, threads, cores = evidence.workers or 0, evidence.main_threads, evidence.cores or 1.0
    kept_threads = min(threads, max(1, int(cores / 2)))
    workers = min(have, max(1, int(cores) - kept_threads))
    settings = [f"num_workers={workers}"]
    if kept_threads < threads:
        settings.append(f"torch.set_num_threads({kept_threads})")
    gain = (1.0, evidence.gives(part_ns))
    return Cause(
        cause=OVERSUBSCRIBED,
        share=part_ns / evidence.stall_ns,
        evidence=f"{words.plural(have, 'worker')} and {words.plural(threads, 'thread')} of the"
        f" training process share {_count(cores)}, {words.percent(evidence.busy or 0.0)} busy: a"
        f" batch needs {ms(fetch.on_ns)} ms of CPU and takes {ms(fetch.wall_ns)} ms.",
        advice=advise(
            f"Set {' and '.join(settings)} (now {have} and {threads})",
            gain,
            "the time off the core is spent waiting for one",
        ),
        gain=gain,
        confidence=confidence(fetch.off_core_ci is not None, evidence.torch_threads is not None),
        title="oversubscribed cores",
        settings=tuple(settings),
    )


def _off_core(fetch: Fetch) -> str:
    share = words.percent(fetch.off_core or 0.0)
    interval = fetch.off_core_ci
    return share if interval is None else f"{share} ({words.percent_range(*interval)})"


def _cores(evidence: Evidence) -> str:
    if evidence.cores is None and evidence.busy is None:
        return "how many cores there are and how busy is not known"
    cores = "the cores" if evidence.cores is None else _count(evidence.cores)
    busy = (
        "not sampled" if evidence.busy is None else f"{words.percent(evidence.busy)} busy in total"
    )
    return f"{cores}, {busy}"


def _count(cores: float) -> str:
    return "1 core" if cores == 1 else f"{cores:g} cores"
