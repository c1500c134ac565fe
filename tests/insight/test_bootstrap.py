"""An interval must hold the truth as often as it says, also when steps depend on each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from probe.insight.bootstrap import block_length, block_sums, bounds, ratio, ratio_interval


def ar1(n: int, persistence: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """A first-order autoregression with variance 1."""
    noise = rng.normal(size=n + 200) * np.sqrt(1 - persistence**2)
    series = np.zeros(n + 200)
    for i in range(1, n + 200):
        series[i] = persistence * series[i - 1] + noise[i]
    return series[200:]


@pytest.mark.parametrize(("n", "persistence"), [(60, 0.0), (400, 0.5), (400, 0.8), (1500, 0.9)])
def test_the_interval_of_a_share_holds_the_truth_about_as_often_as_promised(
    n: int, persistence: float
) -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        wait = 30 + 5 * ar1(n, persistence, rng)
        interval = ratio_interval(wait, wait + 40)
        assert interval is not None
        hits += interval[0] <= 30 / 70 <= interval[1]
    assert hits / 200 >= 0.89


def test_resampling_single_steps_would_promise_too_much() -> None:
    rng = np.random.default_rng(0)
    narrow = 0
    for _ in range(100):
        columns = np.stack([30 + 5 * ar1(400, 0.8, rng), np.ones(400)], axis=1)
        sums = block_sums(columns, 1, 300, seed=0)
        low, high = bounds(columns[:, 0].mean(), sums[:, 0] / sums[:, 1], 400)
        narrow += not low <= 30 <= high
    assert narrow / 100 > 0.3


def test_fewer_than_twenty_steps_are_too_few() -> None:
    assert ratio_interval(np.ones(19), np.full(19, 2.0)) is None
    assert ratio_interval(np.ones(20), np.full(20, 2.0)) == (0.5, 0.5)


def test_steps_that_took_no_time_have_no_ratio() -> None:
    assert ratio(np.zeros(50), np.zeros(50)) is None


def test_the_same_data_give_the_same_interval_and_another_seed_other_draws() -> None:
    wait = np.random.default_rng(0).gamma(2, 10, size=200)
    assert ratio_interval(wait, wait + 5) == ratio_interval(wait, wait + 5)
    first, second = ratio(wait, wait + 5, seed=0), ratio(wait, wait + 5, seed=1)
    assert first is not None
    assert second is not None
    assert abs(np.corrcoef(first.draws, second.draws)[0, 1]) < 0.15


def test_a_resample_of_whole_circles_sums_to_the_whole() -> None:
    columns = np.arange(12.0).reshape(6, 2)
    assert np.allclose(block_sums(columns, 6, 50, seed=0), columns.sum(axis=0))


def test_blocks_reach_over_the_dependence() -> None:
    rng = np.random.default_rng(0)
    alone = np.mean([block_length(rng.normal(size=1000)) for _ in range(20)])
    dependent = np.mean([block_length(ar1(1000, 0.9, rng)) for _ in range(20)])
    assert dependent > 2 * alone


@given(n=st.integers(1, 5000), seed=st.integers(0, 10))
def test_a_block_is_neither_empty_nor_most_of_the_data(n: int, seed: int) -> None:
    length = block_length(np.random.default_rng(seed).normal(size=n).cumsum())
    assert 1 <= length <= max(2 * np.cbrt(n) + 1, n / 5)


def test_a_million_steps_cost_a_thousand_blocks() -> None:
    assert block_length(np.random.default_rng(0).normal(size=1_000_000)) >= 1000


@given(level=st.floats(0.5, 0.99), blocks=st.floats(4, 1e6))
def test_few_blocks_widen_and_many_do_not(level: float, blocks: float) -> None:
    draws = np.random.default_rng(0).normal(10, 1, size=1000)
    plain_low, plain_high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    low, high = bounds(10.0, draws, blocks, level)
    assert high - low >= (plain_high - plain_low) * (1 - 1e-12)
    assert high - low <= (plain_high - plain_low) * (1 + 6 / (blocks - 1)) * (1 + 1e-9)
