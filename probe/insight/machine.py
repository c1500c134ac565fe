"""How much of its machine a run could use and did use, and what other programs took of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe.store.queries import HostSamples, Run

# With more of the cores busy than this, work waits for a core.
SATURATED = 0.9

# Other programs that take more of the cores than this disturb what is measured.
QUIET = 0.1


@dataclass(frozen=True, slots=True)
class Load:
    """Mean shares of the cores, 0–1; None where not measured.

    `busy` counts all programs, `tree` the run with its children, `others` the rest.
    """

    busy: float | None
    tree: float | None
    others: float | None

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs held cores that the run had to wait for."""
        return (
            self.busy is not None
            and self.busy >= SATURATED
            and self.others is not None
            and self.others > QUIET
        )

    def in_cores(self, cores: float | None) -> tuple[float | None, float | None]:
        """Return how many of the cores the run and other programs kept busy."""
        if cores is None or self.tree is None:
            return None, None
        return self.tree * cores, None if self.others is None else self.others * cores


def load_of(host: HostSamples, during: NDArray[np.bool_] | None = None) -> Load:
    """Average the samples of a machine.

    The run's own use is measured over longer spans, so it stands in some samples only: averages
    are what can be subtracted, not samples.

    Args:
        host: The samples.
        during: Which of them count; None for all.
    """
    marked = np.ones(len(host.time_ns), np.bool_) if during is None else during
    whole, tree = mean(host.cpu[marked]), mean(host.tree_cpu[marked])
    # A container may be out of its quota while the cores look idle.
    busy = max((share for share in (whole, tree) if share is not None), default=None)
    others = None if whole is None or tree is None else max(0.0, whole - tree)
    return Load(busy, tree, others)


def usable_cores(run: Run) -> float | None:
    """Return how many cores the process could use, a quota counted in parts; None if unknown."""
    return positive(run.config.get("cores"))


def positive(value: Any) -> float | None:
    """Return a recorded value if it is a number above 0, None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value > 0 else None


def mean(values: NDArray[np.float64]) -> float | None:
    """Average the values that are known; None if none is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
