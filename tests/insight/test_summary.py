"""The summary counts what it says it counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sides import make_loader, make_steps

from probe.insight.summary import PHASES, after_warm_up, only, steady, summarize


def test_share_and_rate_leave_out_warm_up_and_keep_epoch_starts() -> None:
    wait = np.full(120, 10.0)
    wait[:20] = 1000.0
    wait[60] = 110.0  # the second epoch's workers start
    steps = make_steps(120, wait_ms=wait, compute_ms=30.0, samples=8, epoch_length=60)
    found = summarize(make_loader(), steps)
    assert found.stall_share == pytest.approx(1100 / 4100)
    assert found.samples_per_s == pytest.approx(8 * 100 / 4.1)
    assert found.epoch_start_ms == pytest.approx((1000 + 110) / 2)
    assert found.steps == 120


def test_the_first_step_of_an_epoch_is_in_totals_only() -> None:
    wait = np.full(100, 2.0)
    wait[[0, 50]] = 500.0
    found = summarize(make_loader(), make_steps(100, wait_ms=wait, epoch_length=50))
    assert found.wait_ms.total == pytest.approx(98 * 2 + 1000)
    assert found.wait_ms.max == found.wait_ms.p99 == found.wait_ms.mean == pytest.approx(2.0)


def test_percentiles_are_those_of_the_steps() -> None:
    wait = np.arange(1001.0)
    steps = make_steps(1001, wait_ms=wait)
    found = summarize(make_loader(), steps).wait_ms
    inner = wait[1:]
    expected = np.percentile(inner, (50, 95, 99))
    assert (found.p50, found.p95, found.p99) == pytest.approx(tuple(expected))
    assert (found.mean, found.max) == pytest.approx((inner.mean(), 1000))


def test_what_is_not_known_is_none() -> None:
    nothing = summarize(make_loader(), make_steps(0))
    assert (nothing.samples_per_s, nothing.stall_share, nothing.stall_share_ci) == (None,) * 3
    assert (nothing.wait_ms.mean, nothing.wait_ms.total, nothing.epoch_start_ms) == (None, 0, None)
    short = summarize(make_loader(), make_steps(39, wait_ms=1.0, compute_ms=1.0))
    assert short.stall_share == 0.5
    assert short.stall_share_ci is None
    uncounted = np.full(100, 32.0)
    uncounted[50] = np.nan
    assert (
        summarize(make_loader(), make_steps(100, wait_ms=1.0, samples=uncounted)).samples_per_s
        is None
    )


def test_the_interval_of_a_share_does_not_leave_0_to_1() -> None:
    wait = np.zeros(60)
    wait[[33, 50]] = 100.0
    rare = summarize(make_loader(), make_steps(60, wait_ms=wait, compute_ms=10.0))
    assert rare.stall_share_ci is not None
    assert rare.stall_share_ci[0] == 0
    constant = summarize(make_loader(), make_steps(60, wait_ms=10.0))
    assert constant.stall_share_ci == (1, 1)


def test_stall_is_of_the_device_where_it_was_measured() -> None:
    steps = make_steps(100, wait_ms=20.0, compute_ms=20.0, exposed_wait_ms=2.0)
    found = summarize(make_loader(), steps)
    assert found.stall_clock == "device"
    assert found.stall_share == pytest.approx(0.05)


@given(
    phases=st.lists(st.tuples(*[st.floats(0, 1e4)] * 4), min_size=1, max_size=60),
    epoch_length=st.integers(1, 30),
)
def test_phases_add_up_to_the_step_and_intervals_stay_shares(
    phases: list[tuple[float, ...]], epoch_length: int
) -> None:
    wait, copy, compute, other = np.array(phases).T
    steps = make_steps(
        len(phases),
        wait_ms=wait,
        copy_ms=copy,
        compute_ms=compute,
        other_ms=other,
        epoch_length=epoch_length,
    )
    found = summarize(make_loader(), steps)
    totals = [getattr(found, f"{phase}_ms").total for phase in PHASES]
    assert sum(totals) == pytest.approx(found.step_ms.total)
    if found.stall_share_ci is not None:
        assert found.stall_share is not None
        assert 0 <= found.stall_share_ci[0] <= found.stall_share_ci[1] <= 1


def test_steady_is_after_warm_up_without_epoch_starts() -> None:
    steps = make_steps(50, wait_ms=np.arange(50.0), epoch_length=25)
    assert np.flatnonzero(after_warm_up(steps)).tolist() == list(range(20, 50))
    kept = only(steps, steady(steps))
    assert kept.step.tolist() == [i for i in range(20, 50) if i != 25]
    assert kept.wait_ns.tolist() == [i * 1_000_000 for i in kept.step]
