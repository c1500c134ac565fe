"""A race takes turns fairly and keeps what was measured, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from races import BATCH, STEPS, WARM_UP, Slow, race, runs
from torch.utils.data import DataLoader

from probe.racing.strategies import RaceError

# Python 3.12 warns when a process that has threads forks workers, as every recorded loop does.
pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def test_strategies_take_turns_in_an_order_that_rotates() -> None:
    found = race("plain", "workers=1", "background", repeats=4)
    names = [name for name, *_ in runs()]
    assert names[0] == "plain io-only"
    assert sorted(names[5:7]) == ["background io-only", "workers=1 io-only"]
    turns = names[1:5] + names[7:]
    rounds = [turns[i : i + 4] for i in range(0, 16, 4)]
    everyone = ["ceiling", "plain", "workers=1", "background"]
    for number, order in enumerate(rounds):
        rotated = everyone[number:] + everyone[:number]
        assert order == [f"{name} #{number + 1}" for name in rotated]
    assert found.repeats == 4
    assert found.stopped == "All 4 rounds were run."


def test_every_turn_is_recorded_as_a_run_of_one_experiment() -> None:
    found = race("plain", "workers=1+background", repeats=1)
    rows = runs()
    assert {row[4] for row in rows} == {found.experiment}
    assert {row[2] for row in rows} == {"finished"}
    told = {name: (strategy, json.loads(tags)) for name, strategy, _, tags, _ in rows}
    both = "1 worker + background thread"
    assert told == {
        "plain io-only": ("plain", ["io-only"]),
        "ceiling #1": ("batches from memory", ["ceiling", "repeat-1"]),
        "plain #1": ("plain", ["race", "repeat-1"]),
        "workers=1+background #1": (both, ["race", "repeat-1"]),
        "workers=1+background io-only": (both, ["io-only"]),
    }
    with sqlite3.connect("race.db") as db:
        counted = db.execute(
            "SELECT count(*) FROM steps WHERE step >= ? AND NOT epoch_start GROUP BY run_id",
            (WARM_UP,),
        ).fetchall()
    assert counted == [(STEPS,)] * len(rows)


def test_the_figures_are_those_of_the_recording() -> None:
    found = race("plain", "background", make_loader=slow_loader, train_step=slow_step, repeats=2)
    rates: dict[str, float] = {}
    with sqlite3.connect("race.db") as db:
        for run_id, name in db.execute("SELECT id, name FROM runs").fetchall():
            steps = np.array(
                db.execute(
                    "SELECT samples, step_ns, epoch_start FROM step_times"
                    " WHERE run_id = ? ORDER BY step",
                    (run_id,),
                ).fetchall()
            )[WARM_UP:]
            steady = steps[steps[:, 2] == 0]
            rates[name] = steady[:, 0].sum() / steady[:, 1].sum() * 1e9
    plain, thread = found.rows
    assert plain.repeats == pytest.approx([rates["plain #1"], rates["plain #2"]])
    assert thread.samples_per_s == pytest.approx(
        (rates["background #1"] * rates["background #2"]) ** 0.5
    )
    ceiling = found.board.ceiling
    assert ceiling == pytest.approx((rates["ceiling #1"] * rates["ceiling #2"]) ** 0.5)
    assert thread.io_only == pytest.approx(rates["background io-only"])
    assert thread.ratio == pytest.approx(thread.samples_per_s / plain.samples_per_s)
    assert (plain.name, thread.name) == ("plain", "background thread")
    bound = min(ceiling, thread.io_only)
    assert thread.overlap == pytest.approx(thread.samples_per_s / bound)
    assert thread.of_ceiling == pytest.approx(thread.samples_per_s / ceiling)
    # Reading takes 4 ms, training 6 ms: the ceiling knows no reading, and io-only no training.
    assert 500 < ceiling < BATCH / 0.006
    assert 700 < plain.io_only < BATCH / 0.004


def slow_loader(**settings: Any) -> DataLoader[torch.Tensor]:
    return DataLoader(Slow(1.0), batch_size=BATCH, **settings)


def slow_step(batch: Any) -> None:
    time.sleep(0.006)


def test_it_ends_early_when_the_order_is_decided() -> None:
    kept = [torch.zeros(BATCH)] * 50
    found = race(
        "plain",
        {"from memory": lambda loader: kept},
        make_loader=lambda: DataLoader(Slow(5.0), batch_size=BATCH),
        repeats=8,
    )
    assert 2 <= found.repeats < 8
    assert found.stopped == f"Stopped after round {found.repeats} of 8: the order is decided."
    assert found.best == found.recommended.strategy == "from memory"
    assert len(runs()) == 2 + 3 * found.repeats


def test_it_ends_when_the_time_is_over_and_keeps_what_was_measured() -> None:
    began = time.monotonic()
    same = {"same": lambda loader: loader}
    options = {"make_loader": slow_loader, "train_step": slow_step, "repeats": 50}
    found = race("plain", same, **options, seconds=4)
    assert time.monotonic() - began < 15
    assert 1 <= found.repeats < 50
    assert found.stopped == f"Time was over in round {found.repeats + 1} of 50."
    assert len(found.rows[0].repeats) >= found.repeats
    assert found.recommended.strategy == "plain"


def test_a_turn_that_was_cut_short_early_does_not_count() -> None:
    # Reading alone is over at once; training takes 0.4 s a turn, so the ceiling's is cut short.
    found = race("plain", train_step=lambda batch: time.sleep(0.02), repeats=1, seconds=0.6)
    assert found.stopped == "Time was over in round 1 of 1."
    assert found.recommended is None
    assert "Nothing was measured that could be recommended." in str(found)


def test_a_turn_that_was_cut_short_counts_once_it_has_steps_enough() -> None:
    # After the ceiling's 80 steps, those of `plain`: 20 of warm-up, and some 40 that count.
    found = race("plain", train_step=interrupted_at(80 + WARM_UP + 40), repeats=1, steps=60)
    assert found.interrupted
    assert found.recommended.strategy == "plain"


def interrupted_at(number: int) -> Callable[[Any], None]:
    count = 0

    def train_step(batch: Any) -> None:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)  # the signal arrives at once

    return train_step


def test_ctrl_c_keeps_what_was_measured() -> None:
    # The ceiling's 40 steps, and 41 of each strategy, as they begin an epoch in between. Round 2
    # begins with `plain`: its 20 of warm-up, and 10 that are too few to count.
    first = 40 + 2 * 41
    found = race("plain", "workers=1", train_step=interrupted_at(first + 30), repeats=5)
    assert found.interrupted
    assert found.repeats == 1
    assert found.stopped == "Interrupted in round 2 of 5; this was measured until then."
    assert [len(row.repeats) for row in found.rows] == [1, 1]
    assert found.recommended is not None
    assert found.recommended.predicted is None
    assert "One repeat does not tell where another run would lie." in str(found)
    states = [status for (status,) in runs("status")]
    assert states == ["finished"] * (len(states) - 1) + ["interrupted"]


def test_ctrl_c_before_anything_was_measured_is_no_error() -> None:
    found = race("plain", train_step=interrupted_at(1))
    assert found.interrupted
    assert found.recommended is None
    assert found.rows == []


def broken(loader: Iterable[Any]) -> Iterator[Any]:
    for number, batch in enumerate(loader):
        if number == 3:
            raise RuntimeError("this way is broken")
        yield batch


def test_a_strategy_that_raises_is_reported_and_the_others_go_on() -> None:
    found = race("plain", {"mine": broken}, "background")
    line = broken.__code__.co_firstlineno + 3
    assert found.failed == {"mine": f"RuntimeError: this way is broken ({__file__}:{line})"}
    assert [row.name for row in found.rows] == ["plain", "background thread"]
    assert [len(row.repeats) for row in found.rows] == [2, 2]
    assert "mine failed: RuntimeError: this way is broken" in str(found)
    # It is not tried again.
    assert [name for name, *_ in runs() if "mine" in name] == ["mine #1"]


def test_an_error_in_a_worker_process_is_told_in_one_line() -> None:
    found = race("plain", "workers=1", make_loader=broken_in_workers, repeats=1)
    assert list(found.failed) == ["1 worker"]
    assert found.failed["1 worker"].startswith("ValueError: sample 30 is broken (")
    assert found.recommended.strategy == "plain"


def broken_in_workers(num_workers: int = 0) -> DataLoader[torch.Tensor]:
    data = Slow(broken=30 if num_workers else None)
    return DataLoader(data, batch_size=BATCH, num_workers=num_workers)


def test_a_strategy_that_failed_late_is_not_recommended() -> None:
    turns = 0

    def fast_at_first(loader: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns == 3:
            raise RuntimeError("no more")
        return [torch.zeros(BATCH)] * 50

    found = race("plain", {"fast": fast_at_first}, make_loader=slow_loader, repeats=3)
    plain, fast = found.rows
    assert fast.samples_per_s > 2 * plain.samples_per_s
    assert found.failed["fast"].startswith("RuntimeError: no more")
    assert found.best == found.recommended.strategy == "plain"


def test_where_nothing_can_run_the_reason_is_raised() -> None:
    with pytest.raises(RaceError, match="no strategy could be run: RuntimeError: this way is"):
        race({"mine": broken}, repeats=9)
    assert [name for name, *_ in runs()] == ["mine io-only"]
    with pytest.raises(RaceError, match="ZeroDivisionError"):
        race("plain", "background", train_step=lambda batch: 1 / 0)


def test_a_ceiling_that_fails_is_told() -> None:
    calls = 0

    def once(loader: Any) -> Any:
        nonlocal calls
        calls += 1
        return [] if calls == 2 else loader

    found = race({"mine": once}, "plain", repeats=1)
    assert found.board.ceiling is None
    assert found.failed == {"batches from memory": "the loader gave no batch"}
    assert "batches from memory failed: the loader gave no batch" in str(found)
    assert found.rows[0].of_ceiling is found.rows[0].overlap is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"steps": 19}, "steps is 19: an interval takes at least 20"),
        ({"repeats": 0}, "repeats is 0: give 1 or more"),
        ({"seconds": 0}, "seconds is 0: give more than 0"),
        ({"seconds": float("nan")}, "seconds is nan: give more than 0"),
        ({"make_loader": 3}, "make_loader is 3: give a function"),
        ({"train_step": "mine"}, "train_step is 'mine': give a function"),
        ({"db": "/dev/null/race.db"}, "cannot record to /dev/null/race.db: "),
        ({"db": "~nosuchuser/race.db"}, "cannot record to ~nosuchuser/race.db: "),
    ],
)
def test_a_wrong_setting_is_told_before_any_time_is_spent(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(RaceError) as told:
        race("plain", **options)
    assert str(told.value).startswith(said)


def test_a_race_that_may_not_record_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROBE_DISABLE", "1")
    with pytest.raises(RaceError, match="PROBE_DISABLE is set"):
        race("plain")


def test_the_demo_can_be_raced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    try:
        from probe.demo import targets

        for make_loader in (targets.make_storage_loader, targets.make_burst_loader):
            made = make_loader(num_workers=1)
            assert made.num_workers == 1
            pictures, labels = next(iter(made))
            assert pictures.shape[1:] == (96, 96, 3)
            targets.train_step((pictures, labels))
        found = race(
            "plain", make_loader=targets.make_storage_loader, train_step=targets.train_step
        )
        assert found.failed == {}
        assert found.recommended.strategy == "plain"
    finally:
        torch.set_num_threads(threads)
