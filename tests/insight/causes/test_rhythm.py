"""A burst is a period of the waits, found in the data and not in the settings."""

from __future__ import annotations

import numpy as np
from sides import make_steps
from simulated import simulate

from probe.insight.causes.rhythm import Rhythm, find_rhythm


def rhythm(wait: np.ndarray, workers: int | None, epoch_length: int | None = None) -> Rhythm | None:
    steps = make_steps(len(wait), wait_ms=wait, compute_ms=5.0, epoch_length=epoch_length)
    return find_rhythm(steps, steps.wait_ns.astype(np.float64), workers)


def every(period: int, n: int = 600, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).gamma(1, 0.5, n)
    return np.where(np.arange(n) % period == 0, 80.0, 0.0) + noise


def test_a_wait_that_returns_with_the_workers_is_found() -> None:
    found = rhythm(every(8), 8)
    assert found is not None
    assert (found.period, found.periods) == (8, 72)
    assert found.long_ns / 1e6 > 80
    assert found.short_ns / 1e6 < 1
    assert found.share > 0.9
    assert found.correlation > 0.9


def test_another_period_is_not_that_of_the_workers() -> None:
    for period in (4, 5, 6, 10, 16):
        assert rhythm(every(period), 8) is None


def test_a_shorter_period_with_uneven_waits_is_not_that_of_the_workers() -> None:
    heights = np.random.default_rng(0).uniform(20, 180, 600)
    assert rhythm(np.where(np.arange(600) % 4 == 0, heights, 0.0), 8) is None


def test_a_wait_that_swells_and_ebbs_is_no_burst() -> None:
    assert rhythm(10 + 10 * np.sin(2 * np.pi * np.arange(600) / 8), 8) is None


def test_it_takes_five_workers_and_five_periods() -> None:
    assert rhythm(every(5), 5) is not None
    assert rhythm(every(4), 4) is None
    assert rhythm(every(8), None) is None
    assert rhythm(every(8, n=20 + 5 * 8 - 1), 8) is None
    assert rhythm(every(8, n=20 + 6 * 8), 8) is not None


def test_epochs_that_begin_anew_do_not_hide_it() -> None:
    position = np.arange(1000) % 50
    wait = np.where(position % 8 == 3, 80.0, 0.0)
    assert rhythm(wait, 8, epoch_length=50) is not None
    position = np.arange(1200) % 12
    wait = np.where(position % 5 == 3, 80.0, 0.0)
    assert rhythm(wait, 5, epoch_length=12) is not None


def test_noise_has_no_rhythm() -> None:
    rng = np.random.default_rng(0)
    found = [rhythm(rng.lognormal(0, 2, n), 8) for n in (80, 200, 2000) for _ in range(100)]
    assert sum(one is not None for one in found) <= 1


def test_one_outlier_does_not_drown_it() -> None:
    wait = every(8)
    wait[301] = 100_000.0
    assert rhythm(wait, 8) is not None


def test_workers_whose_batches_vary_fall_out_of_step() -> None:
    fetch = np.random.default_rng(0).gamma(2, 60, 2000)
    run = simulate(2000, workers=8, fetch_ms=fetch, loop_ms=12.0, prefetch_factor=8)
    assert find_rhythm(run.steps, run.steps.wait_ns.astype(np.float64), 8) is None
