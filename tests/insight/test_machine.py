"""What a machine's samples say of a run and of its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from sides import make_run

from probe.insight.machine import Load, load_of, usable_cores
from probe.store.queries import HostSamples

NAN = float("nan")


def samples(cpu: list[float], tree: list[float]) -> HostSamples:
    unknown = np.full(len(cpu), NAN)
    time = np.arange(len(cpu)) * 200_000_000
    return HostSamples(time, np.array(cpu), np.array(tree), unknown, unknown, unknown)


def test_the_rest_is_what_other_programs_use_though_the_run_is_sampled_less_often() -> None:
    # The run is known in one sample of five, for all of the second before it.
    load = load_of(samples([0.9, 1.0, 1.0, 1.0, 0.9] * 4, [NAN, NAN, NAN, NAN, 0.3] * 4))
    assert load.busy == pytest.approx(0.96)
    assert load.others == pytest.approx(0.66)
    assert load.is_disturbed
    assert load.in_cores(2.0) == (pytest.approx(0.6), pytest.approx(1.32))


def test_a_run_is_disturbed_only_where_no_core_is_free_and_others_hold_some() -> None:
    assert not load_of(samples([0.8] * 5, [0.1] * 5)).is_disturbed
    assert not load_of(samples([0.99] * 5, [0.95] * 5)).is_disturbed
    assert not load_of(samples([0.99] * 5, [NAN] * 5)).is_disturbed
    # Out of its quota on an idle machine.
    assert load_of(samples([0.1] * 5, [1.0] * 5)) == Load(1.0, 1.0, 0.0)
    assert load_of(samples([], [])) == Load(None, None, None)


@pytest.mark.parametrize("cores", [True, NAN, float("inf"), 0, -2, "2", None])
def test_what_is_no_number_of_cores_is_not_known(cores: object) -> None:
    assert usable_cores(make_run(config={"cores": cores})) is None
    assert usable_cores(make_run(config={"cores": 0.25})) == 0.25
