"""Ends the run that a test has begun by watching a loop."""

from __future__ import annotations

from probe.run import current


def finish_runs() -> None:
    """End the run that a watched loop began by itself, as the interpreter does at exit."""
    run = current()
    if run is not None:
        run.finish()
