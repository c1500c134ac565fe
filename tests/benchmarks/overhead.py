"""What `watch` costs a step, against the bare loop: `python tests/benchmarks/overhead.py`.

Both loops run alternately in one process over batches that are ready, so that the difference is the
whole cost: the watched `next`, the record, and the writer thread's share of the interpreter.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import probe
from probe.run import current
from probe.store.queries import Store

STEPS = 200_000
PAIRS = 7


class Ready:
    """A loader whose batches are there already."""

    def __init__(self, batch: Any, steps: int) -> None:
        self.batches = [batch] * steps

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


def seconds(loader: Iterable[Any]) -> float:
    began = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - began


def microseconds_a_step(batch: Any, steps: int = STEPS, pairs: int = PAIRS) -> list[float]:
    """Return the added time per step of each pair of loops, µs."""
    bare = Ready(batch, steps)
    watched = probe.watch(bare)
    found = []
    for _ in range(pairs):
        plain = seconds(bare)
        found.append((seconds(watched) - plain) / steps * 1e6)
        until_written()
    return found


def until_written() -> None:
    """Let the writer finish, so that the next bare loop runs alone."""
    run = current()
    while run is not None and any(record.rows for record in run.records):
        time.sleep(0.05)
    time.sleep(0.1)


@contextmanager
def recording() -> Iterator[Callable[[], tuple[int, float]]]:
    """Record into a new folder; the callable ends the run: steps written and bytes a step."""
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder) / "probe.db"
        os.environ["PROBE_DB"] = str(db)

        def end() -> tuple[int, float]:
            run = current()
            assert run is not None
            run.finish()
            with Store(db) as store:
                steps = sum(
                    len(store.steps(row.id, loader.id))
                    for row in store.runs()
                    for loader in store.loaders(row.id)
                )
            return steps, db.stat().st_size / steps

        yield end


def main() -> None:
    """Print the figures that the README states."""
    print(f"{STEPS:,} steps a loop, {PAIRS} pairs, torch {torch.__version__}")
    for name, batch in (
        ("empty batches", None),
        ("batches of two tensors", (torch.zeros(32, 3, 8, 8), torch.zeros(32))),
    ):
        with recording() as end:
            found = microseconds_a_step(batch)
            written, size = end()
        print(
            f"{name}: median {statistics.median(found):.2f} µs a step"
            f" (from {min(found):.2f} to {max(found):.2f}), {size:.0f} bytes a step"
            f" on disk over {written:,} steps"
        )


if __name__ == "__main__":
    main()
