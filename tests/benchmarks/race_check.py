"""The race section of `docs/accuracy.md`: the demo's loaders raced, and the recommendation tried.

    python tests/benchmarks/race_check.py

After each race, new processes run the code that it recommends. Exits with 1 unless most of them
land in the interval that the race predicted. Takes under five minutes, on a machine that does
nothing else.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import page

import probe
from probe import tables
from probe.demo import targets
from probe.insight import words
from probe.insight.throughput import counted_by, per_second, steady_part
from probe.racing.result import RaceResult, Recommendation
from probe.report import side
from probe.store.queries import Store

SCENARIOS = {"storage": targets.make_storage_loader, "decode": targets.make_decode_loader}
STRATEGIES = ["plain", "background", "workers=2", "workers=2+background"]
STEPS = 80
SECONDS = 120
FRESH = 3

# What a reader who pastes the recommended code would run.
PROGRAM = """
import sys
import probe
from itertools import chain, islice, repeat
from probe.demo.targets import *

{code}
batches = probe.watch(loader, run=sys.argv[1], db=sys.argv[2])
for batch in islice(chain.from_iterable(repeat(batches)), {steps}):
    train_step(batch)
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """One race, what it recommends, and the rates of new runs of that, in samples/s."""

    scenario: str
    race: RaceResult
    recommended: Recommendation
    fresh: list[float]

    @property
    def inside(self) -> list[bool]:
        assert self.recommended.predicted is not None
        low, high = self.recommended.predicted
        return [low <= rate <= high for rate in self.fresh]


def fresh_run(recommended: Recommendation, name: str, db: Path) -> float:
    """Run the recommended code in a process of its own and return its rate."""
    program = PROGRAM.format(code=recommended.code, steps=STEPS + 21)
    subprocess.run([sys.executable, "-c", program, name, str(db)], check=True)
    with Store(db) as store:
        steady = steady_part(side(store, store.run(name)))
    units, _ = counted_by([steady])
    assert units is not None
    rate = per_second(steady, units[0])
    assert rate is not None
    return rate


def attempt(scenario: str, db: Path) -> Tried:
    """Race one scenario and try what is recommended."""
    found = probe.race(
        SCENARIOS[scenario], targets.train_step, STRATEGIES, steps=STEPS, seconds=SECONDS, db=db
    )
    print(f"{scenario}\n{found}\n", flush=True)
    assert found.recommended is not None
    fresh = [fresh_run(found.recommended, f"fresh {i}", db) for i in range(FRESH)]
    tried = Tried(scenario, found, found.recommended, fresh)
    print(f"fresh runs: {', '.join(map(words.rate, fresh))}, inside: {tried.inside}", flush=True)
    return tried


def report(all_tried: list[Tried]) -> str:
    parts = [page.measured_on()]
    for tried in all_tried:
        assert tried.race.board is not None
        board = tables.board(tried.race.board)
        assert tried.recommended.predicted is not None
        low, high = map(words.rate, tried.recommended.predicted)
        parts += [
            f"**{tried.scenario}.** {tried.race.stopped} Ceiling:"
            f" {words.rate(tried.race.board.ceiling or 0)} samples/s.",
            page.table(list(board.head), [list(row) for row in board.rows]),
            f"Recommended: {tried.recommended.title}, another run predicted at {low}–{high}"
            f" samples/s. New runs: {', '.join(map(words.rate, tried.fresh))};"
            f" {sum(tried.inside)} of {len(tried.fresh)} inside.",
        ]
    return "\n\n".join(parts)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = [attempt(scenario, Path(folder) / f"{scenario}.db") for scenario in SCENARIOS]
    page.write("race", report(found))
    return int(any(sum(tried.inside) * 2 < len(tried.fresh) for tried in found))


if __name__ == "__main__":
    sys.exit(main())
