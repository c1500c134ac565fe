"""What probe predicts from a recording: queries and simulator put together, for every screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from probe.insight.calibration import Calibration, calibrate, same_program, same_work, setting_of
from probe.insight.machine import load_of, usable_cores
from probe.insight.recorded import Recorded, recorded_from
from probe.insight.settings import Side
from probe.insight.whatif import PREFETCH_FACTORS, WORKERS, Prediction, WhatIf, whatif
from probe.report import side
from probe.store.queries import Run, Store, StoreError

# The cost of a calibration grows with the square of their number.
_MOST_RUNS = 12


@dataclass(frozen=True, slots=True)
class Measured:
    """A run of the same work as it was measured; samples/s over steady steps."""

    name: str
    num_workers: int
    prefetch_factor: int | None
    background: int
    samples_per_s: float

    def has_setting(self, point: Prediction) -> bool:
        """Tell whether the run had the workers and the prefetch factor of a prediction."""
        mine = self.num_workers, self.prefetch_factor
        return mine == (point.num_workers, point.prefetch_factor)


@dataclass(frozen=True, slots=True)
class Replay:
    """A run that can be replayed, runs of the same work that were measured, and how well it goes.

    `measured` holds the run itself and the newest others that can be compared, the oldest first.
    """

    recorded: Recorded
    measured: list[Measured]
    calibration: Calibration

    @property
    def cores(self) -> float | None:
        """The cores that the process could use; None if not recorded."""
        return self.recorded.cores if np.isfinite(self.recorded.cores) else None

    @property
    def batch_size(self) -> int:
        """Samples in a batch, to the nearest whole number."""
        return max(1, round(self.recorded.samples))


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions, and what they can be held against.

    `measured` holds runs that differ from what is asked in workers and prefetch factor alone; it
    is empty if the storage, batch, copies or cores asked for are not those of the recording.
    """

    predicted: WhatIf
    measured: list[Measured]
    calibration: Calibration

    def to_json(self) -> dict[str, Any]:
        """Return what `probe whatif --json` prints."""
        return {
            **self.predicted.to_json(),
            "measured": [asdict(run) for run in self.measured],
            "calibration": self.calibration.to_json(),
        }


def replay(store: Store, run: Run) -> Replay:
    """Prepare a run for what-if questions.

    Raises:
        StoreError: The run has no watched loop, or what was recorded is not enough; one sentence.
    """
    about = side(store, run)
    recorded = _recorded(store, about)
    if isinstance(recorded, str):
        raise StoreError(f"run {run.label!r} cannot be replayed: {_lower(recorded)}")
    runs = [(about, recorded), *_others(store, about)]
    runs.sort(key=lambda pair: (pair[0].run.started_at, pair[0].run.id))
    measured = []
    for other, said in runs:
        setting = setting_of(other)
        if setting is None or isinstance(said, str):
            continue
        measured.append(
            Measured(
                other.run.label,
                said.num_workers,
                said.prefetch_factor,
                setting.background,
                said.samples_per_s,
            )
        )
    return Replay(recorded, measured, calibrate(runs))


def ask(
    replay: Replay,
    workers: Sequence[int] = WORKERS,
    prefetch_factors: Sequence[int] = PREFETCH_FACTORS,
    storage: float = 1.0,
    batch_size: int | None = None,
    background: int = 0,
    side_stream: bool = False,
    cores: float | None = None,
) -> Forecast:
    """Predict a run under other settings; see `whatif`.

    Args:
        replay: The run.
        workers: Numbers of workers.
        prefetch_factors: Prefetch factors.
        storage: Multiplies the time that fetches spend off the core.
        batch_size: Samples in a batch; None for as many as were recorded.
        background: How many batches a background thread holds ready; 0 without one.
        side_stream: Whether copies cost the loop nothing.
        cores: How many cores there are; None for as many as were recorded.

    Raises:
        ValueError: A value cannot be; one sentence.
    """
    batch = 1.0
    if batch_size is not None:
        if batch_size < 1:
            raise ValueError(f"the samples of a batch are {batch_size}: give 1 or more")
        same = batch_size == replay.batch_size
        batch = 1.0 if same else batch_size / replay.recorded.samples
    predicted = whatif(
        replay.recorded,
        workers=workers,
        prefetch_factors=prefetch_factors,
        storage=storage,
        batch=batch,
        background=background,
        side_stream=side_stream,
        cores=cores,
    )
    as_recorded = storage == batch == 1 and not side_stream and cores in (None, replay.cores)
    return Forecast(
        predicted=predicted,
        measured=[run for run in replay.measured if as_recorded and run.background == background],
        calibration=replay.calibration,
    )


def _others(store: Store, about: Side) -> list[tuple[Side, Recorded | str]]:
    found: list[tuple[Side, Recorded | str]] = []
    for run in store.runs():
        if len(found) == _MOST_RUNS - 1:
            break
        if run.id == about.run.id or not same_program(about.run, run):
            continue
        try:
            other = side(store, run)
        except StoreError:
            continue
        if len(other.steps) and same_work(about, other):
            found.append((other, _recorded(store, other)))
    return found


def _recorded(store: Store, about: Side) -> Recorded | str:
    run, loader = about.run, about.loader
    load, fetches = load_of(store.host_samples(run.id)), store.fetches(run.id, loader.id)
    cores = usable_cores(run)
    return recorded_from(loader, about.steps, fetches, cores, *load.in_cores(cores))


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")
