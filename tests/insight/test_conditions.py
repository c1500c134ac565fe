"""A condition fails a build only when the whole interval says so."""

from __future__ import annotations

import numpy as np
import pytest
from sides import make_side, make_steps

from probe.insight.compare import compare
from probe.insight.conditions import Outcome, decide, parse
from probe.insight.settings import Side

RNG = np.random.default_rng(0)
BEFORE = make_side(make_steps(500, wait_ms=20 + RNG.normal(0, 1, 500), compute_ms=20.0))
AFTER = make_side(
    make_steps(500, wait_ms=10 + RNG.normal(0, 1, 500), compute_ms=20.0), {"id": 2, "name": "w4"}
)


def decided(text: str, a: Side = BEFORE, b: Side = AFTER) -> Outcome:
    return decide(parse(text), compare(a, b), a, b)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("throughput < 0.97", False),
        ("throughput>1.2", True),
        ("throughput >= 120%", True),
        ("throughput < 1.333", None),
        ("stall > 5%", True),
        ("stall > 0.5", False),
        ("stall <= 33.3 %", None),
        ("wait_ms < 9", False),
        ("wait_ms < 11 ms", True),
        ("step_ms > 30", None),
        ("wait_ms_p95 < 12.5", True),
        ("wait_ms_p99 > 13", False),
        ("step_ms_p95 > 31.65", None),
    ],
)
def test_the_whole_interval_decides(text: str, holds: bool | None) -> None:
    found = decided(text)
    assert found.holds is holds
    assert found.sentence.startswith({True: "Fails", False: "Passes", None: "Cannot tell"}[holds])
    assert found.interval is not None
    assert found.interval[0] <= found.interval[1]


@pytest.mark.parametrize(
    "text",
    ["", "throughput", "throughput = 1", "speed < 1", "stall > 5 ms", "wait_ms > 5%", "stall > x"],
)
def test_what_cannot_be_read_is_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="the metrics are throughput, stall") as error:
        parse(text)
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)


def test_other_hardware_decides_nothing_about_throughput() -> None:
    other = make_side(AFTER.steps, {"id": 2, "device": "NVIDIA A100"})
    found = decided("throughput < 0.97", b=other)
    assert (found.holds, found.interval) == (None, None)
    assert "the device differs" in found.sentence
    assert decided("stall > 5%", b=other).holds is True


def test_too_few_steps_decide_nothing() -> None:
    few = make_side(make_steps(30, wait_ms=1.0), {"id": 2, "name": "few"})
    for text in ("throughput < 0.97", "stall > 5%", "wait_ms > 3", "step_ms_p99 > 3"):
        found = decided(text, b=few)
        assert found.holds is None
        assert "few has 30 steps" in found.sentence


def test_the_interval_of_a_percentile_holds_it_as_often_as_promised() -> None:
    rng = np.random.default_rng(1)
    truth = float(np.quantile(rng.gamma(4, 5, 1_000_000), 0.95))
    hits = 0
    for _ in range(100):
        side = make_side(make_steps(520, wait_ms=rng.gamma(4, 5, 520)), {"id": 2})
        interval = decided("wait_ms_p95 > 1", b=side).interval
        assert interval is not None
        hits += interval[0] <= truth <= interval[1]
    assert hits >= 88
