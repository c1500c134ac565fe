"""Earlier predictions are held against what was measured later, of the same work only."""

from __future__ import annotations

from typing import Any

import pytest
from replays import no_fetches, record
from sides import make_loader, make_run, make_side, make_steps

from probe.insight.calibration import calibrate, same_work, setting_of
from probe.insight.recorded import Recorded, recorded_from
from probe.insight.settings import Side

N = 200


def measured(workers: int, name: str, number: int, slower: float = 1.0) -> tuple[Side, Any]:
    """Return a run as the model would have it, or slower by a factor."""
    loader, steps, fetches = record(
        N, fetch_ms=20.0 * slower, loop_ms=6.0 * slower, workers=workers, transit_ms=0.001
    )
    side = Side(make_run(name=name, id=number), loader, steps)
    return side, recorded_from(loader, steps, fetches, 2.0, 0.0)


def test_each_later_run_is_predicted_from_each_earlier_one() -> None:
    runs = [measured(1, "one", 1), measured(2, "two", 2), measured(4, "four", 3, slower=1.25)]
    found = calibrate(runs)
    pairs = [(check.earlier, check.later) for check in found.checks]
    assert pairs == [
        ("one (run 1)", "two (run 2)"),
        ("one (run 1)", "four (run 3)"),
        ("two (run 2)", "four (run 3)"),
    ]
    assert [check.num_workers for check in found.checks] == [2, 4, 4]
    assert [check.error for check in found.checks] == pytest.approx([0, 0.25, 0.25], abs=1e-3)
    assert found.checks[1].measured == pytest.approx(32 / 0.0075, rel=1e-3)
    assert found.median_error == pytest.approx(0.25, abs=1e-3)
    assert found.sentence == (
        "Earlier predictions were off by 25 % (median of 3); the worst, 4 workers,"
        " prefetch_factor 2, by +25 %."
    )


def test_without_a_second_run_it_says_what_to_do() -> None:
    found = calibrate([measured(1, "one", 1)])
    assert (found.checks, found.median_error, found.worst_error) == ([], None, None)
    assert "record this work once more" in found.sentence


def test_runs_that_cannot_be_replayed_are_left_out() -> None:
    side, _ = measured(1, "no fetches", 1)
    assert calibrate([(side, "no fetches"), measured(2, "two", 2)]).checks == []


def test_a_pipeline_that_the_model_does_not_know_is_not_predicted() -> None:
    strange = make_side(make_steps(N), loader={"chain": ["SideStream", "DataLoader"]})
    assert setting_of(strange) is None
    assert setting_of(make_side(make_steps(N), loader={"num_workers": None})) is None
    threaded = make_side(make_steps(N), loader={"chain": ["Background", "DataLoader"]})
    setting = setting_of(threaded)
    assert setting is not None
    assert (setting.num_workers, setting.background) == (0, 1)


ONE = {"host": "a", "experiment": None, "command": "python train.py --workers 1"}


@pytest.mark.parametrize(
    ("run", "loader", "same"),
    [
        ({"command": "python train.py --workers 4"}, {"num_workers": 4}, True),
        ({"command": "python other.py --workers 4"}, {}, False),
        ({"host": "b"}, {}, False),
        ({"device": "H200"}, {}, False),
        ({"experiment": "x"}, {}, False),
        ({}, {"dataset": "Other"}, False),
        ({}, {"batch_size": 64}, False),
        ({}, {"name": "val"}, False),
    ],
)
def test_the_same_work_is_the_same_program_data_and_machine(
    run: dict[str, Any], loader: dict[str, Any], same: bool
) -> None:
    steps = make_steps(N, wait_ms=5.0, compute_ms=5.0)
    one = make_side(steps, ONE)
    assert same_work(one, Side(make_run(**ONE | run), make_loader(**loader), steps)) is same


def test_runs_of_one_experiment_may_be_started_in_different_ways() -> None:
    steps = make_steps(N, wait_ms=5.0, compute_ms=5.0)
    one = make_side(steps, ONE | {"experiment": "x"})
    other = ONE | {"experiment": "x", "command": "python notebook.py"}
    assert same_work(one, make_side(steps, other))


def test_a_run_without_workers_predicts_one_with_workers() -> None:
    steps = make_steps(N, wait_ms=20.0, compute_ms=6.0)
    loader = make_loader(num_workers=0)
    plain = recorded_from(loader, steps, no_fetches(), 8.0, 0.1)
    assert isinstance(plain, Recorded)
    side = Side(make_run(id=1), loader, steps)
    [check] = calibrate([(side, plain), measured(2, "two", 2)]).checks
    assert check.error == pytest.approx(0, abs=0.02)
