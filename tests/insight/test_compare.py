"""A comparison accounts for every millisecond and decides only what the steps can bear."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sides import make_side, make_steps
from test_bootstrap import ar1

from probe.insight.compare import Comparison, compare
from probe.insight.summary import PHASES
from probe.store.queries import Steps

B = {"id": 2, "name": "w4"}


def against(a: Steps, b: Steps, **sides: dict[str, Any]) -> Comparison:
    return compare(
        make_side(a, sides.get("run_a"), sides.get("loader_a")),
        make_side(b, B | sides.get("run_b", {}), sides.get("loader_b")),
    )


def noisy(n: int, mean_ms: float, rng: np.random.Generator) -> NDArray[np.float64]:
    return mean_ms * (1 + 0.15 * ar1(n, 0.6, rng))


@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.tuples(st.integers(20, 60), st.integers(20, 60)),
    longest_ns=st.integers(1, 10**13),
)
def test_phase_deltas_add_up_to_the_step_delta_exactly_in_any_order(
    seed: int, sizes: tuple[int, int], longest_ns: int
) -> None:
    rng = np.random.default_rng(seed)
    one, two = (
        make_steps(n, **{f"{phase}_ms": rng.integers(0, longest_ns, n) / 1e6 for phase in PHASES})
        for n in sizes
    )
    found = json.loads(json.dumps(against(one, two).to_json()))
    deltas = found["phases_ms_delta"]
    assert tuple(deltas) == PHASES
    if found["step_ms_delta"] is None:
        assert set(deltas.values()) == {None}
        return
    for order in itertools.permutations(deltas.values()):
        assert ((order[0] + order[1]) + order[2]) + order[3] == found["step_ms_delta"]
    assert math.fsum(deltas.values()) == found["step_ms_delta"]
    for name in (*PHASES, "step"):
        delta = found["step_ms_delta"] if name == "step" else deltas[name]
        assert found["baseline_ms"][name] + delta == found["candidate_ms"][name]
    true_ms = (two.step_ns[20:].mean() - one.step_ns[20:].mean()) / 1e6
    assert found["step_ms_delta"] == pytest.approx(true_ms, rel=1e-9, abs=4e-6)


def test_a_known_speed_up_is_found_with_its_ratio_and_its_cause() -> None:
    rng = np.random.default_rng(0)
    a = make_steps(400, wait_ms=noisy(400, 57, rng), compute_ms=36.0, epoch_length=100)
    b = make_steps(500, wait_ms=1.0, compute_ms=noisy(500, 39, rng), epoch_length=100)
    found = against(a, b)
    assert found.verdict == "faster"
    assert found.throughput_ratio == pytest.approx(93 / 40, rel=0.05)
    assert found.throughput_ci is not None
    assert found.throughput_ci[0] < 93 / 40 < found.throughput_ci[1]
    assert found.phases_ms_delta["wait"] == pytest.approx(-56, abs=2)
    assert found.phases_ms_delta["compute"] == pytest.approx(3, abs=1)
    interval = found.phases_ms_ci["wait"]
    assert interval is not None
    assert interval[0] < -56 < interval[1]
    assert found.sentence.startswith("w4 against baseline: 2.3")
    assert "Saved 5" in found.sentence
    back = against(b, a)
    assert back.verdict == "slower"
    assert "Lost 5" in back.sentence


def test_only_steady_steps_count() -> None:
    wait = np.full(100, 10.0)
    wait[:20] = 5000.0
    wait[[50]] = 800.0
    a = make_steps(100, wait_ms=wait, compute_ms=10.0, epoch_length=50)
    b = make_steps(100, wait_ms=10.0, compute_ms=10.0)
    found = against(a, b)
    assert found.throughput_ratio == 1
    assert found.step_ms_delta == 0
    assert found.verdict == "no difference"


def test_two_runs_of_the_same_are_seldom_called_different() -> None:
    rng = np.random.default_rng(0)
    verdicts = [
        against(
            make_steps(300, wait_ms=noisy(300, 50, rng)),
            make_steps(300, wait_ms=noisy(300, 50, rng)),
        ).verdict
        for _ in range(100)
    ]
    assert sum(verdict in ("faster", "slower") for verdict in verdicts) <= 7


def test_a_tenth_faster_is_nearly_always_found() -> None:
    rng = np.random.default_rng(0)
    verdicts = [
        against(
            make_steps(400, wait_ms=noisy(400, 50, rng)),
            make_steps(400, wait_ms=noisy(400, 45, rng)),
        ).verdict
        for _ in range(50)
    ]
    assert verdicts.count("faster") >= 45


def test_when_it_cannot_tell_it_says_how_many_steps_would() -> None:
    rng = np.random.default_rng(3)
    a = make_steps(140, wait_ms=50 * rng.gamma(4, 0.25, 140))
    b = make_steps(140, wait_ms=48 * rng.gamma(4, 0.25, 140))
    found = against(a, b)
    assert found.verdict == "cannot tell"
    assert found.sentence.startswith("Cannot tell yet: 120 steps, difference −")
    assert "steps would decide." in found.sentence


def test_a_small_difference_comes_with_the_advice_to_repeat() -> None:
    a = make_steps(200, wait_ms=50.0)
    assert any("repeat both" in w for w in against(a, make_steps(200, wait_ms=47.0)).warnings)
    assert not any("repeat both" in w for w in against(a, make_steps(200, wait_ms=30.0)).warnings)


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ({"loader_b": {"batch_size": 64}}, "the batch size differs (32, 64)"),
        ({"run_b": {"device": "NVIDIA A100"}}, "the device differs (cpu, NVIDIA A100)"),
        ({"run_b": {"config": {"cores": 8}}}, "the number of cores differs (2, 8)"),
        ({"run_b": {"world_size": 2}}, "the number of ranks differs (1, 2)"),
    ],
)
def test_other_work_or_other_hardware_gets_no_verdict(sides: dict[str, Any], said: str) -> None:
    a, b = make_steps(200, wait_ms=50.0), make_steps(200, wait_ms=25.0)
    found = against(a, b, **sides)
    assert found.verdict == "cannot tell"
    assert said in found.sentence
    assert found.throughput_ratio == pytest.approx(2)


def test_batch_sizes_that_no_loader_declares_are_taken_from_the_batches() -> None:
    a, b = make_steps(200, wait_ms=50.0), make_steps(200, wait_ms=25.0, samples=64.0)
    undeclared = {"loader_a": {"batch_size": None}, "loader_b": {"batch_size": None}}
    assert "batch size differs (32, 64)" in against(a, b, **undeclared).sentence
    assert against(a, make_steps(200, wait_ms=25.0), **undeclared).verdict == "faster"


def test_an_unknown_device_does_not_count_as_another() -> None:
    a, b = make_steps(200, wait_ms=50.0), make_steps(200, wait_ms=25.0)
    assert against(a, b, run_b={"device": None}).verdict == "faster"


def test_too_few_steady_steps_get_no_verdict() -> None:
    a, b = make_steps(200, wait_ms=50.0), make_steps(39, wait_ms=25.0)
    found = against(a, b)
    assert found.verdict == "cannot tell"
    assert "w4 has 39 steps, of which 19 count" in found.sentence
    assert found.throughput_ci is None
    assert found.phases_ms_delta["wait"] == -25


def test_no_steady_step_at_all_leaves_nothing_to_say() -> None:
    found = against(make_steps(200, wait_ms=50.0), make_steps(10, wait_ms=25.0))
    assert found.step_ms_delta is None
    assert found.throughput_ratio is None
    assert set(found.phases_ms_ci.values()) == {None}


def test_batches_that_cannot_be_counted_fall_back_to_steps_at_equal_batch_size() -> None:
    a = make_steps(200, wait_ms=50.0, samples=np.nan)
    b = make_steps(200, wait_ms=25.0)
    found = against(a, b)
    assert found.throughput_ratio == pytest.approx(2)
    assert "2.00 × steps/s" in found.sentence
    assert any("steps/s instead of samples/s" in warning for warning in found.warnings)
    unknown = against(a, b, loader_a={"batch_size": None})
    assert (unknown.throughput_ratio, unknown.verdict) == (None, "cannot tell")
    assert any("could be counted" in warning for warning in unknown.warnings)


def test_throughput_is_in_samples_where_batches_vary() -> None:
    a = make_steps(200, wait_ms=50.0, samples=32.0)
    b = make_steps(200, wait_ms=50.0, samples=np.tile([32.0, 48.0], 100))
    assert against(a, b).throughput_ratio == pytest.approx(1.25, rel=0.01)


def test_every_setting_that_differs_is_listed_with_both_values() -> None:
    a = make_steps(200, wait_ms=50.0)
    found = against(
        a,
        a,
        run_b={
            "strategy": "background",
            "config": {"cores": 2, "threads": 1, "versions": {"x": "2"}},
        },
        loader_b={"num_workers": 4, "chain": ["Background", "DataLoader"]},
    )
    assert [(d.setting, d.a, d.b) for d in found.differs] == [
        ("chain", ["DataLoader"], ["Background", "DataLoader"]),
        ("num_workers", 0, 4),
        ("strategy", "plain", "background"),
        ("config.versions.x", None, "2"),
    ]


def test_what_a_reader_should_know_is_warned_about() -> None:
    a = make_steps(200, wait_ms=50.0)
    found = against(
        a,
        a,
        run_a={"dropped": 1234},
        run_b={"status": "running", "host": "other"},
        loader_b={"dataset": "Texts"},
    )
    text = " ".join(found.warnings)
    assert "baseline lacks 1,234 steps" in text
    assert "w4 is still running" in text
    assert "The data set differs: Images, Texts." in text
    assert "The machine differs: machine, other." in text


def test_a_run_compared_with_itself_is_said_to_be() -> None:
    side = make_side(make_steps(200, wait_ms=50.0))
    found = compare(side, side)
    assert "Both are the same run." in found.warnings
    assert found.baseline == found.candidate == "baseline (run 1)"
