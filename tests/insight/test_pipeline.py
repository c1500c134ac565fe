"""The simulated pipeline against closed forms, against a recurrence, and against itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from replays import record

from probe.insight.pipeline import Handover, Pipeline, Series, Work, simulate

STEPS = 120
FREE = Handover()


def work(
    fetch: ArrayLike, loop: ArrayLike, *, on_core: bool = False, loop_cores: float = 0.0
) -> Work:
    """Make work of so many seconds; the loop is on a core if it has any."""
    fetch, loop = (np.broadcast_to(np.asarray(value, float), STEPS) for value in (fetch, loop))
    nothing = np.zeros(STEPS)
    return Work(
        fetch_off=nothing if on_core else fetch,
        fetch_on=fetch if on_core else nothing,
        loop_off=nothing if loop_cores else loop,
        loop_on=loop if loop_cores else nothing,
        loop_cores=loop_cores or 1.0,
    )


def pipeline(
    workers: int,
    prefetch_factor: int = 2,
    *,
    in_order: bool = True,
    background: int = 0,
    cores: float = np.inf,
    handover: Handover = FREE,
) -> Pipeline:
    return Pipeline(workers, prefetch_factor, in_order, background, cores, handover)


def rate(work: Work, pipeline: Pipeline) -> float:
    """Return batches per second."""
    return STEPS / float(simulate(work, pipeline, STEPS).step.sum())


@pytest.mark.parametrize(("fetch", "loop"), [(0.020, 0.005), (0.005, 0.020), (0.01, 0.01)])
def test_constant_times_have_a_closed_form(fetch: float, loop: float) -> None:
    assert rate(work(fetch, loop), pipeline(0)) == pytest.approx(1 / (fetch + loop))
    for workers in (1, 2, 3, 4, 8):
        expected = min(workers / fetch, 1 / loop)
        assert rate(work(fetch, loop), pipeline(workers)) == pytest.approx(expected)


def test_wait_is_what_the_loop_does_not_spend() -> None:
    found = simulate(work(0.020, 0.005), pipeline(2), STEPS)
    assert found.wait + 0.005 == pytest.approx(found.step)
    # The two workers run in step or out of step, but both batches of a round come in 20 ms.
    assert found.step[::2] + found.step[1::2] == pytest.approx(np.full(STEPS // 2, 0.020))


def test_with_one_task_each_a_worker_waits_until_its_batch_is_taken() -> None:
    # One worker, one task: fetch, hand-over and the way back are one circle.
    handover = Handover(transit=0.002, receive=0.001)
    assert rate(work(0.010, 0.001), pipeline(1, 1, handover=handover)) == pytest.approx(1 / 0.013)
    # With two tasks the worker goes on at once.
    assert rate(work(0.010, 0.001), pipeline(1, 2, handover=handover)) == pytest.approx(1 / 0.010)


def test_handover_costs_the_worker_or_the_loop() -> None:
    handover = Handover(between=0.001, transit=0.002, receive=0.003)
    # The worker sets the pace: what it does between batches counts, taking them out does not.
    assert rate(work(0.020, 0.001), pipeline(1, handover=handover)) == pytest.approx(1 / 0.021)
    # The loop sets the pace: it is the other way round.
    assert rate(work(0.001, 0.020), pipeline(1, handover=handover)) == pytest.approx(1 / 0.023)


def test_work_shares_the_cores() -> None:
    busy = work(0.010, 0.001, on_core=True)
    assert rate(busy, pipeline(1, cores=2)) == pytest.approx(1 / 0.010)
    assert rate(busy, pipeline(2, cores=2)) == pytest.approx(2 / 0.010)
    assert rate(busy, pipeline(8, cores=2)) == pytest.approx(2 / 0.010)
    assert rate(busy, pipeline(8, cores=1.5)) == pytest.approx(1.5 / 0.010)
    # Waiting for storage needs no core.
    assert rate(work(0.010, 0.001), pipeline(8, cores=2)) == pytest.approx(8 / 0.010)


def test_compute_and_workers_slow_each_other_down() -> None:
    # A loop on one core and one worker on the other do not meet; four workers leave it 2/5.
    both = work(0.010, 0.008, on_core=True, loop_cores=1.0)
    assert rate(both, pipeline(1, cores=2)) == pytest.approx(1 / 0.010)
    # All work of a batch is 18 ms of core time, and two cores can do no more than that.
    assert rate(both, pipeline(4, cores=2)) == pytest.approx(2 / 0.018, rel=0.02)
    # A loop that needs two cores runs at half speed on one.
    assert rate(work(0.0, 0.008, loop_cores=2.0), pipeline(0, cores=1)) == pytest.approx(1 / 0.016)


def test_what_comes_first_is_not_slowed_down_and_slows_down_the_rest() -> None:
    fetch, loop = (np.full(STEPS, value) for value in (0.010, 0.004))
    nothing = np.zeros(STEPS)
    modest = Work(nothing, fetch, loop, nothing, first_cores=0.5)
    # The loop uses half a core for 4 ms of each step, taking out a whole one for 1 ms.
    found = simulate(modest, pipeline(8, cores=1.0, handover=Handover(receive=0.001)), STEPS)
    assert found.step.mean() == pytest.approx(0.010 + 0.002 + 0.001, rel=0.12)
    quick = simulate(modest, pipeline(8, cores=64.0, handover=Handover(receive=0.001)), STEPS)
    assert quick.step.mean() == pytest.approx(0.005)


def test_a_background_thread_overlaps_making_a_batch_with_using_one() -> None:
    assert rate(work(0.020, 0.005), pipeline(0, background=1)) == pytest.approx(1 / 0.020)
    assert rate(work(0.005, 0.020), pipeline(0, background=1)) == pytest.approx(1 / 0.020)
    # It also takes the batches out of the queue instead of the loop.
    handover = Handover(receive=0.003)
    ahead = pipeline(2, background=1, handover=handover)
    assert rate(work(0.001, 0.020), ahead) == pytest.approx(1 / 0.020)


def test_a_thread_holds_as_many_batches_as_it_may_and_one_in_its_hand() -> None:
    # Every 30th batch takes 60 ms, the others 1 ms; the loop takes 5 ms for each.
    fetch = np.where(np.arange(STEPS) % 30 == 0, 0.060, 0.001)
    waits = [
        simulate(work(fetch, 0.005), pipeline(0, background=held), STEPS).wait.max()
        for held in (1, 3, 5)
    ]
    # When the slow one begins the loop has just taken a batch, and `held` more are there.
    assert waits == pytest.approx([0.060 - 5e-3 * (held + 1) for held in (1, 3, 5)])


def test_in_order_one_slow_batch_holds_up_the_finished_ones() -> None:
    fetch = np.where(np.arange(STEPS) % 8 == 0, 0.080, 0.002)
    ordered = rate(work(fetch, 0.002), pipeline(4, 1))
    free = rate(work(fetch, 0.002), pipeline(4, 1, in_order=False))
    assert free > 1.2 * ordered


def test_many_workers_deliver_in_bursts() -> None:
    found = simulate(work(0.080, 0.002), pipeline(8, 1), STEPS)
    waits = found.wait.reshape(-1, 8)
    assert (waits > 0.05).sum(axis=1).tolist() == [1] * len(waits)


durations = st.integers(0, 2**32 - 1).map(
    lambda seed: np.random.default_rng(seed).lognormal(-4.5, 1.0, STEPS)
)
counts = st.integers(1, 6)


@settings(max_examples=40, deadline=None)
@given(durations, durations, counts, st.integers(1, 4))
def test_the_simulator_agrees_with_the_recurrence(
    fetch: Series, loop: Series, workers: int, prefetch_factor: int
) -> None:
    ahead = 2 * workers * prefetch_factor + 20
    in_ms = fetch * 1e3, loop * 1e3
    # The simulator fills the pipeline with the end of the series and then counts one round.
    order = np.arange(-ahead, STEPS) % STEPS
    _, steps, _ = record(
        ahead + STEPS,
        fetch_ms=in_ms[0][order],
        loop_ms=in_ms[1][order],
        workers=workers,
        prefetch_factor=prefetch_factor,
        between_ms=0.3,
        transit_ms=0.4,
    )
    # A worker puts what it has made into the queue before it goes on.
    handover = Handover(between=0.3e-3, transit=0.4e-3)
    found = simulate(
        work(fetch, loop), pipeline(workers, prefetch_factor, handover=handover), STEPS
    )
    assert found.wait == pytest.approx(steps.wait_ns[ahead:] / 1e9, abs=1e-7)


@settings(max_examples=40, deadline=None)
@given(durations, durations, counts, st.integers(1, 4))
def test_with_cores_enough_more_of_anything_is_never_slower(
    fetch: Series, loop: Series, workers: int, prefetch_factor: int
) -> None:
    busy = work(fetch, loop, on_core=True)
    base = rate(busy, pipeline(workers, prefetch_factor))
    # The steps that fill the pipeline are not the same number, so the last batch may lie elsewhere.
    slack = 1 - 1e-9 - fetch.max() / loop.sum()
    assert rate(busy, pipeline(workers + 1, prefetch_factor)) >= base * slack
    assert rate(busy, pipeline(workers, prefetch_factor + 1)) >= base * slack
    assert rate(busy, pipeline(workers, prefetch_factor, background=1)) >= base * slack


@settings(max_examples=40, deadline=None)
@given(durations, durations, st.integers(0, 6), st.integers(1, 4), st.booleans(), st.integers(0, 2))
def test_nothing_is_faster_than_the_loop_the_cores_or_the_workers(
    fetch: Series,
    loop: Series,
    workers: int,
    prefetch_factor: int,
    in_order: bool,
    background: int,
) -> None:
    cores = 2.0
    found = simulate(
        work(fetch, loop, on_core=True, loop_cores=1.0),
        pipeline(workers, prefetch_factor, in_order=in_order, background=background, cores=cores),
        STEPS,
    )
    took = float(found.step.sum())
    assert took >= loop.sum() * (1 - 1e-9)
    assert (found.wait >= 0).all()
    # What lies ready at the beginning was made before: that many batches may be missing.
    spare = (workers * prefetch_factor + background + 1) * fetch.max()
    assert took * cores >= fetch.sum() + loop.sum() - spare - loop.max()
    assert took * max(workers, 1) >= fetch.sum() - spare
