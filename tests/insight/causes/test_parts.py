"""What decides between one cause and another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from runs import COPIED, burst, copy, cpu_loading, epoch_start, jittered, oversubscribed, storage
from runs import too_few_workers as too_few
from simulated import Recorded, no_fetches, simulate, with_copies


def causes(recorded: Recorded) -> list[str]:
    return [cause.cause for cause in recorded.judge().causes]


def test_free_cores_decide_between_more_workers_and_cheaper_ones() -> None:
    run = too_few()
    assert causes(replace(run, cpu=0.2)) == ["too-few-workers"]
    assert causes(replace(run, cpu=0.6)) == ["too-few-workers", "cpu-loading"]
    assert causes(replace(run, cpu=0.99)) == ["cpu-loading"]


def test_without_samples_the_number_of_cores_decides() -> None:
    run = replace(too_few(), cpu=None)
    [many] = replace(run, cores=16).judge().causes
    assert (many.cause, many.confidence) == ("too-few-workers", "medium")
    assert causes(replace(run, cores=1)) == ["cpu-loading"]
    [unknown] = replace(run, cores=None).judge().causes
    assert (unknown.cause, unknown.confidence) == ("cpu-loading", "low")


def test_workers_crowd_only_where_all_cores_are_busy_with_them() -> None:
    run = oversubscribed()
    assert causes(replace(run, cpu=0.5))[0] != "oversubscribed"
    assert causes(replace(run, cores=64))[0] != "oversubscribed"
    # Workers that sleep do not crowd a machine that others keep busy.
    [found] = replace(storage(), cpu=0.99, cores=4).judge().causes
    assert (found.cause, found.settings) == ("storage", ())
    # Six workers and the loop fit on eight cores: what they wait for is not one another.
    run = simulate(
        600, workers=6, fetch_ms=jittered(600, 80, 0.5), on_core=0.7, loop_ms=5.0, cpu=0.95, cores=8
    )
    assert "oversubscribed" not in causes(run)
    # A fetch that hardly takes longer than its CPU time does not wait for a core.
    run = simulate(600, workers=8, fetch_ms=jittered(600, 80), on_core=0.83, loop_ms=4.0, cores=4)
    assert causes(replace(run, cpu=0.99)) == ["cpu-loading"]


def test_only_the_cores_of_this_run_count_and_only_its_own_work() -> None:
    run = too_few()
    # A container that is out of its quota, on a machine that idles.
    assert causes(replace(run, cpu=0.05, tree=0.99, cores=2)) == ["cpu-loading"]
    # Another program takes a tenth, which is no reason to doubt.
    assert causes(replace(run, cpu=0.3, tree=0.2)) == ["too-few-workers"]


def test_where_other_programs_hold_the_cores_storage_and_workers_are_not_claimed() -> None:
    run = replace(storage(), cpu=0.95, tree=0.05, cores=2)
    verdict = run.judge()
    assert verdict.causes == []
    said = " ".join(verdict.evidence)
    assert "Other programs used 1.8 of the 2 cores" in said
    assert "100 % of the stall is not explained" in said
    assert "batches are made fast enough" not in said
    # With a core to spare, or with a busy machine that is all its own, it is what it looks like.
    [found] = replace(run, cpu=0.6).judge().causes
    assert (found.cause, found.confidence) == ("storage", "high")
    [found] = replace(too_few(), cpu=0.95, tree=0.1, cores=16).judge().causes
    assert (found.cause, found.confidence) == ("cpu-loading", "medium")
    mine = replace(cpu_loading(), tree=0.97).judge()
    assert [cause.confidence for cause in mine.causes] == ["high"]
    assert not any("Other programs" in line for line in mine.evidence)


def test_helpers_of_the_workers_that_compute_are_not_storage() -> None:
    # Each batch has two threads compute for 75 ms, for which the worker waits: 15 cores are busy.
    run = replace(storage(), cpu=0.5, tree=0.48, cores=16)
    verdict = run.judge()
    [found] = verdict.causes
    assert found.cause == "too-few-workers"
    assert found.confidence == "medium"
    assert any("threads or processes that they started" in line for line in verdict.evidence)
    # Half of what the fetches wait for is computed.
    partly = replace(run, tree=0.18).judge()
    assert {cause.cause for cause in partly.causes} == {"storage", "too-few-workers"}
    # The threads of a model on the CPU are no helpers, nor are workers that start.
    model = replace(storage(), cpu=0.5, tree=0.5, cores=4, device="cpu", torch_threads=4)
    [found] = model.judge().causes
    assert (found.cause, found.confidence) == ("storage", "high")
    restarted = simulate(
        600,
        workers=2,
        fetch_ms=30.0,
        on_core=0.05,
        loop_ms=10.0,
        epoch_length=30,
        start_ms=400.0,
        cpu=0.5,
        tree=0.5,
        cores=2,
    )
    assert not any("helpers" in line or "threads or" in line for line in restarted.judge().evidence)


def test_a_busy_machine_does_not_turn_computing_into_storage() -> None:
    # Half of each fetch is spent waiting for a core that another program has.
    run = simulate(400, workers=1, fetch_ms=40.0, on_core=0.5, loop_ms=10.0, cpu=0.97)
    assert causes(run) == ["cpu-loading"]
    assert causes(replace(run, cpu=0.1)) == ["storage", "too-few-workers"] or causes(
        replace(run, cpu=0.1)
    ) == ["too-few-workers", "storage"]


def test_a_thread_that_waits_for_storage_is_not_held_up_by_the_interpreter() -> None:
    def thread(on_core: float) -> list[str]:
        fetch = jittered(400, 25)
        return causes(
            simulate(
                400, workers=0, thread=True, fetch_ms=fetch, on_core=on_core, loop_ms=10.0, cpu=0.2
            )
        )

    assert thread(0.02) == ["storage"]
    assert thread(0.5) == ["main-thread"]


def test_the_bound_of_an_input_fix_is_not_known_beside_a_thread() -> None:
    def said(**settings: Any) -> str:
        fetch = jittered(400, 25)
        return (
            simulate(400, workers=0, fetch_ms=fetch, on_core=0.5, loop_ms=10.0, cpu=0.2, **settings)
            .judge()
            .sentence
        )

    assert said().endswith("nothing done to the input can give more than 3.48 ×.")
    beside = said(thread=True)
    assert "How much an input fix can give is not known: a thread" in beside
    assert "can give more" not in beside
    wrapped = replace(simulate(400, workers=0, fetch_ms=25.0, loop_ms=10.0), fetches=no_fetches())
    wrapped = replace(wrapped, loader=wrapped.loader | {"chain": ["Background", "DataLoader"]})
    assert "is not known: a thread" in wrapped.judge().sentence


def test_without_workers_reading_is_storage_and_computing_is_the_main_thread() -> None:
    def alone(on_core: float) -> list[str]:
        return causes(
            simulate(400, workers=0, fetch_ms=jittered(400, 20), on_core=on_core, loop_ms=10.0)
        )

    assert alone(0.05) == ["storage"]
    assert alone(0.95) == ["main-thread"]
    assert alone(0.6) == ["main-thread", "storage"]


def test_without_workers_and_fetches_the_main_thread_is_a_guess() -> None:
    run = simulate(400, workers=0, fetch_ms=20.0, loop_ms=10.0, cpu=0.2)
    [found] = replace(run, fetches=no_fetches()).judge().causes
    assert (found.cause, found.confidence) == ("main-thread", "low")
    assert found.settings == ("num_workers=2",)


def test_without_cpu_times_nothing_is_said_of_storage() -> None:
    run = storage()
    unknown = np.full(len(run.fetches), np.nan)
    verdict = replace(run, fetches=replace(run.fetches, cpu_ns=unknown)).judge()
    assert verdict.causes == []
    assert any("CPU time of the fetches was not measured" in line for line in verdict.evidence)


def test_single_slow_batches_ask_for_a_longer_queue() -> None:
    fetch = np.where(np.arange(1000) % 25 == 12, 300.0, 20.0)
    run = simulate(1000, workers=4, fetch_ms=fetch, on_core=0.05, loop_ms=10.0, cpu=0.2)
    [found] = run.judge().causes
    assert (found.cause, found.settings) == ("storage", ("prefetch_factor=4",))
    run = simulate(1000, workers=4, fetch_ms=fetch, on_core=0.95, loop_ms=10.0, cpu=0.2)
    [found] = run.judge().causes
    assert (found.cause, found.settings) == ("cpu-loading", ("prefetch_factor=4",))


def test_a_burst_is_one_whatever_the_batches_wait_for_but_cores() -> None:
    assert causes(burst())[0] == "burst"
    assert causes(replace(burst(), fetches=no_fetches())) == ["burst"]
    run = simulate(
        800, workers=8, fetch_ms=120.0, on_core=0.9, loop_ms=4.0, prefetch_factor=1, cores=8
    )
    assert causes(replace(run, cpu=0.3))[0] == "burst"
    assert causes(replace(run, cpu=0.99))[0] == "cpu-loading"


def test_workers_that_stay_are_not_told_to() -> None:
    run = epoch_start()
    stay = replace(run, loader=run.loader | {"persistent_workers": 1})
    [found] = stay.judge().causes
    assert found.cause == "epoch-start"
    assert found.settings == ()


@pytest.mark.parametrize(
    ("counted", "settings"),
    [
        ({}, ("pin_memory=True", "non_blocking=True")),
        ({"copied_pageable_bytes": 0}, ("non_blocking=True",)),
        (
            {"copied_pageable_bytes": 0, "copied_blocking_bytes": 0},
            ("probe.prefetch.to_device(loader, device)",),
        ),
    ],
)
def test_the_way_of_copying_decides_what_to_try(
    counted: dict[str, Any], settings: tuple[str, ...]
) -> None:
    run = copy()
    [found] = replace(run, loader=run.loader | COPIED | counted).judge().causes
    assert (found.cause, found.settings) == ("copy", settings)


def test_copies_on_the_host_clock_are_not_called_a_stall() -> None:
    run = storage()
    copied = replace(run.steps, copy_ns=run.steps.compute_ns)
    verdict = replace(run, steps=copied).judge()
    assert causes(run) == [cause.cause for cause in verdict.causes]
    assert any("without a device clock" in line for line in verdict.evidence)


def test_a_copy_at_the_start_of_an_epoch_is_a_copy() -> None:
    run = simulate(600, workers=2, fetch_ms=10.0, loop_ms=10.0, epoch_length=100, cpu=0.2)
    exposed = np.where(run.steps.epoch_start, 2000.0, 0.0)
    assert causes(replace(run, steps=with_copies(run.steps, exposed))) == ["copy"]


def test_a_stock_that_falls_slowly_will_not_matter() -> None:
    loop = np.full(500, 10.0)
    loop[:10] = 200.0
    run = simulate(500, workers=2, fetch_ms=20.5, loop_ms=loop, prefetch_factor=32, cpu=0.1)
    verdict = run.first(300).judge()
    assert (verdict.class_, verdict.causes) == ("compute-bound", [])


def test_exposed_copies_beside_a_fast_loader_are_all_of_the_stall() -> None:
    run = copy()
    [found] = run.judge().causes
    assert found.share == pytest.approx(1)
    less = replace(run, steps=with_copies(run.steps, exposed_ms=0.5))
    assert causes(less) == []


def test_saturated_cores_are_named_in_the_evidence() -> None:
    [found] = cpu_loading().judge().causes
    assert "4 cores, 99 % busy" in found.evidence
    assert found.evidence.startswith("Workers compute 58.0 of 59.8 ms a batch")
