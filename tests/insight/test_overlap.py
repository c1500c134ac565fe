"""Producer and consumer side by side, from steps made up and from a real prefetcher."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from open_runs import finish_runs
from prefetch_generator import BackgroundGenerator
from sides import make_loader, make_steps

import probe
from probe.insight.overlap import overlaps
from probe.store.queries import Store


def test_a_producer_slower_than_the_loop_is_never_held_up_at_efficiency_one() -> None:
    # Making takes 50 ms, training 40: the loop waits 10 of each step.
    producer = make_loader(name="disk", role="producer"), make_steps(100, wait_ms=50)
    consumer = make_loader(name="train"), make_steps(100, wait_ms=10, compute_ms=40)
    (found,) = overlaps([producer, consumer])
    assert (found.producer, found.consumer) == ("disk", "train")
    assert found.io_per_s == pytest.approx(20)
    assert found.synthetic_per_s == pytest.approx(25)
    assert found.full_per_s == pytest.approx(20)
    assert found.efficiency == pytest.approx(1)


def test_nothing_overlapped_is_half_the_efficiency() -> None:
    producer = make_loader(name="disk", role="producer"), make_steps(100, wait_ms=40)
    consumer = make_loader(name="train"), make_steps(100, wait_ms=40, compute_ms=40)
    (found,) = overlaps([producer, consumer])
    assert found.efficiency == pytest.approx(0.5)


def test_two_fetches_a_step_count_as_one_delivery() -> None:
    producer = make_loader(name="disk", role="producer"), make_steps(200, wait_ms=25)
    consumer = make_loader(name="train"), make_steps(100, wait_ms=10, compute_ms=40)
    (found,) = overlaps([producer, consumer])
    assert found.io_per_s == pytest.approx(20)


def test_without_a_producer_or_a_consumer_there_is_nothing_to_say() -> None:
    steps = make_steps(100, wait_ms=40, compute_ms=40)
    assert overlaps([(make_loader(), steps)]) == []
    assert overlaps([(make_loader(role="producer"), steps)]) == []
    assert overlaps([(make_loader(role="producer"), make_steps(0)), (make_loader(), steps)]) == []


def test_both_ends_of_a_real_background_thread_are_recorded_and_never_added() -> None:
    def disk() -> Iterator[int]:
        for index in range(60):
            time.sleep(0.010)
            yield index

    inner = probe.watch(disk(), name="disk")
    for _ in probe.watch(BackgroundGenerator(inner)):
        time.sleep(0.020)
    finish_runs()
    with Store("probe.db") as store:
        watched = [(loader, store.steps(1, loader.id)) for loader in store.loaders(1)]
    assert {loader.name: loader.role for loader, _ in watched} == {
        "disk": "producer",
        "train": "consumer",
    }
    (found,) = overlaps(watched)
    assert found.io_per_s == pytest.approx(95, rel=0.15)
    assert found.synthetic_per_s == pytest.approx(49, rel=0.15)
    assert found.efficiency > 0.9
