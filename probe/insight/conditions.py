"""Conditions for a pipeline in CI: `throughput < 0.97` is decided by the interval, not the mean."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe.insight import words
from probe.insight.bootstrap import ratio_interval
from probe.insight.compare import Comparison
from probe.insight.settings import Side, other_hardware
from probe.insight.throughput import Interval, steady_part

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MEANS = ("wait_ms", "step_ms")
_PERCENTILES = tuple(f"{name}_{q}" for name in _MEANS for q in ("p95", "p99"))
_UNITS = {"throughput": ("", "%"), "stall": ("", "%")} | dict.fromkeys(
    (*_MEANS, *_PERCENTILES), ("", "ms")
)
_FORM = re.compile(r"\s*(\w+)\s*(<=|>=|<|>)\s*(\d+(?:\.\d*)?|\.\d+)\s*(%|ms)?\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """When to fail; `bound` is a ratio, a share of 1, or ms."""

    text: str
    metric: str
    sign: str
    bound: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a condition: it holds, it does not, or None: the interval holds its bound."""

    condition: str
    holds: bool | None
    interval: Interval | None
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """Return what `probe compare --json` prints under `conditions`."""
        return asdict(self)


def parse(text: str) -> Condition:
    """Read a condition: a metric, one of < <= > >=, and a number.

    `throughput` is the candidate's samples/s ÷ the baseline's, `stall` the candidate's stall share,
    0–1 or with %, `wait_ms` and `step_ms` the candidate's mean per step, and `wait_ms_p95` and so
    on its percentiles.

    Raises:
        ValueError: It cannot be read; one sentence.
    """
    found = _FORM.fullmatch(text)
    metric = found[1] if found else ""
    unit = (found[4] or "") if found else ""
    if found is None or metric not in _UNITS or unit not in _UNITS[metric]:
        raise ValueError(
            f"--fail-if is {text!r}: write a metric, one of < <= > >=, and a number, such as"
            f' "throughput < 0.97" or "stall > 5%"; the metrics are {", ".join(_UNITS)}'
        )
    bound = float(found[3]) / (100 if unit == "%" else 1)
    return Condition(" ".join(text.split()), metric, found[2], bound)


def decide(condition: Condition, found: Comparison, a: Side, b: Side) -> Outcome:
    """Say whether a condition holds for certain, does not for certain, or cannot be told.

    Args:
        condition: The condition.
        found: Run B compared with run A.
        a: Run A, the baseline, with all of its steps.
        b: Run B, the candidate.
    """
    interval = _interval(condition.metric, found, a, b)
    if interval is None:
        why = found.sentence.removesuffix(".").removeprefix("Cannot tell: ")
        return Outcome(condition.text, None, None, f"Cannot tell: {condition.text}: {why}.")
    holds = {_OPERATORS[condition.sign](end, condition.bound) for end in interval}
    certain = holds.pop() if len(holds) == 1 else None
    measured = f"{condition.metric} is {_range(condition.metric, interval)} (95 %)"
    verdict = {True: "Fails", False: "Passes", None: "Cannot tell"}[certain]
    return Outcome(condition.text, certain, interval, f"{verdict}: {condition.text}: {measured}.")


def _interval(metric: str, found: Comparison, a: Side, b: Side) -> Interval | None:
    if metric == "throughput":
        return None if other_hardware(a, b) else found.throughput_ci
    if metric == "stall":
        return found.candidate_figures.stall_share_ci
    name, _, percentile = metric.partition("_ms")
    values = getattr(steady_part(b).steps, f"{name}_ns") / 1e6
    if not percentile:
        return ratio_interval(values, np.ones(len(values)))
    return _percentile_interval(values, float(percentile.removeprefix("_p")) / 100)


def _percentile_interval(values: NDArray[np.float64], share: float) -> Interval | None:
    """Give the interval of a percentile: of the share of steps below it, read back as ms.

    Woodruff, "Confidence intervals for medians and other position measures", 1952, with the
    interval of the share from a block bootstrap.
    """
    if not len(values):
        return None
    below = values <= np.quantile(values, share)
    shares = ratio_interval(below.astype(np.float64), np.ones(len(values)))
    if shares is None:
        return None
    low, high = np.quantile(values, np.clip(shares, 0, 1))
    return float(low), float(high)


def _range(metric: str, interval: Interval) -> str:
    if metric == "throughput":
        return words.times_range(*interval)
    if metric == "stall":
        return words.percent_range(*interval)
    return "–".join(map(words.ms, interval)) + " ms"
