"""The hand-over from the training thread to the writer: bounded lists, no lock.

The training thread appends, the writer takes a prefix: both are single operations on a list, which
the interpreter makes atomic. A full list counts what it turns away.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from probe.record.clock import StepMarks
    from probe.record.loop import Loop
    from probe.record.workers import Fetch

T = TypeVar("T")

# Rows that may wait for the writer, per loader: about 60 MB at most.
LIMIT = 200_000

# Whether smaller tensors lie in pinned memory makes no difference to the copy.
_PINNED_MATTERS = 65_536

# What the device clock adds to that.
DEVICE_COLUMNS = ("exposed_wait_ns", "device_copy_ns", "exposed_copy_ns", "device_compute_ns")

# What changes in the row of a loader while it is recorded.
LOADER_STATE = (
    "role",
    "length",
    "copies",
    "copied_bytes",
    "copied_pageable_bytes",
    "copied_blocking_bytes",
    "hidden_copies",
    "hidden_copy_ns",
)

# What a loop records of a step, in the order of its tuples.
STEP_COLUMNS = (
    "step",
    "epoch",
    "epoch_start",
    "start_ns",
    "wait_ns",
    "copy_ns",
    "compute_ns",
    "other_ns",
    "samples",
    "bytes",
    "ready",
)


class LoaderRecord:
    """What one watched loader has recorded in one run and the writer has not yet taken.

    Args:
        base: The name that `watch` was given.
        name: The same, made unique in the run.
        description: The columns of `loaders` that describe the loader.
        origin_ns: The run's start on the host clock.
    """

    def __init__(self, base: str, name: str, description: dict[str, Any], origin_ns: int) -> None:
        self.base = base
        self.name = name
        self.description = description
        self.origin_ns = origin_ns
        self.owner: weakref.ref[Any] | None = None
        self.role = "consumer"
        self.length: int | None = None
        self.step = 0
        self.epoch = 0
        self.loops: set[Loop] = set()
        self.rows: list[tuple[int | None, ...]] = []
        self.device_rows: list[tuple[tuple[int | None, ...], StepMarks]] = []
        self.epochs: list[tuple[int, str, str | None, int | None]] = []
        # Steps with the device's times, read by the writer; and steps whose end nobody saw.
        self.timed: list[tuple[int | None, ...]] = []
        self.open_rows: list[tuple[int | None, ...]] = []
        self.fetches: list[Fetch] = []
        self.stages: dict[str, list[int]] = {}
        self.begins: list[int] = []
        self.dropped = 0
        self.cost_ns = 0
        self.cost_samples = 0
        self.copies = 0
        self.copied_bytes = 0
        self.copied_pageable_bytes = 0
        self.copied_blocking_bytes = 0
        self.hidden_copies = 0
        self.hidden_copy_ns = 0

    def state(self) -> tuple[Any, ...]:
        """Return the columns of `LOADER_STATE`."""
        return tuple(getattr(self, name) for name in LOADER_STATE)

    def add_stages(self, spent: dict[str, list[int]]) -> None:
        """Add calls and time by stage, as a worker has reported them."""
        for name, (calls, wall_ns) in spent.items():
            total = self.stages.setdefault(name, [0, 0])
            total[0] += calls
            total[1] += wall_ns

    def epoch_at(self, moment: int) -> int:
        """Return the epoch that was under way at a moment of the host clock, ns."""
        return max(0, bisect_right(self.begins, moment) - 1)

    def own(self, inner: Any) -> None:
        """Remember whose record this is, without keeping the loader alive."""
        try:
            self.owner = weakref.ref(inner)
        except TypeError:  # lists and other built-in types
            self.owner = None

    def copied(self, source: Any, *, blocking: bool) -> None:
        """Count a tensor that the loop's thread copied to the device."""
        try:
            size = source.nbytes
            self.copies += 1
            self.copied_bytes += size
            if blocking:
                self.copied_blocking_bytes += size
            # Asking the driver takes a microsecond or two, which a small tensor is not worth.
            if size >= _PINNED_MATTERS and not source.is_pinned():
                self.copied_pageable_bytes += size
        except Exception:  # a tensor subclass may refuse; a count is not worth a training run
            return

    def ended(self, begun: int, at: int, length: int | None) -> None:
        """Note that a pass over the loader is over.

        Args:
            begun: When it began, ns on the host clock.
            at: When it ended.
            length: Its number of batches if the loader was read to its end.
        """
        if self.length is None:
            self.length = length
        if len(self.epochs) < LIMIT:
            self.epochs.append((begun - self.origin_ns, "epoch", self.name, at - begun))


def take(rows: list[T]) -> list[T]:
    """Take everything that is in a list now; what is appended meanwhile stays."""
    count = len(rows)
    taken = rows[:count]
    del rows[:count]
    return taken
