"""What lies between workers and loop, told from when batches were made and when taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sides import make_loader, make_steps

from probe.insight.queue import Queue, examine
from probe.store.queries import Fetches, Steps


def fetches(workers: int, steps: Steps, ends_ns: np.ndarray, wall_ms: float = 5.0) -> Fetches:
    """Make one fetch a step, dealt to the workers in turn in each epoch."""
    position = np.concatenate([np.arange(c) for c in np.unique(steps.epoch, return_counts=True)[1]])
    worker = position % workers
    order = np.lexsort((steps.step, worker))
    wall = np.full(len(steps), int(wall_ms * 1e6))
    seq = np.concatenate([np.arange(np.count_nonzero(worker == w)) for w in range(workers)])
    return Fetches(
        worker=worker[order],
        seq=seq,
        epoch=steps.epoch[order],
        start_ns=(ends_ns - wall)[order],
        wall_ns=wall,
        cpu_ns=wall * 0.5,
        samples=np.full(len(steps), 32.0),
    )


def drained(ready: np.ndarray, length: int | None = None, **loader: int) -> Queue:
    steps = replace(make_steps(len(ready), compute_ms=10.0), ready=ready)
    made = fetches(2, steps, steps.start_ns)
    return examine(make_loader(length=length, **loader), steps, made)


def test_readiness_is_the_share_of_steps_that_found_a_batch() -> None:
    ready = np.zeros(120)
    ready[20:45] = 3
    ready[110:] = np.nan
    found = drained(ready)
    assert found.readiness == pytest.approx(25 / 90)
    assert drained(np.full(120, np.nan)).readiness is None


@pytest.mark.parametrize("workers", [1, 3])
def test_the_delay_is_from_made_to_taken(workers: int) -> None:
    steps = make_steps(100, wait_ms=2.0, compute_ms=10.0, epoch_length=40)
    got = steps.start_ns + steps.wait_ns
    made = fetches(workers, steps, got - 7_000_000)
    found = examine(make_loader(num_workers=workers), steps, made)
    assert (found.delay_p50_ms, found.delay_p95_ms) == (7, 7)
    assert found.late_share == 0
    assert "half of the batches lay for at most 7.0 ms" in found.sentence


def test_the_late_share_is_what_passed_before_the_batch_was_made() -> None:
    steps = make_steps(100, wait_ms=8.0, compute_ms=10.0)
    made = fetches(2, steps, steps.start_ns + 6_000_000)
    found = examine(make_loader(num_workers=2), steps, made)
    assert found.late_share == pytest.approx(0.75)
    assert found.delay_p50_ms == 2


def test_a_lost_fetch_moves_no_other() -> None:
    steps = make_steps(100, wait_ms=2.0, compute_ms=10.0)
    made = fetches(2, steps, steps.start_ns + np.where(steps.step % 2, 1_000_000, 500_000))
    kept = np.arange(100) != 30
    lost = Fetches(**{name: getattr(made, name)[kept] for name in Fetches.__slots__})
    whole, found = (examine(make_loader(num_workers=2), steps, one) for one in (made, lost))
    assert found.delay_p95_ms == whole.delay_p95_ms == 1.5


def test_what_cannot_be_matched_is_not_measured() -> None:
    steps = make_steps(100, wait_ms=2.0, compute_ms=10.0)
    made = fetches(2, steps, steps.start_ns)
    loader = make_loader(num_workers=2)
    future = examine(loader, steps, replace(made, start_ns=made.start_ns + 10**9))
    none = Fetches(**{name: getattr(made, name)[:0] for name in Fetches.__slots__})
    for found in (future, examine(loader, steps, none)):
        assert (found.delay_p50_ms, found.delay_p95_ms, found.late_share) == (None, None, None)
        assert found.sentence == ""


def test_a_stock_that_falls_is_draining() -> None:
    found = drained(np.linspace(40, 10, 320).round()).draining
    assert found is not None
    assert found.per_step == pytest.approx(30 / 320, rel=0.02)
    assert found.first > 35
    assert found.last < 15
    assert found.steps_left == pytest.approx(110, abs=20)


def test_a_stock_that_stays_is_not_draining() -> None:
    rng = np.random.default_rng(0)
    full = [drained(16 - rng.integers(0, 4, 400).astype(float)).draining for _ in range(100)]
    assert full == [None] * 100
    assert drained(np.zeros(400)).draining is None
    assert drained(np.linspace(0, 40, 400).round()).draining is None


def test_a_stock_that_fell_once_is_not_draining() -> None:
    rng = np.random.default_rng(0)
    ready = np.where(np.arange(400) < 200, 40.0, 20.0) - rng.integers(0, 3, 400)
    assert drained(ready).draining is None


def test_the_last_epoch_decides() -> None:
    rng = np.random.default_rng(0)
    steps = make_steps(400, compute_ms=10.0, epoch_length=200)
    ready = np.concatenate([np.linspace(60, 30, 200), 12.0 - rng.integers(0, 3, 200)])
    made = fetches(2, steps, steps.start_ns)
    found = examine(make_loader(length=None), replace(steps, ready=ready), made)
    assert found.draining is None


def test_a_stock_that_was_gone_early_leaves_steady_state_behind() -> None:
    ready = np.zeros(400)
    ready[:120] = np.linspace(40, 0, 120)
    assert drained(ready).draining is None
    ready[:300] = np.linspace(40, 0, 300)
    found = drained(ready).draining
    assert found is not None
    assert found.steps_left is None


def test_a_queue_that_empties_at_the_end_of_an_epoch_is_not_draining() -> None:
    ready = np.full(400, 200.0)
    ready[200:] = np.linspace(200, 0, 200)
    assert drained(ready, length=400).draining is None
    assert drained(ready, length=401).draining is not None


def test_a_stock_that_every_epoch_fills_is_not_draining() -> None:
    steps = make_steps(600, compute_ms=10.0, epoch_length=100)
    ready = np.tile(np.linspace(40, 5, 100), 6)
    none = fetches(2, steps, steps.start_ns)
    assert examine(make_loader(length=None), replace(steps, ready=ready), none).draining is None
