"""`probe.race`: which way of loading is the fastest here, measured so that it can be believed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from probe.environment import database, disabled

if TYPE_CHECKING:
    from probe.racing.loaders import MakeLoader
    from probe.racing.result import RaceResult
    from probe.racing.strategies import Strategies

# What an interval takes.
_FEWEST_STEPS = 20


def race(
    make_loader: MakeLoader,
    train_step: Callable[[Any], object],
    strategies: Strategies | None = None,
    *,
    steps: int = 200,
    repeats: int = 5,
    seconds: float | None = None,
    db: str | Path | None = None,
    progress: bool = True,
) -> RaceResult:
    """Run one training step under several loading strategies and recommend one.

    The strategies take turns, in an order that is rotated from round to round, so that what drifts
    meets all of them alike. Each turn is recorded as a run of one experiment. The ceiling, the
    step with batches from memory, takes its turns too; what each loader gives alone is measured
    once, before. The race ends early when more rounds would change nothing, or time is over;
    Ctrl-C keeps what was measured.

    The strategies are `plain`, the loader as `make_loader()` returns it; `workers=N`,
    `prefetch_factor=N`, `persistent_workers` and `pin_memory`, with commas between them;
    `background` and `to_device`, as in `probe.prefetch`; and their combinations, such as
    `workers=2+background`. A dictionary gives callables of your own, which take the loader and
    return what to iterate over.

    Args:
        make_loader: Returns a loader. Settings of a strategy are given to it as `num_workers`,
            `prefetch_factor`, `persistent_workers` and `pin_memory`. If it takes none of these
            and returns a torch `DataLoader`, that is made once more with them.
        train_step: Trains on one batch. It should take equally long whichever batches came before.
        strategies: Names, dictionaries of callables, or both; the first is the baseline. Default:
            what suits the number of cores, and the accelerator if there is one.
        steps: Steps of each run that count: neither the 20 of warm-up nor the first of an epoch.
        repeats: How many rounds at most.
        seconds: Time for all of it; None for no limit.
        db: The file to record to; default `PROBE_DB`, else `probe.db` in the current directory.
        progress: Show a progress bar on standard error.

    Raises:
        RaceError: The race cannot be run as asked, or no strategy could be measured.
    """
    # Only here: what reads recordings, numpy and rich do not belong into `import probe`.
    from probe.racing.course import Course
    from probe.racing.laps import laps
    from probe.racing.loaders import name_of
    from probe.racing.result import conclude
    from probe.racing.strategies import RaceError, parse
    from probe.record.cores import usable_cores

    _check(make_loader, train_step, steps, repeats, seconds)
    file = _recordable(db)
    entrants = parse(strategies, usable_cores())
    course = Course(
        *laps(entrants, make_loader, train_step),
        steps=steps,
        repeats=repeats,
        deadline=monotonic() + (float("inf") if seconds is None else seconds),
        experiment=f"race-{datetime.now(UTC):%Y%m%dT%H%M%S}-{name_of(make_loader)}",
        db=file,
    )
    stopped = course.go(progress)
    if not course.sound:
        first = course.failed[entrants[0].title]
        raise RaceError(f"no strategy could be run: {first}")
    return conclude(
        entrants,
        make_loader,
        course.ran,
        course.failed,
        experiment=course.experiment,
        db=file,
        repeats=course.rounds,
        stopped=stopped,
        interrupted=course.interrupted,
    )


def _check(
    make_loader: object, train_step: object, steps: int, repeats: int, seconds: float | None
) -> None:
    """Refuse what cannot work before any time is spent on it."""
    from probe.racing.strategies import RaceError

    for name, function in (("make_loader", make_loader), ("train_step", train_step)):
        if not callable(function):
            raise RaceError(f"{name} is {function!r:.80}: give a function")
    if steps < _FEWEST_STEPS:
        raise RaceError(f"steps is {steps}: an interval takes at least {_FEWEST_STEPS}")
    if repeats < 1:
        raise RaceError(f"repeats is {repeats}: give 1 or more")
    if seconds is not None and not seconds > 0:
        raise RaceError(f"seconds is {seconds}: give more than 0, or None for no limit")
    if disabled():
        raise RaceError("PROBE_DISABLE is set, so nothing would be recorded: unset it")


def _recordable(db: str | Path | None) -> Path:
    from probe.racing.strategies import RaceError
    from probe.record.file import connect

    try:
        file = database(db)
        connect(file).close()
    except (sqlite3.Error, OSError, RuntimeError, ValueError) as error:
        raise RaceError(f"cannot record to {db or 'probe.db'}: {error}") from error
    return file
