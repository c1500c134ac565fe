"""What a race says follows from what it has recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from races import loader
from recordings import Recording

from probe.racing.result import RaceResult, Ran, conclude, order_is_decided
from probe.racing.strategies import parse


def recorded(
    path: Path, step_ms: dict[str, Sequence[float]], *, samples: float | None = 32
) -> list[Ran]:
    """Write runs of a race: by strategy in words, the mean of a step in ms in each round."""
    rng = np.random.default_rng(0)
    ran = []
    with Recording(path) as recording:
        for title, rounds in step_ms.items():
            for number, ms in enumerate(rounds, 1):
                tag = {"batches from memory": "ceiling"}.get(title, "race")
                run = recording.run(
                    f"{title} #{number}",
                    strategy=title,
                    experiment="race",
                    tags=[tag, f"repeat-{number}"],
                )
                count = {"num_workers": int(title.split()[0])} if "worker" in title else {}
                wait = np.abs(rng.normal(ms, ms / 100, 60)).tolist()
                recording.steps(run, recording.loader(run, **count), wait_ms=wait, samples=samples)
                uid = f"{run:08x}-0000-4000-8000-000000000000"
                ran.append(Ran(uid, tag, title, number))
    return ran


def concluded(path: Path, names: list[Any], ran: list[Ran], **failed: str) -> RaceResult:
    return conclude(
        parse(names, cores=2),
        loader,
        ran,
        failed,
        experiment="race",
        db=path,
        repeats=3,
        stopped="All 3 rounds were run.",
        interrupted=False,
    )


NAMES = ["plain", "background", "workers=2", "workers=4"]


def test_the_simplest_of_those_within_the_noise_of_the_best_is_recommended(tmp_path: Path) -> None:
    ran = recorded(
        tmp_path / "a.db",
        {
            "plain": [20.0, 20.4, 19.8],
            "background thread": [10.0, 10.3, 9.9],
            "2 workers": [10.1, 10.2, 10.0],
            "4 workers": [10.0, 10.1, 9.9],
        },
    )
    found = concluded(tmp_path / "a.db", NAMES, ran)
    assert found.best in ("background thread", "4 workers")
    assert found.recommended is not None
    assert found.recommended.strategy == "workers=2"
    assert found.recommended.code == "loader = loader(num_workers=2, persistent_workers=True)"
    said = str(found)
    assert "Use 2 workers: 3,1" in said
    assert f"the simplest that is not shown to be slower than {found.best}." in said
    assert said.splitlines()[-1] == f"    {found.recommended.code}"


def test_where_loading_is_not_the_matter_nothing_is_to_be_changed(tmp_path: Path) -> None:
    same = [10.0, 10.3, 9.9]
    ran = recorded(
        tmp_path / "a.db",
        {"plain": same, "background thread": same, "2 workers": same, "4 workers": same},
    )
    found = concluded(tmp_path / "a.db", NAMES, ran)
    assert found.recommended is not None
    assert found.recommended.strategy == "plain"
    assert found.recommended.code == "loader = loader()"


def test_one_round_recommends_by_the_rate_alone(tmp_path: Path) -> None:
    ran = recorded(
        tmp_path / "a.db",
        {"plain": [20.0], "background thread": [10.0], "2 workers": [10.2], "4 workers": [11.0]},
    )
    found = concluded(tmp_path / "a.db", NAMES, ran)
    assert found.recommended is not None
    assert found.recommended.strategy == "workers=2"
    assert found.recommended.predicted is None
    assert not order_is_decided(["plain", "2 workers"], tmp_path / "a.db", ran, looks=1)


def test_the_prediction_holds_what_differs_between_repeats(tmp_path: Path) -> None:
    rates = np.array([480.0, 500.0, 525.0, 495.0])
    ran = recorded(
        tmp_path / "a.db", {"plain": (32e3 / rates).tolist(), "background thread": [100.0] * 4}
    )
    found = concluded(tmp_path / "a.db", ["plain", "background"], ran)
    assert found.recommended is not None
    assert found.recommended.predicted is not None
    logs = np.log(rates)
    reach = 3.182 * logs.std(ddof=1) * (1 + 1 / 4) ** 0.5
    expected = np.exp([logs.mean() - reach, logs.mean() + reach])
    assert found.recommended.predicted == pytest.approx(tuple(expected), rel=0.01)


def test_an_interval_that_is_of_no_use_is_not_printed(tmp_path: Path) -> None:
    ran = recorded(tmp_path / "a.db", {"plain": [10.0, 20.0], "background thread": [50.0] * 2})
    found = concluded(tmp_path / "a.db", ["plain", "background"], ran)
    assert "Its repeats differ too much, or are too few, to tell" in str(found)
    assert "Another run will reach" not in str(found)


def test_what_failed_is_not_recommended(tmp_path: Path) -> None:
    ran = recorded(tmp_path / "a.db", {"plain": [20.0] * 2, "2 workers": [10.0] * 2})
    failed = {"2 workers": "RuntimeError: no more memory"}
    found = concluded(tmp_path / "a.db", ["plain", "workers=2"], ran, **failed)
    assert found.recommended is not None
    assert found.best == found.recommended.strategy == "plain"
    assert "2 workers failed: RuntimeError: no more memory" in str(found)


def test_one_strategy_alone_has_a_rate_and_no_board(tmp_path: Path) -> None:
    ran = recorded(tmp_path / "a.db", {"plain": [10.0, 10.1]}, samples=None)
    found = concluded(tmp_path / "a.db", ["plain"], ran)
    assert found.board is None
    assert found.rows == []
    assert found.recommended is not None
    assert found.recommended.samples_per_s == pytest.approx(99.5, rel=0.01)
    assert "Use plain: 99.4 steps/s, the fastest." in str(found)


def test_the_order_is_decided_once_every_other_is_shown_to_be_slower(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    ran = recorded(
        path,
        {
            "plain": [40.0, 40.4, 39.8],
            "background thread": [20.0, 20.3, 19.9],
            "2 workers": [14.0, 8.0, 11.0],
            "4 workers": [10.0, 10.1, 9.9],
        },
    )
    clear = ["plain", "background thread", "4 workers"]
    assert order_is_decided(clear, path, ran, looks=3)
    assert not order_is_decided([*clear, "2 workers"], path, ran, looks=3)


def test_a_commit_during_a_race_does_not_split_its_strategies(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    ran = recorded(path, {"plain": [20.0] * 3, "2 workers": [10.0] * 3})
    with sqlite3.connect(path) as db:
        db.execute("UPDATE runs SET git_commit = git_commit || '+dirty' WHERE name LIKE '%#3'")
    db.close()
    found = concluded(path, ["plain", "workers=2"], ran)
    assert [len(row.repeats) for row in found.rows] == [3, 3]


def test_the_baseline_is_the_first_strategy_whatever_ran_first(tmp_path: Path) -> None:
    ran = recorded(
        tmp_path / "a.db",
        {"batches from memory": [5.0] * 2, "plain": [20.0] * 2, "2 workers": [10.0] * 2},
    )
    found = concluded(tmp_path / "a.db", ["workers=2", "plain"], ran)
    assert found.board is not None
    assert [row.name for row in found.rows] == ["2 workers", "plain"]
    assert found.rows[1].ratio == pytest.approx(0.5, rel=0.02)
    assert found.rows[0].of_ceiling == pytest.approx(0.5, rel=0.02)
    as_json = found.to_json()
    assert as_json["board"]["baseline"] == "2 workers"
    assert as_json["db"] == str(tmp_path / "a.db")
