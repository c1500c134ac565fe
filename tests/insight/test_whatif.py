"""What other settings are predicted to give, and which one is recommended."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from replays import record

from probe.insight.pipeline import Handover
from probe.insight.recorded import Recorded, recorded_from
from probe.insight.whatif import Setting, predict, whatif

N = 220
LOSSLESS = {"between_ms": 0.0, "transit_ms": 0.001, "receive_ms": 0.0}


def recorded(fetch_ms: Any = 20.0, loop_ms: Any = 6.0, **columns: Any) -> Recorded:
    """Return a run with one worker, whose hand-over costs nothing, on cores that are all free."""
    recording = record(N, fetch_ms=fetch_ms, loop_ms=loop_ms, workers=1, **LOSSLESS | columns)
    found = recorded_from(*recording, 2.0, 0.0)
    assert isinstance(found, Recorded)
    return found


def rate(recorded: Recorded, *setting: Any, **settings: Any) -> float:
    return predict(recorded, Setting(*setting, **settings)).samples_per_s


def test_workers_help_until_the_loop_sets_the_pace() -> None:
    points = whatif(recorded(), workers=(4, 0, 2, 1), prefetch_factors=(2,)).points
    assert [point.num_workers for point in points] == [0, 1, 2, 4]
    assert [point.prefetch_factor for point in points] == [None, 2, 2, 2]
    expected = [32 / (0.020 + 0.006), 32 / 0.020, 64 / 0.020, 32 / 0.006]
    assert [point.samples_per_s for point in points] == pytest.approx(expected, rel=1e-3)
    shares = [20 / 26, 14 / 20, 4 / 10, 0]
    assert [point.stall_share for point in points] == pytest.approx(shares, abs=2e-3)


def test_the_smallest_setting_that_is_good_enough_is_recommended() -> None:
    def best(fetch_ms: float) -> tuple[int, int | None]:
        best = whatif(recorded(fetch_ms), workers=range(9), prefetch_factors=(1, 2, 4)).recommended
        return best.num_workers, best.prefetch_factor

    # Three workers give 162 batches a second of the 167 that the loop takes, or only 150: 90 %.
    assert best(18.5) == (3, 1)
    assert best(20.0) == (4, 1)
    found = whatif(recorded(), workers=range(9), prefetch_factors=(1, 2, 4))
    assert found.ceiling == pytest.approx(32 / 0.006)
    assert found.sentence.startswith(
        "Smallest setting within 5 % of the ceiling: 4 workers, prefetch_factor 1: 5,33"
    )
    assert "3.33 × (95 %: 3.33–3.33) what was recorded" in found.sentence
    assert found.assumptions == []


def test_a_ceiling_that_nothing_reaches_is_said() -> None:
    found = whatif(recorded(), workers=(0, 1, 2), prefetch_factors=(2,))
    assert found.recommended.num_workers == 2
    assert "No setting tried comes within 5 % of the ceiling of 5,333 samples/s" in found.sentence
    assert "the best gives 60 % of it" in found.sentence


def test_without_workers_there_is_one_point_whatever_the_prefetch_factor() -> None:
    points = whatif(recorded(), workers=(0,), prefetch_factors=(4, 1, 2)).points
    assert [(point.num_workers, point.prefetch_factor) for point in points] == [(0, None)]


def test_faster_storage_helps_the_part_that_waits_for_it() -> None:
    waits, works = recorded(cpu_share=0.0), recorded(cpu_share=1.0)
    assert rate(waits, 1, storage=0.25) == pytest.approx(32 / 0.006, rel=1e-3)
    assert rate(waits, 0, storage=0.25) == pytest.approx(32 / 0.011, rel=1e-3)
    assert rate(works, 1, storage=0.25) == pytest.approx(32 / 0.020, rel=1e-3)


def test_cores_limit_workers_that_compute() -> None:
    works = recorded(cpu_share=1.0)
    assert rate(works, 8) == pytest.approx(64 / 0.020, rel=1e-3)
    assert rate(works, 8, cores=1.5) == pytest.approx(48 / 0.020, rel=1e-3)
    assert rate(works, 8, cores=64) == pytest.approx(32 / 0.006, rel=1e-3)
    # A loop that computes as well: 26 ms of work a batch.
    assert rate(replace(works, loop_cores=1.0), 4) == pytest.approx(64 / 0.026, rel=0.02)
    assert whatif(replace(works, loop_cores=2.0), cores=1).ceiling == pytest.approx(32 / 0.012)


def test_a_bigger_batch_spreads_the_handover() -> None:
    costly = replace(recorded(), handover=replace(recorded().handover, receive=0.002))
    assert rate(costly, 8) == pytest.approx(32 / 0.008, rel=1e-3)
    assert rate(costly, 8, batch=4) == pytest.approx(128 / 0.026, rel=1e-3)
    assert "proportion" in whatif(costly, batch=4).assumptions[0]


def test_a_side_stream_takes_the_copy_off_the_loop() -> None:
    copies = replace(recorded(), copy=np.full(N - 20, 0.003), copy_stalls=True)
    assert rate(copies, 8) == pytest.approx(32 / 0.009, rel=1e-3)
    assert predict(copies, Setting(8)).stall_share == pytest.approx(1 / 3, abs=2e-3)
    hidden = predict(copies, Setting(8, side_stream=True))
    assert hidden.samples_per_s == pytest.approx(32 / 0.006, rel=1e-3)
    assert hidden.stall_share == pytest.approx(0, abs=2e-3)
    # Copies that only the host clock saw are no stall.
    assert predict(replace(copies, copy_stalls=False), Setting(8)).stall_share < 2e-3


def test_a_background_thread_overlaps_and_says_what_it_assumes() -> None:
    assert rate(recorded(), 0, background=1) == pytest.approx(32 / 0.020, rel=1e-3)
    assert "interpreter lock" in whatif(recorded(), background=1).assumptions[0]


def test_a_host_that_runs_ahead_hides_waiting_behind_the_device() -> None:
    device = replace(recorded(fetch_ms=5.0), loop=np.full(N - 20, 0.008), runs_ahead=True)
    assert rate(device, 0) == pytest.approx(32 / 0.008, rel=1e-3)


def test_the_interval_says_how_much_the_recorded_steps_vary() -> None:
    rng = np.random.default_rng(3)
    found = predict(recorded(fetch_ms=rng.lognormal(2.5, 1.0, N)), Setting(1))
    low, high = found.samples_per_s_ci or (0.0, 0.0)
    assert low < found.samples_per_s < high
    assert 0.1 < (high - low) / found.samples_per_s < 0.6


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"num_workers": -1}, "the number of workers is -1: give 0 to 256"),
        ({"prefetch_factor": 0}, "the prefetch factor is 0: give 1 to 256"),
        ({"storage": -0.5}, "the factor for storage is -0.5"),
        ({"storage": float("nan")}, "the factor for storage is nan"),
        ({"batch": 0.0}, "the factor for the batch is 0"),
        ({"background": -1}, "a background thread is -1"),
        ({"cores": 0.0}, "the number of cores is 0"),
    ],
)
def test_a_value_that_cannot_be_is_one_sentence(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Setting(**{"num_workers": 1} | setting)


def test_nothing_to_try_is_one_sentence() -> None:
    with pytest.raises(ValueError, match="give one"):
        whatif(recorded(), workers=())


def test_json_has_the_promised_keys() -> None:
    found = json.loads(json.dumps(whatif(recorded()).to_json()))
    assert {"points", "recommended"} <= found.keys()
    for point in (*found["points"], found["recommended"]):
        assert {"num_workers", "prefetch_factor", "samples_per_s", "stall_share"} <= point.keys()


def test_45_settings_of_a_long_run_take_less_than_two_seconds() -> None:
    rng = np.random.default_rng(3)
    n = 3000
    columns = {"fetch_ms": rng.lognormal(2.5, 1.0, n), "loop_ms": 6.0, "cpu_share": 0.5}
    found = recorded_from(*record(n, workers=1, **columns), 2.0, 1.0)
    assert isinstance(found, Recorded)
    began = time.process_time()
    points = whatif(found, (0, 1, 2, 3, 4, 6, 8, 12, 16, 24), (1, 2, 4, 8, 16)).points
    assert len(points) == 46
    assert time.process_time() - began < 2


def test_a_setting_under_which_nothing_takes_time_is_one_sentence() -> None:
    waits = replace(recorded(cpu_share=0.0), loop=np.zeros(N - 20))
    waits = replace(waits, handover=Handover())
    with pytest.raises(ValueError, match="give a factor for storage above 0"):
        whatif(waits, storage=0.0)
    assert whatif(waits, storage=0.5).ceiling is None


def test_the_smallest_quota_can_be_asked_for() -> None:
    assert rate(recorded(cpu_share=1.0), 1, cores=0.01) == pytest.approx(
        0.01 * 32 / 0.020, rel=0.01
    )
