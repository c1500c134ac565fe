"""Does a comparison call two recordings of one program different, and does it find a true change?

    python tests/benchmarks/compare_power.py            # records for some minutes
    python tests/benchmarks/compare_power.py FOLDER     # takes the recordings that lie there

Prints both and writes them to `docs/accuracy.md`. Exits with 1 if more than 7 % of the comparisons
of alike recordings say faster or slower, or if a change of 5 % is found in less than 90 %.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from page import measured_on, table, write
from torch import nn
from torch.utils.data import DataLoader, RandomSampler

import probe
from probe.demo.pictures import Pictures, folder
from probe.insight import words
from probe.insight.compare import compare
from probe.insight.crowding import crowd
from probe.insight.settings import Side
from probe.insight.summary import WARM_UP_STEPS, only
from probe.insight.throughput import CANNOT_TELL, FASTER, NO_DIFFERENCE, SLOWER
from probe.report import side
from probe.store.queries import HostSamples, Store

# The makers of synthetic steps lie beside the tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "insight"))
sys.path.insert(0, str(Path(__file__).parents[1]))
from sides import make_side, make_steps
from test_bootstrap import ar1

COMPARISONS = 200
STEPS = 500
RUNS = 40
LONG = 12_000

Pairs = Iterable[tuple[Side, Side]]


def train(steps: int, db: Path, name: str) -> None:
    """Train as `probe demo` does, on less: pictures that wait a little, and a small network."""
    data = Pictures(folder(96, lambda numbers: numbers), read_ms=0.3, spread=0.3, augment=False)
    sampler = RandomSampler(data, replacement=True, num_samples=4 * steps)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_of = nn.CrossEntropyLoss()
    with probe.run(name, strategy="plain", db=db):
        for pictures, labels in probe.watch(DataLoader(data, batch_size=4, sampler=sampler)):
            loss = loss_of(model(pictures.permute(0, 3, 1, 2).float() / 255), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def record(where: Path) -> None:
    torch.set_num_threads(1)
    for i in range(RUNS):
        train(STEPS + WARM_UP_STEPS, where / "runs.db", f"run {i}")
    train(LONG, where / "long.db", "long")


def separate_runs(db: Path, rng: np.random.Generator) -> Iterator[tuple[Side, Side]]:
    """Give pairs of runs, each of which was started by itself."""
    with Store(db) as store:
        runs = [side(store, run) for run in store.runs()]
    pairs = list(itertools.combinations(runs, 2))
    for i in rng.permutation(len(pairs))[:COMPARISONS]:
        yield pairs[i]


def cut_pairs(db: Path, rng: np.random.Generator, neighbours: bool) -> Iterator[tuple[Side, Side]]:
    """Give pairs of pieces of one long run, that follow each other or lie anywhere."""
    length = STEPS + WARM_UP_STEPS
    with Store(db) as store:
        (run,) = store.runs()
        whole, host = side(store, run), store.host_samples(run.id)
    for _ in range(COMPARISONS):
        first, second = rng.integers(0, len(whole.steps) - 2 * length, 2)
        yield cut(whole, host, first), cut(whole, host, first + length if neighbours else second)


def cut(whole: Side, host: HostSamples, first: int) -> Side:
    marked = np.zeros(len(whole.steps), np.bool_)
    marked[first : first + STEPS + WARM_UP_STEPS] = True
    steps = only(whole.steps, marked)
    inside = (host.time_ns >= steps.start_ns[0]) & (host.time_ns <= steps.start_ns[-1])
    meanwhile = HostSamples(*(getattr(host, name)[inside] for name in HostSamples.__slots__))
    return Side(whole.run, whole.loader, steps, crowd=crowd(meanwhile))


def synthetic(
    rng: np.random.Generator, persistence: float, ratio: float = 1.0
) -> Iterator[tuple[Side, Side]]:
    """Give pairs whose steps vary by 10 % as a first-order autoregression."""

    def make(mean_ms: float, run: int) -> Side:
        times: NDArray[np.float64] = mean_ms * (1 + 0.1 * ar1(STEPS, persistence, rng))
        return make_side(make_steps(STEPS, compute_ms=times), {"id": run})

    for _ in range(COMPARISONS):
        yield make(20.0, 1), make(20.0 / ratio, 2)


def verdicts(pairs: Pairs) -> Counter[str]:
    return Counter(compare(a, b).verdict for a, b in pairs)


def different(found: Counter[str]) -> float:
    return (found[FASTER] + found[SLOWER]) / found.total()


def main(where: Path) -> int:
    rng = np.random.default_rng(0)
    alike: dict[str, Callable[[], Pairs]] = {
        f"recorded: {RUNS} runs, each started by itself": lambda: separate_runs(
            where / "runs.db", rng
        ),
        "recorded: neighbouring pieces of one run": lambda: cut_pairs(where / "long.db", rng, True),
        "recorded: any two pieces of one run": lambda: cut_pairs(where / "long.db", rng, False),
    }
    for persistence in (0.0, 0.5, 0.8):
        alike[f"synthetic, autocorrelation {persistence:g}"] = lambda p=persistence: synthetic(
            rng, p
        )
    rows, good = [], True
    for name, pairs in alike.items():
        found = verdicts(pairs())
        good &= different(found) <= 0.07
        rows.append(row(name, found, words.percent(different(found))))
        print(*rows[-1], sep=" | ")
    power = []
    for persistence in (0.0, 0.5):
        found = verdicts(synthetic(rng, persistence, 1.05))
        share = found[FASTER] / found.total()
        good &= share >= 0.9
        power.append(
            row(f"5 % faster, autocorrelation {persistence:g}", found, words.percent(share))
        )
        print(*power[-1], sep=" | ")
    head = [FASTER, SLOWER, NO_DIFFERENCE, CANNOT_TELL]
    write(
        "compare",
        "\n\n".join(
            (
                measured_on(),
                table(["the same program twice", *head, "called different"], rows),
                table(["a true change", *head, "found"], power),
            )
        ),
    )
    return 0 if good else 1


def row(name: str, found: Counter[str], share: str) -> list[str]:
    counts = (found[verdict] for verdict in (FASTER, SLOWER, NO_DIFFERENCE, CANNOT_TELL))
    return [name, *map(str, counts), share]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as fresh:
        record(Path(fresh))
        sys.exit(main(Path(fresh)))
