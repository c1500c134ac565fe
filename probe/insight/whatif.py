"""What should I change? A recorded run, replayed with other settings in simulated time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from probe.insight import words
from probe.insight.bootstrap import ratio_interval
from probe.insight.pipeline import Pipeline, Series, Work, simulate
from probe.insight.recorded import Recorded

# What counts as reaching a throughput.
ENOUGH = 0.95

WORKERS = (0, 1, 2, 4, 8)
PREFETCH_FACTORS = (2, 4)

MOST_WORKERS = 256
MOST_PREFETCH = 256
LEAST_CORES = 0.01  # the smallest quota that Linux grants
MOST_CORES = 100_000.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What to change.

    `prefetch_factor` and `in_order` mean what they mean to DataLoader. `storage` multiplies the
    time of a fetch off the core, `batch` the samples of a batch and with them all work on it.
    `background` is how many batches a thread holds ready, 0 without one. With `side_stream` the
    copies cost the loop nothing. `cores` is None for those that the recorded process could use.

    Raises:
        ValueError: A value cannot be; one sentence.
    """

    num_workers: int
    prefetch_factor: int = 2
    in_order: bool = True
    storage: float = 1.0
    batch: float = 1.0
    background: int = 0
    side_stream: bool = False
    cores: float | None = None

    def __post_init__(self) -> None:
        _within("the number of workers", self.num_workers, 0, MOST_WORKERS)
        _within("the prefetch factor", self.prefetch_factor, 1, MOST_PREFETCH)
        _within("the factor for storage", self.storage, 0, 1000)
        _within("the batches of a background thread", self.background, 0, MOST_PREFETCH)
        _within("the factor for the batch", self.batch, 0.001, 1000)
        if self.cores is not None:
            _within("the number of cores", self.cores, LEAST_CORES, MOST_CORES)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a setting is predicted to give; `prefetch_factor` is None without workers.

    `samples_per_s_ci` is a 95 % interval for how much the recorded steps vary. It does not know
    how well the model fits; see `calibration`.
    """

    num_workers: int
    prefetch_factor: int | None
    samples_per_s: float
    samples_per_s_ci: tuple[float, float] | None
    stall_share: float


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Predictions for every number of workers with every prefetch factor.

    `recommended` is the one with the fewest workers, and then the smallest prefetch factor, that
    gives 95 % of the best. `ceiling` is the throughput of a loop that never waits, None if it does
    nothing else; `recorded_samples_per_s` is what was measured. `assumptions` are sentences.
    """

    points: list[Prediction]
    recommended: Prediction
    ceiling: float | None
    recorded_samples_per_s: float
    sentence: str
    assumptions: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return what `probe whatif --json` prints."""
        return asdict(self)


def predict(recorded: Recorded, setting: Setting) -> Prediction:
    """Predict throughput and stall share of a recorded run under a setting.

    Fetches and steps are replayed in the order in which they were recorded. A batch of other size
    takes time in proportion, in fetch, copy and compute alike.

    Args:
        recorded: The run.
        setting: What to change.

    Raises:
        ValueError: Nothing would take any time under this setting; one sentence.
    """
    copy = _copy(recorded, setting)
    simulated = simulate(_work(recorded, setting), _pipeline(recorded, setting), len(copy))
    samples = np.full(len(copy), recorded.samples * setting.batch)
    stall = simulated.wait + copy if recorded.copy_stalls else simulated.wait
    wall = float(simulated.step.sum())
    if not wall > 0:
        raise ValueError(
            "nothing would take any time with that: give a factor for storage above 0 or leave the"
            " copies on the loop's stream"
        )
    return Prediction(
        num_workers=setting.num_workers,
        prefetch_factor=setting.prefetch_factor if setting.num_workers else None,
        samples_per_s=float(samples.sum()) / wall,
        samples_per_s_ci=ratio_interval(samples, simulated.step),
        stall_share=float(stall.sum()) / wall,
    )


def whatif(
    recorded: Recorded,
    workers: Sequence[int] = WORKERS,
    prefetch_factors: Sequence[int] = PREFETCH_FACTORS,
    storage: float = 1.0,
    batch: float = 1.0,
    background: int = 0,
    side_stream: bool = False,
    cores: float | None = None,
) -> WhatIf:
    """Predict a run under each number of workers with each prefetch factor.

    Args:
        recorded: The run.
        workers: Numbers of workers, at least one.
        prefetch_factors: Prefetch factors, at least one.
        storage: See `Setting`, as for the rest.
        batch: See `Setting`.
        background: See `Setting`.
        side_stream: See `Setting`.
        cores: See `Setting`.

    Raises:
        ValueError: A value cannot be; one sentence.
    """
    settings = [
        Setting(
            number,
            prefetch_factor,
            recorded.in_order,
            storage,
            batch,
            background,
            side_stream,
            cores,
        )
        for number, prefetch_factor in itertools.product(
            sorted(set(workers)), sorted(set(prefetch_factors))
        )
    ]
    if not settings:
        raise ValueError("there is no number of workers or no prefetch factor to try: give one")
    # Without workers the prefetch factor says nothing.
    first = settings[0].prefetch_factor
    points = [
        predict(recorded, setting)
        for setting in settings
        if setting.num_workers or setting.prefetch_factor == first
    ]
    best = max(point.samples_per_s for point in points)
    recommended = next(point for point in points if point.samples_per_s >= ENOUGH * best)
    ceiling = _ceiling(recorded, settings[0])
    return WhatIf(
        points=points,
        recommended=recommended,
        ceiling=ceiling,
        recorded_samples_per_s=recorded.samples_per_s,
        sentence=_sentence(recorded, recommended, best, ceiling),
        assumptions=[*recorded.assumptions, *_assumptions(settings[0])],
    )


def describe(num_workers: int, prefetch_factor: int | None) -> str:
    """Write a setting in words: 4 workers, prefetch_factor 2."""
    workers = f"{num_workers} worker{'' if num_workers == 1 else 's'}"
    return workers if prefetch_factor is None else f"{workers}, prefetch_factor {prefetch_factor}"


def _within(what: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"{what} is {value:g}: give {least:g} to {most:g}")


def _work(recorded: Recorded, setting: Setting) -> Work:
    # Whoever needs less than an equal share of the cores gets it first, as Linux schedules.
    modest = recorded.loop_cores <= _cores(recorded, setting) / (setting.num_workers + 1)
    on_core = 0.0 if modest else min(recorded.loop_cores, 1.0)
    loop = recorded.loop * setting.batch
    return Work(
        fetch_off=recorded.fetch_off * (setting.storage * setting.batch),
        fetch_on=recorded.fetch_on * setting.batch,
        loop_off=_copy(recorded, setting) + loop * (1 - on_core),
        loop_on=loop * on_core,
        loop_cores=max(recorded.loop_cores, 1.0),
        first_cores=recorded.loop_cores if modest else 0.0,
    )


def _copy(recorded: Recorded, setting: Setting) -> Series:
    return recorded.copy * (0.0 if setting.side_stream else setting.batch)


def _pipeline(recorded: Recorded, setting: Setting) -> Pipeline:
    # A host that runs ahead of its device is to the device what the thread is to the loop.
    ahead = max(setting.background, int(recorded.runs_ahead))
    return Pipeline(
        num_workers=setting.num_workers,
        prefetch_factor=setting.prefetch_factor,
        in_order=setting.in_order,
        background=ahead,
        cores=_cores(recorded, setting),
        handover=recorded.handover,
    )


def _cores(recorded: Recorded, setting: Setting) -> float:
    return recorded.cores if setting.cores is None else setting.cores


def _ceiling(recorded: Recorded, setting: Setting) -> float | None:
    slowdown = max(1.0, recorded.loop_cores / _cores(recorded, setting))
    step = recorded.loop * setting.batch * slowdown + _copy(recorded, setting)
    mean = float(step.mean())
    return recorded.samples * setting.batch / mean if mean else None


def _sentence(recorded: Recorded, found: Prediction, best: float, ceiling: float | None) -> str:
    setting = describe(found.num_workers, found.prefetch_factor)
    gain = words.times(found.samples_per_s / recorded.samples_per_s)
    if found.samples_per_s_ci is not None:
        low, high = (words.times(end / recorded.samples_per_s) for end in found.samples_per_s_ci)
        gain = f"{gain} × (95 %: {low}–{high})"
    else:
        gain = f"{gain} ×"
    rate = f"{words.rate(found.samples_per_s)} samples/s, {gain} what was recorded"
    if ceiling is None:
        return f"Smallest setting within 5 % of the best: {setting}: {rate}."
    if best >= ENOUGH * ceiling:
        return f"Smallest setting within 5 % of the ceiling: {setting}: {rate}."
    return (
        f"No setting tried comes within 5 % of the ceiling of {words.rate(ceiling)} samples/s; the"
        f" best gives {words.percent(best / ceiling)} of it. Smallest setting within 5 % of the"
        f" best: {setting}: {rate}."
    )


def _assumptions(setting: Setting) -> list[str]:
    found = []
    if setting.batch != 1:
        found.append(
            "A batch of another size is taken to need time in proportion, also for the training"
            " step."
        )
    if setting.background:
        found.append(
            "The background thread is taken not to compete with the loop for the interpreter lock:"
            " Python code in the data set or the loop makes it slower."
        )
    return found
