"""A class is claimed only where the whole interval lies in it, and the sentence has the numbers."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sides import make_loader, make_steps

from probe.insight.summary import summarize
from probe.insight.verdict import Verdict, judge
from probe.store.queries import Steps


def verdict(steps: Steps) -> Verdict:
    return judge(summarize(make_loader(), steps), steps)


@pytest.mark.parametrize(
    ("wait", "class_"),
    [
        (0.0, "compute-bound"),
        (4.9, "compute-bound"),
        (5.0, "moderately input-bound"),
        (19.9, "moderately input-bound"),
        (20.0, "highly input-bound"),
        (100.0, "highly input-bound"),
    ],
)
def test_the_classes_begin_where_xprofs_do(wait: float, class_: str) -> None:
    found = verdict(make_steps(200, wait_ms=wait, compute_ms=100.0 - wait))
    assert found.class_ == class_
    assert found.sentence.startswith(class_.capitalize())
    assert found.causes == []


def test_the_sentence_says_share_interval_and_upper_bound() -> None:
    rng = np.random.default_rng(0)
    steps = make_steps(2000, wait_ms=rng.normal(60, 12, 2000), compute_ms=40.0)
    found = verdict(steps)
    share = steps.stall_ns[20:].sum() / steps.step_ns[20:].sum()
    said = re.search(r"for data (\d+) % of the time \(95 %: ([\d.]+)–([\d.]+) %\)", found.sentence)
    assert said is not None
    assert int(said[1]) == round(share * 100)
    assert float(said[2]) < share * 100 < float(said[3])
    assert f"more than {1 / (1 - share):.2f} ×." in found.sentence


def test_nothing_but_waiting_has_no_upper_bound() -> None:
    assert "no upper bound" in verdict(make_steps(100, wait_ms=10.0)).sentence


def test_between_two_classes_it_says_which_and_how_many_steps_would_decide() -> None:
    rng = np.random.default_rng(1)
    n = 100
    found = verdict(make_steps(n, wait_ms=rng.gamma(1, 6, n), compute_ms=100.0))
    assert found.class_ == "undecided"
    assert found.sentence.startswith(
        "Undecided between compute-bound and moderately input-bound: the loop waits"
    )
    more = re.search(r"About ([\d,]+) more steps would decide\.", found.sentence)
    assert more is not None
    needed = n + int(more[1].replace(",", ""))
    # The promise is about the width of the interval, so with ample steps the class is decided.
    decided = [
        verdict(make_steps(m, wait_ms=rng.gamma(1, 6, m), compute_ms=100.0)).class_
        for m in [4 * needed] * 10
    ]
    assert decided.count("moderately input-bound") >= 8


def test_the_missing_steps_follow_from_the_width_of_the_interval() -> None:
    steps = make_steps(120, wait_ms=6.0, compute_ms=94.0)
    # The interval reaches twice as far as the border: four times the 100 counted steps are needed.
    wide = replace(summarize(make_loader(), steps), stall_share_ci=(0.04, 0.08))
    assert "About 300 more steps would decide." in judge(wide, steps).sentence
    just = replace(summarize(make_loader(), steps), stall_share_ci=(0.0499, 0.07))
    assert "About 2 more steps would decide." in judge(just, steps).sentence
    just = replace(just, stall_share_ci=(0.05 - 1e-9, 0.07))
    assert "About 1 more step would decide." in judge(just, steps).sentence


def test_a_share_on_the_border_is_not_promised_a_decision() -> None:
    wait = np.random.default_rng(0).permutation(np.tile([4.0, 6.0], 200))
    wait = np.concatenate([wait[:20], wait])
    found = verdict(make_steps(420, wait_ms=wait, compute_ms=100 - wait))
    assert found.class_ == "undecided"
    assert "too close to the border" in found.sentence


def test_a_short_noisy_run_may_be_of_any_class() -> None:
    wait = np.zeros(45)
    wait[[30, 41]] = 200.0
    found = verdict(make_steps(45, wait_ms=wait, compute_ms=100.0))
    assert found.sentence.startswith("Undecided between compute-bound and highly input-bound")


@pytest.mark.parametrize("n", [0, 12, 20, 39])
def test_too_few_steps_are_said_to_be_too_few(n: int) -> None:
    found = verdict(make_steps(n, wait_ms=1.0, compute_ms=1.0))
    assert found.class_ == "undecided"
    assert f"{n} recorded" in found.sentence
    assert f"{40 - n} more" in found.sentence


def test_a_run_without_a_watched_loop_is_not_judged() -> None:
    found = judge(None, None)
    assert (found.class_, found.evidence, found.causes) == ("undecided", [], [])
    assert "no loop" in found.sentence


def test_steps_that_took_no_time_are_not_judged() -> None:
    assert verdict(make_steps(100)).class_ == "undecided"


def test_the_evidence_names_the_step_of_the_longest_wait_outside_epoch_starts() -> None:
    wait = np.full(300, 2.0)
    wait[[0, 100, 200]] = 900.0
    wait[123] = 55.0
    found = verdict(make_steps(300, wait_ms=wait, compute_ms=40.0, epoch_length=100))
    text = " ".join(found.evidence)
    assert "the longest wait, 55.0 ms, delayed step 123" in text
    assert "first step of an epoch waits 900 ms on average" in text
    assert "wait 2.2, copy 0, compute 40.0, other 0" in text


def test_a_host_clock_is_called_one_and_a_device_clock_is_not() -> None:
    host = verdict(make_steps(100, wait_ms=20.0, compute_ms=20.0))
    device = verdict(make_steps(100, wait_ms=20.0, compute_ms=20.0, exposed_wait_ms=1.0))
    assert any("Host clock" in line for line in host.evidence)
    assert not any("Host clock" in line for line in device.evidence)
    assert "the device stands still for data 2.5 % of the time" in device.sentence
