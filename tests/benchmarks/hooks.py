"""What the copy hooks cost a step that moves nothing: 200 `.to` calls on tensors already in place.

python tests/benchmarks/hooks.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter_ns as now

import page
import torch

import probe

CALLS = 200
PAIRS = 7


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the pairs: step times, their ratio, and what one call costs more."""

    plain_ms: float
    watched_ms: float
    ratio: float
    ns_per_call: float


def measure(db: Path, steps: int = 200) -> Cost:
    """Run pairs of loops, watched and not, in turn."""
    tensors = [torch.ones(8) for _ in range(CALLS)]
    train = _training()

    def step() -> None:
        _move(tensors)
        train()

    with probe.run("hooks", db=db):
        _times(range(steps), step)  # warm-up
        whole = _pairs(step, steps)
        calls = _pairs(lambda: _move(tensors), steps)
    return Cost(
        plain_ms=median(plain for plain, _ in whole) / 1e6,
        watched_ms=median(watched for _, watched in whole) / 1e6,
        ratio=median(watched / plain for plain, watched in whole),
        ns_per_call=median(watched - plain for plain, watched in calls) / CALLS,
    )


def _pairs(step: Callable[[], None], steps: int) -> list[tuple[float, float]]:
    return [
        (_times(range(steps), step), _times(probe.watch(range(steps)), step)) for _ in range(PAIRS)
    ]


def _times(loop: Iterable[int], step: Callable[[], None]) -> float:
    """Return the median time of a step, ns."""
    times = []
    for _ in loop:
        began = now()
        step()
        times.append(now() - began)
    return median(times)


def _move(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        tensor.to("cpu")


def _training() -> Callable[[], None]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    images, labels = torch.randn(64, 256), torch.randint(10, (64,))

    def train() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return train


def main() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cost = measure(Path(folder) / "hooks.db")
    row = [f"{cost.plain_ms:.3f}", f"{cost.watched_ms:.3f}", f"{cost.ratio:.3f}"]
    head = ["", "not watched, ms", "watched, ms", "ratio", "per call, ns"]
    text = page.table(
        head, [[f"training step with {CALLS} calls", *row, f"{cost.ns_per_call:.0f}"]]
    )
    text = f"{page.measured_on()}\n\n{text}"
    page.write("hooks", text)
    print(text)


if __name__ == "__main__":
    main()
