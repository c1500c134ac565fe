"""A comparison accounts for every millisecond and decides only what the steps can bear."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sides import make_side, make_steps
from test_bootstrap import ar1

from probe.insight import words
from probe.insight.compare import Comparison, compare
from probe.insight.summary import PHASES
from probe.report import comparison
from probe.store.queries import Steps, Store

SAMPLE = Path(__file__).parents[2] / "data" / "sample.db"
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
            make_steps(600, wait_ms=noisy(600, 50, rng)),
            make_steps(600, wait_ms=noisy(600, 45, rng)),
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


def test_the_waterfall_adds_up_for_every_pair_of_the_sample() -> None:
    with Store(SAMPLE) as store:
        runs = store.runs()
        pairs = [comparison(store, a, b) for a, b in itertools.permutations(runs, 2)]
    assert len(pairs) >= 12
    for found in pairs:
        deltas = [found.phases_ms_delta[phase] for phase in PHASES]
        for order in itertools.permutations(deltas):
            assert sum(order) == found.step_ms_delta  # floats that add up exactly in any order
        for phase in (*PHASES, "step"):
            before, after = found.baseline_ms[phase], found.candidate_ms[phase]
            delta = found.step_ms_delta if phase == "step" else found.phases_ms_delta[phase]
            assert before + delta == after


def test_another_batch_size_is_compared_in_samples_and_not_in_ms() -> None:
    rng = np.random.default_rng(0)
    a = make_steps(300, wait_ms=noisy(300, 50, rng), compute_ms=10.0)
    b = make_steps(300, wait_ms=noisy(300, 60, rng), compute_ms=20.0, samples=64.0)
    found = against(a, b, loader_b={"batch_size": 64})
    assert found.throughput_ratio == pytest.approx(2 * 60 / 80, rel=0.1)
    assert found.throughput_ci is not None
    assert found.throughput_ci[0] > 1.2
    assert "the batch size differs (32, 64)" in found.sentence
    assert "In samples/s, w4 against baseline: 1.5" in found.sentence
    assert "ms a step" not in found.sentence
    assert (found.step_ms_delta, found.step_ms_ci, found.bound) == (None, None, None)
    assert set(found.phases_ms_delta.values()) == set(found.phases_ms_ci.values()) == {None}
    assert any(w.startswith("The batch size differs (32, 64)") for w in found.warnings)
    assert ("batch_size", 32, 64) in [(d.setting, d.a, d.b) for d in found.differs]
    assert "batch size" not in found.alike
    json.loads(json.dumps(found.to_json(), allow_nan=False))


def test_no_difference_says_how_large_one_may_still_be() -> None:
    rng = np.random.default_rng(0)
    a, b = (make_steps(2000, wait_ms=50 + rng.normal(0, 2, 2000)) for _ in range(2))
    found = against(a, b)
    assert found.verdict == "no difference"
    assert found.throughput_ci is not None
    most = max(found.throughput_ci[1] - 1, 1 - found.throughput_ci[0])
    assert found.sentence.endswith(f": no difference larger than {words.percent(most)}.")


def test_more_steps_decide_what_so_many_could_not() -> None:
    rng = np.random.default_rng(7)
    a, b = 50 * rng.gamma(4, 0.25, 3000), 46 * rng.gamma(4, 0.25, 3000)
    first = against(make_steps(140, wait_ms=a[:140]), make_steps(140, wait_ms=b[:140]))
    assert first.verdict == "cannot tell"
    assert first.more_steps is not None
    assert f"About {words.about(first.more_steps)} more steps would decide." in first.sentence
    assert against(make_steps(3000, wait_ms=a), make_steps(3000, wait_ms=b)).verdict == "faster"


def test_the_speed_up_is_a_share_of_what_the_baseline_allowed() -> None:
    a = make_steps(200, wait_ms=57.0, compute_ms=36.0)
    found = against(a, make_steps(200, wait_ms=1.0, compute_ms=39.0))
    assert found.bound == pytest.approx(93 / 36)
    assert found.share_of_bound == pytest.approx((93 / 40) / (93 / 36))
    assert ", 90 % of what was possible. Saved" in found.sentence
    other = against(a, make_steps(200, compute_ms=18.0))
    assert "more than any input fix could give" in other.sentence
    assert against(make_steps(200, wait_ms=9.0), a).bound is None  # nothing but waiting


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        ({"loader_b": {"num_workers": 4}}, "4 workers compete with the model for 2 cores"),
        (
            {"loader_b": {"num_workers": 1, "chain": ["Background", "DataLoader"]}},
            "1 worker and a background thread compete with the model for 2 cores",
        ),
        (
            {"loader_b": {"chain": ["Background", "DataLoader"]}},
            "a background thread takes turns with the loop in one interpreter",
        ),
        ({}, "by more than noise"),
        (
            {"loader_b": {"num_workers": 4}, "run_b": {"config": {}}},
            "by more than noise",
        ),
    ],
)
def test_compute_that_grew_is_said_and_why(sides: dict[str, Any], said: str) -> None:
    a = make_steps(200, wait_ms=57.0, compute_ms=36.0)
    found = against(a, make_steps(200, wait_ms=1.0, compute_ms=38.7), **sides)
    [warning] = [w for w in found.warnings if w.startswith("The model's own part")]
    assert "compute 36.0 → 38.7 ms (+7.5 %)" in warning
    assert said in warning
    assert ("(4 workers compete" in found.sentence) == ("4 workers compete" in said)
    assert "model step" not in found.alike


def test_compute_that_took_over_a_hidden_wait_is_no_other_model() -> None:
    a = make_steps(200, wait_ms=20.0, exposed_wait_ms=12.0, compute_ms=36.0)
    b = make_steps(200, wait_ms=1.0, exposed_wait_ms=1.0, compute_ms=43.0)
    found = against(a, b)
    assert any("which now counts as compute" in warning for warning in found.warnings)


def test_compute_within_noise_is_the_same_model_step() -> None:
    rng = np.random.default_rng(0)
    a, b = (make_steps(300, wait_ms=9.0, compute_ms=36 + rng.normal(0, 2, 300)) for _ in "ab")
    found = against(a, b)
    assert "model step" in found.alike
    assert not any("model's own part" in warning for warning in found.warnings)
    few = against(a, make_steps(60, wait_ms=9.0, compute_ms=36 + rng.normal(0, 12, 60)))
    assert "model step" not in few.alike  # neither shown to differ nor to be the same


def test_both_runs_are_described_in_figures() -> None:
    a = make_steps(220, wait_ms=[30.0] + [10.0] * 219, compute_ms=10.0)
    b = make_steps(420, wait_ms=np.tile([1.0, 3.0], 210), compute_ms=8.0)
    found = compare(make_side(a), replace(make_side(b, B), gpu_utilization=0.6))
    before, after = found.baseline_figures, found.candidate_figures
    assert before.samples_per_s == pytest.approx(32 / 0.02)
    assert after.samples_per_s == pytest.approx(32 / 0.01)
    assert after.samples_per_s / before.samples_per_s == pytest.approx(found.throughput_ratio)
    assert (after.wait_ms.p50, after.wait_ms.p99, after.step_ms.p95) == (3, 3, 11)
    assert (before.epoch_start_ms, after.epoch_start_ms) == (30, 1)
    assert (before.gpu_utilization, after.gpu_utilization) == (None, 0.6)
    assert before.stall_share == pytest.approx(0.5)
    reach = found.time_to_samples
    assert reach is not None
    assert (reach.samples, reach.baseline_s) == (220 * 32, pytest.approx(4.42))
    assert reach.candidate_s == pytest.approx(2.2)


def test_the_time_to_a_number_of_samples_includes_what_lies_between_epochs() -> None:
    steps = make_steps(100, wait_ms=10.0)
    steps.start_ns[50:] += 3_000_000_000
    found = against(make_steps(100, wait_ms=10.0), steps)
    assert found.time_to_samples is not None
    assert found.time_to_samples.candidate_s - found.time_to_samples.baseline_s == 3
    unknown = against(make_steps(100, wait_ms=10.0, samples=np.nan), steps)
    assert unknown.time_to_samples is None


def test_other_versions_and_several_settings_are_warned_about() -> None:
    a = make_steps(200, wait_ms=50.0)
    found = against(
        a,
        a,
        run_b={"torch": "2.14.0", "config": {"cores": 2, "threads": 1, "versions": {"x": "2"}}},
        loader_b={"num_workers": 2, "prefetch_factor": 2, "start_method": "fork"},
    )
    assert "Versions differ: torch 2.13.0 → 2.14.0, x unknown → 2." in found.warnings
    assert not any("More than one loader setting" in warning for warning in found.warnings)
    assert found.alike == ["batch size", "data set", "machine", "model step"]
    both = {"loader_b": {"num_workers": 2, "pin_memory": True}}
    assert any(
        "(num_workers, pin_memory): what each" in warning
        for warning in against(a, a, **both).warnings
    )
