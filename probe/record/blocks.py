"""Blocks that say what a stretch of the loop was: `probe.exclude` and `probe.copy`."""

from __future__ import annotations

from time import perf_counter_ns as now
from types import TracebackType
from typing import Self

from probe.record.loop import Loop
from probe.record.thread import thread_state


class exclude:  # noqa: N801 - reads as a statement: `with probe.exclude("validation"):`
    """Time that is not part of the step: validation, a checkpoint, logging.

    Inside a watched loop it counts as `other` instead of compute; it never counts as wait. It is
    also written to the `events` of the run. Blocks may nest.

    Args:
        label: What the time was for; shown on the time line.

    Example:
        >>> with probe.exclude("checkpoint"):  # doctest: +SKIP
        ...     torch.save(model.state_dict(), "model.pt")
    """

    __slots__ = ("_began", "_label", "_loops")

    def __init__(self, label: str = "excluded") -> None:
        self._label = label
        self._loops: list[Loop] = []
        self._began = 0

    def __enter__(self) -> Self:
        self._loops = [loop for loop in thread_state().loops if not loop.in_next]
        began = self._began = now()
        for loop in self._loops:
            if not loop.excluded:
                loop._since = began
            loop.excluded += 1
            loop.simple = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        ended = now()
        for loop in self._loops:
            loop.excluded -= 1
            if not loop.excluded and not loop.ended:
                loop.other += ended - loop._since
        from probe.run import current

        run = current()
        if run is not None:
            run.event("exclude", self._label, self._began, ended - self._began)


class copy:  # noqa: N801 - reads as a statement: `with probe.copy():`
    """A host-to-device transfer of batch data that probe cannot see by itself.

    The time of the block counts as copy for the loops that are open on this thread, also when the
    block runs inside the loader's `next`, as in a prefetcher. Blocks may nest; the outermost
    counts.

    Example:
        >>> with probe.copy():  # doctest: +SKIP
        ...     batch = my_transfer(batch)
    """

    __slots__ = ("_began", "_begin", "_outermost", "_thread")

    def __enter__(self) -> Self:
        self._thread = thread_state()
        self._outermost = not self._thread.copying
        self._thread.copying = True
        self._begin = self._thread.mark() if self._outermost else None
        self._began = now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._outermost:
            took = now() - self._began
            self._thread.copying = False
            self._thread.copied(took, self._begin)
