"""Each cause is found where it is, first, and nowhere else."""

from __future__ import annotations

import pytest
from runs import HEALTHY, MIXED, ONE_FOR_EACH, no_fetch_data, slow_hand_over

from probe.insight.causes import Cause


@pytest.mark.parametrize("cause", ONE_FOR_EACH)
def test_a_run_with_one_cause_names_it_first(cause: str) -> None:
    verdict = ONE_FOR_EACH[cause]().judge()
    assert verdict.causes[0].cause == cause
    assert verdict.short.endswith(f"· {cause}")
    assert verdict.causes[0].title.lower() in verdict.sentence.lower()


@pytest.mark.parametrize("name", HEALTHY)
def test_no_cause_is_claimed_where_there_is_none(name: str) -> None:
    assert [cause.cause for cause in HEALTHY[name]().judge().causes] == []


@pytest.mark.parametrize("causes", MIXED)
def test_of_two_causes_the_larger_is_named_first(causes: tuple[str, str]) -> None:
    found = MIXED[causes]().judge().causes
    assert tuple(cause.cause for cause in found[:2]) == causes
    assert found[0].share > found[1].share


@pytest.mark.parametrize("make", [*ONE_FOR_EACH.values(), *MIXED.values()])
def test_what_a_cause_says_fits_together(make: object) -> None:
    assert callable(make)
    recorded = make()
    verdict = recorded.judge()
    steps = recorded.steps
    stalled = steps.stall_ns[20:].sum() / steps.step_ns[20:].sum()
    assert sum(cause.share for cause in verdict.causes) <= 1 + 1e-9
    for cause in verdict.causes:
        assert 0 < cause.share <= 1
        low, high = cause.gain
        assert 1 <= low <= high <= 1 / (1 - stalled) + 1e-9
        assert cause.confidence in ("high", "medium", "low")
        assert all(setting in cause.advice for setting in cause.settings)
        assert " if " in cause.advice


def test_the_sentence_says_cause_figures_and_what_to_try() -> None:
    sentence = ONE_FOR_EACH["storage"]().judge().sentence
    assert "Storage: workers sit 75.2 of 79.2 ms a batch off the core, 95 %" in sentence
    assert "Try num_workers=8: 1." in sentence
    assert sentence.endswith("more than 2.12 ×.")


def test_a_burst_is_named_with_its_period() -> None:
    assert (
        "Burst, every 8 steps: 8 workers deliver together"
        in ONE_FOR_EACH["burst"]().judge().sentence
    )


def test_without_fetches_it_says_what_is_missing() -> None:
    evidence = " ".join(no_fetch_data().judge().evidence)
    assert "No batch was seen being made" in evidence
    assert "How many batches lay ready was not recorded" in evidence


def test_a_wait_that_batches_do_not_explain_is_said_to_be_so() -> None:
    evidence = " ".join(slow_hand_over().judge().evidence)
    assert "does not explain the wait" in evidence
    assert "between the workers and the loop" in evidence


def test_a_draining_queue_leaves_the_class_open() -> None:
    verdict = ONE_FOR_EACH["queue-draining"]().judge()
    assert verdict.class_ == "undecided"
    assert "that will not last" in verdict.sentence
    [cause] = verdict.causes
    assert "steady state not reached" in cause.advice
    # Two workers make a batch every 12 ms, the loop takes one every 10: a sixth is waiting.
    assert "will wait about 17 % of the time" in cause.advice


def first(cause: str) -> Cause:
    return ONE_FOR_EACH[cause]().judge().causes[0]


def test_the_gain_is_the_simulators() -> None:
    # Spread evenly, four workers take a quarter of the time of one: nothing is lost between them.
    low, high = first("too-few-workers").gain
    assert 3.5 < low < high <= 4


@pytest.mark.parametrize(
    ("cause", "settings"),
    [
        ("storage", ("num_workers=8",)),
        ("cpu-loading", ()),
        ("too-few-workers", ("num_workers=4",)),
        ("oversubscribed", ("num_workers=3",)),
        ("burst", ("num_workers=30",)),
        ("epoch-start", ("persistent_workers=True",)),
        ("copy", ("pin_memory=True", "non_blocking=True")),
        ("main-thread", ("num_workers=2",)),
        ("queue-draining", ()),
    ],
)
def test_the_advice_names_the_setting_and_its_value(cause: str, settings: tuple[str, ...]) -> None:
    assert first(cause).settings == settings
