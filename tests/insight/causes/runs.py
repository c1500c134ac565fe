"""Synthetic runs whose truth is known: one for each cause, and healthy or mixed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from simulated import Recorded, no_fetches, simulate, with_copies

COPIED = {
    "copies": 1000,
    "copied_bytes": 10**9,
    "copied_pageable_bytes": 10**9,
    "copied_blocking_bytes": 10**9,
}


def jittered(n: int, mean_ms: float, spread: float = 0.3, seed: int = 0) -> np.ndarray:
    """Return lognormal times, as those of files are."""
    noise = np.random.default_rng(seed).normal(-(spread**2) / 2, spread, n)
    return np.asarray(mean_ms * np.exp(noise))


def storage() -> Recorded:
    """Four workers, each 80 ms at a batch, 4 of them on a core; the loop takes 10 ms."""
    fetch = jittered(400, 80)
    return simulate(400, workers=4, fetch_ms=fetch, on_core=0.05, loop_ms=10.0, cpu=0.1)


def cpu_loading() -> Recorded:
    """Three workers that compute on a machine of four cores, all busy."""
    fetch = jittered(400, 60, 0.1)
    return simulate(400, workers=3, fetch_ms=fetch, on_core=0.97, loop_ms=10.0, cpu=0.99, cores=4)


def too_few_workers() -> Recorded:
    """One worker that computes on a machine of sixteen cores, most of them idle."""
    fetch = jittered(400, 40, 0.1)
    return simulate(400, workers=1, fetch_ms=fetch, on_core=0.95, loop_ms=10.0, cpu=0.1)


def oversubscribed() -> Recorded:
    """Sixteen workers that want four cores: 40 ms of CPU take 160 ms."""
    fetch = jittered(600, 160, 0.5)
    return simulate(600, workers=16, fetch_ms=fetch, on_core=0.25, loop_ms=3.0, cpu=0.99, cores=4)


def burst() -> Recorded:
    """Eight workers in step, one batch each ahead, 120 ms a batch; the loop takes 4 ms."""
    fetch = jittered(800, 120, 0.02)
    return simulate(
        800, workers=8, fetch_ms=fetch, on_core=0.03, loop_ms=4.0, prefetch_factor=1, cpu=0.1
    )


def epoch_start() -> Recorded:
    """Two workers, fast enough, that take two seconds to start in every epoch of 100 steps."""
    fetch = jittered(600, 10)
    return simulate(
        600, workers=2, fetch_ms=fetch, loop_ms=10.0, epoch_length=100, start_ms=2000.0, cpu=0.2
    )


def copy() -> Recorded:
    """Copies from pageable memory hold the device up for 6 of 16 ms."""
    found = simulate(400, workers=4, fetch_ms=10.0, loop_ms=16.0, cpu=0.2, loader=COPIED)
    return replace(found, steps=with_copies(found.steps, exposed_ms=6.0))


def main_thread() -> Recorded:
    """No workers: 20 ms of Python for each batch before 10 ms of training."""
    fetch = jittered(400, 20)
    return simulate(400, workers=0, fetch_ms=fetch, on_core=0.98, loop_ms=10.0, cpu=0.1)


def queue_draining() -> Recorded:
    """Slow first steps filled a queue of 64; two workers need 24 ms for a batch, the loop 10."""
    loop = np.full(500, 10.0)
    loop[:10] = 200.0
    found = simulate(
        500, workers=2, fetch_ms=24.0, on_core=0.1, loop_ms=loop, prefetch_factor=32, cpu=0.1
    )
    return found.first(300)


ONE_FOR_EACH: dict[str, Callable[[], Recorded]] = {
    "storage": storage,
    "cpu-loading": cpu_loading,
    "too-few-workers": too_few_workers,
    "oversubscribed": oversubscribed,
    "burst": burst,
    "epoch-start": epoch_start,
    "copy": copy,
    "main-thread": main_thread,
    "queue-draining": queue_draining,
}


def healthy() -> Recorded:
    """Four workers with time to spare."""
    return simulate(400, workers=4, fetch_ms=jittered(400, 20), loop_ms=10.0, cpu=0.3)


def just_below_the_border() -> Recorded:
    """The loop waits 4.5 % of the time, in every step."""
    return simulate(2000, workers=1, fetch_ms=jittered(2000, 10.45, 0.02), loop_ms=10.0, cpu=0.9)


def noisy() -> Recorded:
    """Rare stalls of half a second leave open whether it is 5 %."""
    fetch = np.full(400, 5.0)
    fetch[[80, 300]] = 300.0
    return simulate(400, workers=2, fetch_ms=fetch, loop_ms=10.0, cpu=0.3)


def short() -> Recorded:
    """All wait, but for 35 steps."""
    return simulate(35, workers=1, fetch_ms=40.0, loop_ms=10.0, cpu=0.3)


def no_fetch_data() -> Recorded:
    """A stall without anything that would tell why."""
    found = storage()
    unknown = np.full(len(found.steps), np.nan)
    steps = replace(found.steps, ready=unknown)
    return replace(found, steps=steps, fetches=no_fetches(), cpu=None)


def copy_hidden() -> Recorded:
    """Copies as long as in `copy`, on a stream of their own."""
    found = simulate(400, workers=4, fetch_ms=10.0, loop_ms=16.0, cpu=0.2, loader=COPIED)
    return replace(found, steps=with_copies(found.steps, exposed_ms=0.0, hidden_ms=6.0))


def many_idle_workers() -> Recorded:
    """Thirty-two workers on eight busy cores, of which one would do."""
    fetch = jittered(600, 8)
    return simulate(600, workers=32, fetch_ms=fetch, loop_ms=10.0, cpu=0.97, cores=8)


def heavy_tail_but_fine() -> Recorded:
    """One batch in fifty takes ten times as long, which the queue makes up for."""
    fetch = np.where(np.arange(1000) % 50 == 25, 100.0, 10.0)
    return simulate(1000, workers=4, fetch_ms=fetch, on_core=0.1, loop_ms=10.0, cpu=0.2)


def epoch_starts_of_one_percent() -> Recorded:
    """Each epoch begins 20 ms late and takes two seconds."""
    return simulate(
        1000, workers=2, fetch_ms=8.0, loop_ms=10.0, epoch_length=200, start_ms=12.0, cpu=0.3
    )


def slow_hand_over() -> Recorded:
    """Workers have time to spare; each batch takes 10 ms to get from them to the loop."""
    return simulate(
        400, workers=8, fetch_ms=jittered(400, 20), loop_ms=20.0, hand_over_ms=10.0, cpu=0.2
    )


def refilled_every_epoch() -> Recorded:
    """A queue that is full at the start of an epoch and lasts until its end."""
    loop = np.full(600, 10.0)
    loop[::100] = 700.0
    return simulate(
        600,
        workers=2,
        fetch_ms=22.0,
        loop_ms=loop,
        prefetch_factor=32,
        epoch_length=100,
        cpu=0.2,
    )


# Runs in which no cause may be named.
HEALTHY: dict[str, Callable[[], Recorded]] = {
    "healthy": healthy,
    "just below 5 %": just_below_the_border,
    "noisy": noisy,
    "short": short,
    "no fetch data": no_fetch_data,
    "copy hidden": copy_hidden,
    "many idle workers": many_idle_workers,
    "heavy tail but fine": heavy_tail_but_fine,
    "epoch starts of 1 %": epoch_starts_of_one_percent,
    "slow hand-over": slow_hand_over,
    "refilled every epoch": refilled_every_epoch,
}


def storage_and_cpu() -> Recorded:
    """Three workers, 60 % of each batch off the core, and hardly a core free."""
    fetch = jittered(400, 60, 0.1)
    return simulate(400, workers=3, fetch_ms=fetch, on_core=0.4, loop_ms=10.0, cpu=0.89, cores=16)


def storage_and_epoch_start() -> Recorded:
    """One worker that waits for storage, started anew in every epoch."""
    fetch = jittered(600, 20)
    return simulate(
        600,
        workers=1,
        fetch_ms=fetch,
        on_core=0.05,
        loop_ms=10.0,
        epoch_length=50,
        start_ms=300.0,
        cpu=0.2,
    )


def copy_and_storage() -> Recorded:
    """Copies hold the device up for longer than storage does."""
    found = simulate(
        400, workers=2, fetch_ms=jittered(400, 40), on_core=0.05, loop_ms=16.0, cpu=0.2
    )
    return replace(found, steps=with_copies(found.steps, exposed_ms=8.0))


# Runs with two causes, the larger first.
MIXED: dict[tuple[str, str], Callable[[], Recorded]] = {
    ("storage", "cpu-loading"): storage_and_cpu,
    ("storage", "epoch-start"): storage_and_epoch_start,
    ("copy", "storage"): copy_and_storage,
}
