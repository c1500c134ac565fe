"""A ratio of rates knows how its runs drift, and decides no sooner than its interval."""

from __future__ import annotations

import numpy as np
import pytest
from sides import make_side, make_steps
from test_bootstrap import ar1

from probe.insight.bootstrap import drift
from probe.insight.throughput import counted_by, per_second, rate, steps_missing, verdict_of


@pytest.mark.parametrize("persistence", [0.0, 0.3])
def test_a_steady_series_seldom_seems_to_drift(persistence: float) -> None:
    rng = np.random.default_rng(0)
    found = [drift(ar1(480, persistence, rng)) for _ in range(200)]
    assert np.mean([excess > 0 for excess in found]) < 0.25


def test_a_series_that_wanders_drifts_by_about_what_it_wanders() -> None:
    rng = np.random.default_rng(0)
    levels = np.repeat(rng.normal(0, 3, size=(200, 8)), 60, axis=1)
    found = [drift(level + rng.normal(size=480)) for level in levels]
    assert np.mean(found) == pytest.approx(9, rel=0.1)


def test_drift_widens_the_interval_of_a_rate() -> None:
    rng = np.random.default_rng(0)
    shaken = 10 + rng.normal(0, 1, 480)
    wandering = shaken + 4 * np.repeat([0, 1, 0, 0, 1, 0, 1, 1], 60)
    spreads = []
    for times in (shaken, wandering):
        side = make_side(make_steps(480, wait_ms=times))
        found = rate(side, side.steps.samples, seed=0)
        assert found is not None
        spreads.append(found.draws.std() / found.value)
        assert (found.draws > 0).all()
    assert spreads[1] > 10 * spreads[0]


def test_nothing_counted_is_no_rate_and_no_error() -> None:
    side = make_side(make_steps(100, wait_ms=5.0, samples=0.0))
    assert per_second(side, side.steps.samples) is None
    found = rate(side, side.steps.samples, seed=0)
    assert found is not None
    assert found.value == 0


def test_steps_are_counted_only_if_all_batches_have_one_size() -> None:
    unknown = make_side(make_steps(50, samples=np.nan))
    units, remark = counted_by([unknown, make_side(make_steps(50))])
    assert units is not None
    assert units[1].tolist() == [1] * 50
    assert remark is not None
    other = make_side(make_steps(50), loader={"batch_size": 64})
    assert counted_by([unknown, other])[0] is None


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ((1.01, 1.2), "faster"),
        ((0.8, 0.99), "slower"),
        ((0.99, 1.01), "no difference"),
        ((1.001, 1.019), "no difference"),
        ((0.9, 1.1), "cannot tell"),
        ((1.0, 1.2), "cannot tell"),
        (None, "cannot tell"),
    ],
)
def test_the_interval_decides(interval: tuple[float, float] | None, verdict: str) -> None:
    assert verdict_of(interval) == verdict


def test_a_quarter_of_the_reach_takes_four_times_the_steps() -> None:
    assert steps_missing(1.05, (0.95, 1.15), 100) == 300
    assert steps_missing(1.0, (0.96, 1.03), 100) in (300, 301)  # as floats round
    assert steps_missing(1.021, (0.5, 1.5), 100) is None
