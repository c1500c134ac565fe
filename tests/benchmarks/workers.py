"""What timing the workers costs: `python tests/benchmarks/workers.py`.

An epoch of a DataLoader with one worker, watched with and without worker timing, in turn, and what
the timer itself takes in the worker.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import page
import torch
from torch.utils.data import DataLoader, Dataset

import probe
from probe.record import workers
from probe.run import current

BATCHES = 1_500
PAIRS = 7

# Batches a pipe holds at least, where it cannot be made larger.
_HELD = 1_000


class Small(Dataset[torch.Tensor]):
    """Samples that cost almost nothing: the worst case for a timer."""

    def __len__(self) -> int:
        return 4 * BATCHES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.zeros(64)


def epoch(loader: Any) -> float:
    began = time.perf_counter()
    for _ in loader:
        pass
    return time.perf_counter() - began


def in_worker_us() -> float:
    """Return what the timer around one fetch takes, µs: the wrapper, its clocks and the report."""

    class Fetcher:
        def fetch(self, index: Any) -> Any:
            return index

    channel = workers._Channel()
    report = workers._Reporter(channel.writer, 0, 0)
    timed = workers._timed(Fetcher.fetch, report, None)
    fetcher, batch = Fetcher(), torch.zeros(4, 64)

    def spent(call: Callable[[Any, Any], Any]) -> float:
        began = time.perf_counter()
        for _ in range(_HELD):
            call(fetcher, batch)
        return (time.perf_counter() - began) / _HELD * 1e6

    found = []
    for _ in range(PAIRS):
        bare = spent(Fetcher.fetch)
        found.append(spent(timed) - bare)
        channel.drain()
    return statistics.median(found)


def ratios(db: Path) -> list[float]:
    """Return epoch time with worker timing ÷ without, for each pair."""
    watched = probe.watch(DataLoader(Small(), batch_size=4, num_workers=1), db=db)
    real: Any = workers.watch_workers
    found = []
    epoch(watched)
    for pair in range(PAIRS):
        times = {}
        for timing in (True, False) if pair % 2 else (False, True):
            workers.watch_workers = real if timing else lambda loader, loop: None
            times[timing] = epoch(watched)
        found.append(times[True] / times[False])
    workers.watch_workers = real
    run = current()
    assert run is not None
    run.finish()
    return found


def main() -> None:
    """Measure and write the section of the page."""
    with tempfile.TemporaryDirectory() as folder:
        found = ratios(Path(folder) / "probe.db")
    timer = in_worker_us()
    print(f"timer in the worker: {timer:.2f} µs a batch")
    print("epoch with ÷ without:", " ".join(f"{ratio:.3f}" for ratio in sorted(found)))
    table = page.table(
        ["", "median", "from", "to"],
        [
            ["timer in the worker, µs a batch", f"{timer:.2f}", "", ""],
            [
                f"epoch of {BATCHES:,} batches with ÷ without timing",
                f"{statistics.median(found):.3f}",
                f"{min(found):.3f}",
                f"{max(found):.3f}",
            ],
        ],
    )
    page.write("workers", f"{page.measured_on()}\n\n{table}")


if __name__ == "__main__":
    main()
