"""The truth table of `docs/accuracy.md`: what was done in each loop against what probe recorded.

    python tests/benchmarks/accuracy.py

Exits with 1 if a cell is wrong. Takes about a minute.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import page
from arrangements import ARRANGEMENTS, Arrangement
from truth import Cell, Source, Truth, compare

import probe
from probe.insight.throughput import CANNOT_TELL, FASTER, NO_DIFFERENCE
from probe.insight.verdict import COMPUTE_BOUND, HIGH, MODERATE
from probe.report import comparison, report
from probe.store.queries import Store

# A cell can be wrong because the machine was busy with something else: each has a second chance.
TRIES = 2


@dataclass(frozen=True, slots=True)
class Row:
    """One loader of one arrangement."""

    arrangement: str
    field: bool
    loader: str
    steps: int
    cells: list[Cell]
    true_share: float
    share: float | None
    class_: str

    @property
    def faults(self) -> list[str]:
        """Say what is wrong, in words."""
        found = [
            f"{self.arrangement}, {self.loader}: {cell.phase} is {cell.recorded_ms:.3f} ms instead"
            f" of {cell.true_ms:.3f} ms"
            for cell in self.cells
            if not cell.right
        ]
        if self.loader == "train" and self.class_ != class_of(self.true_share):
            found.append(
                f"{self.arrangement}: {self.class_} at a true share of {self.true_share:.1%}"
            )
        return found


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair of runs."""

    name: str
    true_ratio: float
    ratio: float | None
    verdict: str
    expected: tuple[str, ...]

    @property
    def faults(self) -> list[str]:
        """Say what is wrong, in words."""
        found = []
        if self.verdict not in self.expected:
            found.append(f"{self.name}: {self.verdict}")
        if self.ratio is None or abs(self.ratio / self.true_ratio - 1) > 0.01:
            found.append(f"{self.name}: ratio {self.ratio} instead of {self.true_ratio:.3f}")
        return found


def class_of(share: float) -> str:
    if share < 0.05:
        return COMPUTE_BOUND
    return MODERATE if share < 0.2 else HIGH


def measure(arrangement: Arrangement, db: Path) -> list[Row]:
    """Run an arrangement until it is right, `TRIES` times at most."""
    for attempt in range(TRIES):
        rows = _measure(arrangement, db, f"{arrangement.name} #{attempt}")
        if not any(row.faults for row in rows):
            break
    return rows


def _measure(arrangement: Arrangement, db: Path, name: str) -> list[Row]:
    truth = Truth()
    with probe.run(name, db=db):
        arrangement.run(truth)
    rows = []
    with Store(db) as store:
        run = store.run(name)
        found = report(store, run)
        summaries = {summary.name: summary for summary in found.loaders}
        for loader in store.loaders(run.id):
            steps = store.steps(run.id, loader.id)
            rows.append(
                Row(
                    arrangement.name,
                    arrangement.field,
                    loader.name,
                    len(steps),
                    compare(truth, loader.name, steps),
                    truth.stall_share(loader.name),
                    summaries[loader.name].stall_share,
                    found.verdict.class_,
                )
            )
    assert {row.loader for row in rows} == set(truth.steps), f"{name}: other loaders than made"
    return rows


def compare_runs(db: Path, steps: int = 200) -> list[Compared]:
    """Compare a run with itself once more, and with one whose steps are a fifth shorter."""
    truths = {}
    for name, compute_ms in (("baseline", 6.0), ("the same again", 6.0), ("shorter", 4.4)):
        truths[name] = truth = Truth()
        with probe.run(name, db=db):
            for _ in probe.watch(Source(truth, "train", steps, 2)):
                truth.spend(compute_ms, train="compute")

    def true_step(name: str) -> float:
        steady = truths[name].steps["train"][20:]
        return sum(sum(step.values()) for step in steady) / len(steady)

    def compared(name: str, shown: str, *expected: str) -> Compared:
        said = comparison(store, store.run("baseline"), store.run(name))
        ratio = true_step("baseline") / true_step(name)
        return Compared(shown, ratio, said.throughput_ratio, said.verdict, expected)

    with Store(db) as store:
        return [
            compared("the same again", "two identical runs", NO_DIFFERENCE, CANNOT_TELL),
            compared("shorter", "step time −20 %", FASTER),
        ]


def as_markdown(rows: list[Row], pairs: list[Compared]) -> str:
    """Return the section of the page."""
    cells = [cell for row in rows for cell in row.cells]
    wrong = sum(not cell.right for cell in cells)
    worst = max(cells, key=lambda cell: cell.error_ns / cell.limit_ns)
    lines = []
    for row in rows:
        phases = [f"{cell.true_ms:.3f} → {cell.recorded_ms:.3f}" for cell in row.cells]
        error = max(row.cells, key=lambda cell: cell.error_ns)
        lines.append(
            [
                f"{row.arrangement}{' ★' if row.field else ''}",
                row.loader,
                str(row.steps),
                *phases,
                f"{error.error_ns / 1e3:.0f} µs, {error.error_ns / error.step_ns:.2%}",
                f"{row.true_share:.1%} → {'?' if row.share is None else f'{row.share:.1%}'}",
                "wrong" if row.faults else "right",
            ]
        )
    head = ["arrangement", "loader", "steps", "wait", "copy", "compute", "other", "largest error"]
    head += ["stall share", ""]
    names = len({row.arrangement for row in rows})
    return "\n\n".join(
        [
            f"**{names} arrangements, {len(cells)} cells, {wrong} wrong.** The worst cell uses"
            f" {worst.error_ns / worst.limit_ns:.0%} of the error that is allowed:"
            f" {worst.error_ns / 1e3:.0f} µs of a step of {worst.step_ns / 1e6:.1f} ms.",
            page.measured_on(),
            page.table(head, lines),
            page.table(
                ["comparison", "true throughput ratio", "said", "verdict", ""],
                [
                    [
                        f"{pair.name} ★",
                        f"{pair.true_ratio:.3f}",
                        "?" if pair.ratio is None else f"{pair.ratio:.3f}",
                        pair.verdict,
                        "wrong" if pair.faults else "right",
                    ]
                    for pair in pairs
                ],
            ),
        ]
    )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "accuracy.db"
        rows = [row for arrangement in ARRANGEMENTS for row in measure(arrangement, db)]
        pairs = compare_runs(db)
    text = as_markdown(rows, pairs)
    page.write("accuracy", text)
    print(text)
    faults = [fault for found in (*rows, *pairs) for fault in found.faults]
    print(*faults, sep="\n", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
