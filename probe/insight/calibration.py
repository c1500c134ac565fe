"""How good were earlier predictions? What was predicted against what was measured later."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from probe.insight import words
from probe.insight.recorded import Recorded
from probe.insight.settings import Side, obstacle
from probe.insight.whatif import Setting, describe, predict
from probe.store.queries import Run

# Loaders whose pipeline the simulator knows, outermost class first, and whether each is a thread
# that holds one batch ready.
_KNOWN = {("DataLoader",): 0, ("Background", "DataLoader"): 1}


@dataclass(frozen=True, slots=True)
class Check:
    """A later run, and what an earlier run of the same work said of its setting.

    `error` is predicted ÷ measured − 1.
    """

    earlier: str
    later: str
    num_workers: int
    prefetch_factor: int | None
    predicted: float
    measured: float
    error: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Predictions that could be checked. `median_error` and `worst_error` are without sign."""

    checks: list[Check]
    median_error: float | None
    worst_error: float | None
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Return what `probe whatif --json` prints under `calibration`."""
        return asdict(self)


def same_work(a: Side, b: Side) -> bool:
    """Tell whether two runs did the same work, so that one may speak of the other.

    That takes the same data set, batch size and machine, and the same experiment; where no
    experiment was named, the same program.
    """
    return (
        same_program(a.run, b.run)
        and obstacle(a, b) is None
        and a.loader.dataset == b.loader.dataset
        and a.loader.name == b.loader.name
    )


def same_program(a: Run, b: Run) -> bool:
    """Tell from the rows of two runs alone whether they may have done the same work."""
    if a.host != b.host or a.device != b.device:
        return False
    if a.experiment or b.experiment:
        return a.experiment == b.experiment
    return _program(a.command) == _program(b.command)


def setting_of(side: Side) -> Setting | None:
    """Return how the batches of a run reached its loop; None if the simulator does not know it."""
    loader = side.loader
    background = _KNOWN.get(tuple(loader.chain))
    if background is None or loader.num_workers is None:
        return None
    return Setting(
        num_workers=loader.num_workers,
        prefetch_factor=loader.prefetch_factor or 2,
        in_order=loader.in_order is not False,
        background=background,
    )


def calibrate(runs: Sequence[tuple[Side, Recorded | str]]) -> Calibration:
    """Predict each later run from each earlier one.

    Args:
        runs: Runs of the same work, the oldest first, each with what can be replayed of it or the
            reason why nothing can.
    """
    checks = []
    for (earlier, said), (later, measured) in itertools.combinations(runs, 2):
        setting = setting_of(later)
        if isinstance(said, str) or isinstance(measured, str) or setting is None:
            continue
        found = predict(said, setting)
        checks.append(
            Check(
                earlier=_name(earlier),
                later=_name(later),
                num_workers=found.num_workers,
                prefetch_factor=found.prefetch_factor,
                predicted=found.samples_per_s,
                measured=measured.samples_per_s,
                error=found.samples_per_s / measured.samples_per_s - 1,
            )
        )
    if not checks:
        sentence = (
            "No prediction could be checked yet: record this work once more with another setting."
        )
        return Calibration([], None, None, sentence)
    errors = np.abs([check.error for check in checks])
    worst = max(checks, key=lambda check: abs(check.error))
    median = float(np.median(errors))
    sentence = (
        f"Earlier predictions were off by {words.percent(median)} (median of {len(checks)}); the"
        f" worst, {describe(worst.num_workers, worst.prefetch_factor)}, by"
        f" {words.signed_percent(worst.error)}."
    )
    return Calibration(checks, median, float(errors.max()), sentence)


def _name(side: Side) -> str:
    return f"{side.run.label} (run {side.run.id})"


def _program(command: str | None) -> list[str]:
    """Return what was started, without its arguments, which may be the settings that differ."""
    words_ = (command or "").split()
    for end, word in enumerate(words_, start=1):
        if word.endswith(".py"):
            return words_[:end]
    return words_[:1]
