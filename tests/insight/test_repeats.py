"""What repeats are said to show is right as often as it is promised."""

from __future__ import annotations

import math
import random

import pytest

from probe.insight.repeats import best, decided, mean_rate, next_rate, not_slower, pairs

# Student's t, 95 % two-sided, from printed tables.
TABLE = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 9: 2.262, 29: 2.045}


def around(rng: random.Random, rate: float, repeats: int, spread: float = 0.03) -> list[float]:
    return [rate * math.exp(rng.gauss(0, spread)) for _ in range(repeats)]


@pytest.mark.parametrize("freedom", TABLE)
def test_intervals_use_students_t(freedom: int) -> None:
    # Logarithms with mean 0 and standard deviation s.
    n = freedom + 1
    logs = [1.0 if i % 2 else -1.0 for i in range(n - n % 2)] + [0.0] * (n % 2)
    s = math.sqrt(sum(x * x for x in logs) / freedom)
    found = next_rate([math.exp(x * 0.01) for x in logs])
    assert found is not None
    expected = TABLE[freedom] * s * 0.01 * math.sqrt(1 + 1 / n)
    assert math.log(found[1]) == pytest.approx(expected, rel=1e-3)
    assert math.log(found[0]) == pytest.approx(-expected, rel=1e-3)


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_another_run_lies_inside_as_often_as_promised(repeats: int) -> None:
    rng = random.Random(repeats)
    inside = 0
    for _ in range(2000):
        found = next_rate(around(rng, 500, repeats))
        assert found is not None
        inside += found[0] <= 500 * math.exp(rng.gauss(0, 0.03)) <= found[1]
    assert 0.935 <= inside / 2000 <= 0.965


def test_one_repeat_says_nothing_of_the_next() -> None:
    assert next_rate([500.0]) is None
    (pair,) = pairs({"a": [100.0], "b": [200.0]})
    assert pair.ratio == pytest.approx(2)
    assert pair.p is pair.adjusted is pair.interval is None
    assert not decided({"a": [100.0], "b": [200.0]}, looks=1)


def test_drift_from_round_to_round_falls_out() -> None:
    rng = random.Random(1)
    drift = [1.0, 0.7, 1.3, 0.9]
    a, b = around(rng, 100, 4, 0.002), around(rng, 110, 4, 0.002)
    rates = {
        "a": [rate * by for rate, by in zip(a, drift, strict=True)],
        "b": [rate * by for rate, by in zip(b, drift, strict=True)],
    }
    (pair,) = pairs(rates)
    assert pair.interval is not None
    assert 1.08 < pair.interval[0] < pair.ratio < pair.interval[1] < 1.12


def test_a_round_that_one_of_two_lacks_does_not_count_for_the_pair() -> None:
    (pair,) = pairs({"a": [100.0, None, 100.0], "b": [200.0, 999.0, 200.0]})
    assert pair.ratio == pytest.approx(2)
    assert mean_rate([None, 100.0]) == pytest.approx(100)
    assert mean_rate([None]) is None


def test_p_values_are_adjusted_by_holm() -> None:
    rng = random.Random(2)
    found = pairs({name: around(rng, 100, 4) for name in "abcd"})
    assert len(found) == 6
    in_order = sorted(found, key=lambda pair: pair.p or 0)
    least = 0.0
    for rank, pair in enumerate(in_order):
        assert pair.p is not None
        least = max(least, min(1, pair.p * (6 - rank)))
        assert pair.adjusted == pytest.approx(least)


def test_equals_are_rarely_told_apart_however_often_one_looks() -> None:
    rng = random.Random(3)
    races, repeats, wrong = 400, 6, 0
    for _ in range(races):
        rates = {name: around(rng, 100, repeats, 0.05) for name in "abcd"}
        looks = range(2, repeats)
        # Wide noise: the interval cannot lie within 2 % either, so "decided" means "told apart".
        wrong += any(
            decided({name: own[:n] for name, own in rates.items()}, len(looks)) for n in looks
        )
    assert wrong / races <= 0.05


def test_the_level_is_shared_out_among_the_times_of_asking() -> None:
    rates = {"a": [100.0, 100.0, 100.0], "b": [110.0, 113.0, 118.0]}
    (pair,) = pairs(rates)
    assert pair.adjusted is not None
    assert 0.01 < pair.adjusted < 0.05
    assert decided(rates, looks=1)
    assert not decided(rates, looks=5)


def test_clear_winners_are_found_after_a_few_rounds() -> None:
    rng = random.Random(4)
    found = 0
    for _ in range(200):
        rates = {name: around(rng, rate, 3) for name, rate in (("a", 100), ("b", 200), ("c", 400))}
        found += decided(rates, looks=3)
    assert found >= 180


def test_equals_to_within_two_percent_are_decided_too() -> None:
    same = {"a": [100.0, 101.0, 99.0], "b": [100.1, 101.0, 99.1]}
    assert decided(same, looks=1)
    assert not decided({**same, "c": [80.0, 101.0, 125.0]}, looks=1)
    assert not decided({**same, "c": [None, 50.0, None]}, looks=1)
    assert not decided({"a": [100.0, 100.0, 100.0]}, looks=1)


def test_what_is_not_slower_than_the_best() -> None:
    rates = {
        "plain": [100.0, 101.0, 99.0],
        "close": [392.0, 399.0, 384.0],
        "best": [400.0, 405.0, 396.0],
        "noisy": [650.0, 300.0, 250.0],
    }
    assert best(rates) == "best"
    assert not_slower(rates, tolerance=0.1) == ["close", "best", "noisy"]
    # Not shown to be slower, yet measured too far below.
    assert not_slower(rates, tolerance=0.05) == ["close", "best"]
    # Shown to be slower, though by little.
    little = {"a": [98.0, 98.1, 97.9, 98.0], "b": [100.0, 100.1, 99.9, 100.0]}
    assert not_slower(little, tolerance=0.05) == ["b"]
    # Slower beyond doubt, and by less than matters.
    less = {"a": [99.0, 99.1, 98.9, 99.0], "b": [100.0, 100.1, 99.9, 100.0]}
    assert not_slower(less, tolerance=0.05) == ["a", "b"]
    assert not_slower({}, tolerance=0.05) == []
