"""The progress bar of a race, drawn seldom so that it takes no core from what is measured."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_PER_SECOND = 2
_EVERY = 10  # steps


class Bar:
    """Shows how many of all steps are done, and what is running.

    Args:
        steps: How many there are in all.
        shown: Whether to show it.
    """

    def __init__(self, steps: int, *, shown: bool) -> None:
        self._bar = Progress(
            TextColumn("{task.description:<32}", markup=False),
            BarColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            refresh_per_second=_PER_SECOND,
            transient=True,
            disable=not shown,
        )
        self._task = self._bar.add_task("", total=steps)
        self._done = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def says(self, what: str) -> None:
        """Say what is running."""
        self._bar.update(self._task, description=what)

    def step(self) -> None:
        """Count one step."""
        self._done += 1
        if not self._done % _EVERY:
            self._bar.update(self._task, completed=self._done)

    def skip(self, steps: int) -> None:
        """Count steps that will not be made."""
        self._done += steps
        self._bar.update(self._task, completed=self._done)
