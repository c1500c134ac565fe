"""A board counts repeats as one observation each, and does not take chance for a winner."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sides import make_side, make_steps

from probe.insight.board import board
from probe.insight.settings import Side

TITLES = ("plain", "background thread", "2 workers")


def run(
    number: int,
    strategy: str | None,
    step_ms: float,
    *,
    tags: tuple[str, ...] = (),
    experiment: str | None = "race",
    **columns: object,
) -> Side:
    rng = np.random.default_rng(number)
    steps = make_steps(220, compute_ms=step_ms * (1 + 0.02 * rng.normal(size=220)))
    row = {"id": number, "uid": f"u{number}", "name": f"run {number}", "strategy": strategy}
    return make_side(steps, row | {"experiment": experiment, "tags": list(tags)} | columns)


def race(means: dict[str, float], rounds: int, between: float, seed: int) -> list[Side]:
    """Each strategy once a round; rounds differ by 20 %, repeats within one by `between`."""
    rng = np.random.default_rng(seed)
    found = []
    for turn in range(rounds):
        drift = math.exp(rng.normal(0, 0.2))
        for strategy, mean in means.items():
            step_ms = mean * drift * math.exp(rng.normal(0, between))
            tags = ("race", f"repeat-{turn + 1}")
            found.append(run(len(found) + 1, strategy, step_ms, tags=tags))
    return found


def test_repeats_of_a_strategy_are_pooled_and_their_spread_is_shown() -> None:
    found = board(race({"plain": 20.0, "2 workers": 10.0}, rounds=5, between=0.03, seed=0))
    assert [entry.name for entry in found.entries] == ["plain", "2 workers"]
    plain, workers = found.entries
    assert (plain.verdict, plain.ratio, plain.ratio_ci) == ("baseline", 1.0, None)
    assert workers.verdict == "faster"
    assert workers.ratio == pytest.approx(2, rel=0.05)
    assert workers.ratio_ci is not None
    assert workers.ratio_ci[0] < 2 < workers.ratio_ci[1]
    assert len(workers.repeats) == len(workers.runs) == 5
    assert workers.samples_per_s == pytest.approx(math.prod(workers.repeats) ** 0.2)
    assert workers.between == pytest.approx(np.std(np.log(workers.repeats), ddof=1))
    assert np.mean(np.log(workers.repeat_ratios)) == pytest.approx(
        math.log(workers.samples_per_s / plain.samples_per_s)
    )
    assert found.sentence.startswith("2 workers reached most: 2.0")
    assert any("A repeat counts as one observation" in note for note in found.notes)


def test_what_drifts_from_round_to_round_falls_out() -> None:
    # The rounds differ by 20 %; a comparison that ignores them would need a hundred repeats.
    found = board(race({"plain": 20.0, "2 workers": 18.0}, rounds=5, between=0.01, seed=1))
    assert found.entries[1].verdict == "faster"


def test_strategies_that_are_alike_are_seldom_called_different() -> None:
    alike = dict.fromkeys((*TITLES, "a", "b", "c"), 20.0)
    wrong = 0
    for seed in range(60):
        entries = board(race(alike, rounds=3, between=0.05, seed=seed)).entries
        wrong += any(entry.verdict in ("faster", "slower") for entry in entries)
    assert wrong / 60 <= 0.1  # five candidates, each at 5 %, would be wrong 23 % of the time


def test_holm_takes_back_what_chance_may_explain_and_says_so() -> None:
    rounds = dict.fromkeys(("a", "b", "d", "e"), (20.4, 19.6, 20.0))
    rounds |= {"plain": (20.0, 20.0, 20.0), "c": (20 / 1.05, 20 / 1.065, 20 / 1.085)}
    sides = [
        run(10 * i + turn, name, means[turn], tags=(f"repeat-{turn + 1}",))
        for i, (name, means) in enumerate(sorted(rounds.items(), key=lambda row: row[0] != "plain"))
        for turn in range(3)
    ]
    found = board(sides)
    by_name = {entry.name: entry for entry in found.entries}
    interval = by_name["c"].ratio_ci
    assert interval is not None
    assert interval[0] > 1
    assert by_name["c"].p_adjusted is not None
    assert by_name["c"].p_adjusted > 0.05
    assert by_name["c"].verdict == "cannot tell"
    assert any("5 candidates" in note and "Holm" in note for note in found.notes)
    alone = board([side for side in sides if side.run.strategy in ("plain", "c")])
    assert alone.entries[1].verdict == "faster"


def test_ceiling_and_io_only_are_no_candidates_and_give_the_overlap() -> None:
    beside = [
        run(10, "batches from memory", 8.0, tags=("ceiling",)),
        run(11, "plain", 12.0, tags=("io-only",)),
        run(12, "2 workers", 5.0, tags=("io-only",)),
    ]
    found = board([run(1, "plain", 20.0), run(2, "2 workers", 10.0), beside[0]], beside)
    assert [entry.name for entry in found.entries] == ["plain", "2 workers"]
    assert found.ceiling == pytest.approx(32 / 0.008, rel=0.01)
    plain, workers = found.entries
    assert plain.io_only == pytest.approx(32 / 0.012, rel=0.01)
    assert plain.overlap == pytest.approx(12 / 20, rel=0.02)  # the loader is what limits it
    assert workers.overlap == pytest.approx(8 / 10, rel=0.02)  # the step is
    assert workers.of_ceiling == pytest.approx(8 / 10, rel=0.02)
    assert "80 % of the ceiling" in found.sentence


def test_single_runs_are_compared_by_their_steps_and_said_to_be_too_narrow() -> None:
    found = board([run(1, "plain", 20.0), run(2, "2 workers", 10.0), run(3, "thread", 20.1)])
    assert [entry.verdict for entry in found.entries] == ["baseline", "faster", "no difference"]
    assert any("A single run does not show" in note for note in found.notes)
    assert found.entries[1].between is None


def test_runs_without_an_experiment_are_repeats_only_by_name_and_commit() -> None:
    def of(number: int, name: str, commit: str) -> Side:
        columns = {"name": name, "git_commit": commit}
        return run(number, "4 workers", 20.0, experiment=None, **columns)

    found = board([of(1, "main", "a"), of(2, "main", "a"), of(3, "main", "b"), of(4, "pr", "a")])
    assert [len(entry.runs) for entry in found.entries] == [2, 1, 1]
    assert len({entry.name for entry in found.entries}) == 3


def test_other_hardware_gets_no_verdict_and_is_named() -> None:
    found = board([run(1, "a", 20.0), run(2, "b", 10.0, device="NVIDIA A100"), run(3, "c", 10.0)])
    assert [entry.verdict for entry in found.entries] == ["baseline", "cannot tell", "faster"]
    assert "No verdict on b: the device differs (cpu, NVIDIA A100)." in found.notes
    assert found.sentence.startswith("c reached most")


def test_a_run_with_too_few_steps_has_no_rate() -> None:
    few = make_side(make_steps(30, wait_ms=1.0), {"id": 3, "uid": "u3", "strategy": "few"})
    found = board([run(1, "a", 20.0), run(2, "b", 20.1), few])
    assert found.entries[2].samples_per_s is None
    assert found.entries[2].verdict == "cannot tell"
    assert found.sentence == "Nothing is shown to be faster than a."
    assert any(note.startswith("few: 1 run with too few steps") for note in found.notes)
    json.loads(json.dumps(found.to_json(), allow_nan=False))


def test_one_strategy_alone_is_no_board() -> None:
    with pytest.raises(ValueError, match="repeats of one strategy"):
        board([run(1, "plain", 20.0), run(2, "plain", 20.0)])
