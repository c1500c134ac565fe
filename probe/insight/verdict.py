"""Is the loop waiting for data, and why? A class, a sentence with its numbers, and the evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from probe.insight import causes, words
from probe.insight.bootstrap import MIN_STEPS
from probe.insight.causes import Cause, Evidence
from probe.insight.summary import PHASES, WARM_UP_STEPS, LoaderSummary
from probe.store.queries import Steps

COMPUTE_BOUND = "compute-bound"
MODERATE = "moderately input-bound"
HIGH = "highly input-bound"
UNDECIDED = "undecided"

# The borders of XProf's input-pipeline analyzer.
_BORDERS = (0.05, 0.20)
_CLASSES = (COMPUTE_BOUND, MODERATE, HIGH)
# With a hundred times the steps an interval is a tenth as wide; nobody waits for that.
_PATIENCE = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the report says first: a class, a sentence, the evidence and the causes."""

    class_: str
    sentence: str
    evidence: list[str]
    causes: list[Cause]

    @property
    def short(self) -> str:
        """The class, and the first cause where one is named: highly input-bound · storage."""
        return " · ".join((self.class_, *(cause.cause for cause in self.causes[:1])))


def judge(
    summary: LoaderSummary | None, steps: Steps | None, recorded: Evidence | None = None
) -> Verdict:
    """Say whether a loop is input-bound and why, as far as what was recorded allows.

    A class is claimed only if the whole 95 % interval of the stall share lies in it: below 5 %
    compute-bound, from 20 % highly input-bound, moderately input-bound between. The upper bound of
    any input fix is step ÷ (step − stall), unless a thread makes batches beside the loop and may
    slow its compute down. Causes are named only if all of the interval lies above
    compute-bound. A queue that is draining leaves the class undecided, since the stall is
    yet to come.

    Args:
        summary: The loader that the verdict is about, or None if the run has no such loader.
        steps: Its steps.
        recorded: What else was recorded beside the steps, or None to name no causes.
    """
    if summary is None or steps is None:
        sentence = "Nothing to judge: no loop over a watched loader was recorded."
        return Verdict(UNDECIDED, sentence, [], [])
    evidence = _evidence(summary, steps)
    share, interval = summary.stall_share, summary.stall_share_ci
    if share is None or interval is None:
        return Verdict(UNDECIDED, _too_few(summary), evidence, [])
    found = (
        f"the {'device stands still' if summary.stall_clock == 'device' else 'loop waits'} for data"
        f" {words.percent(share)} of the time (95 %: {words.percent_range(*interval)})"
    )
    draining = None if recorded is None else causes.find_draining(recorded)
    if draining is not None and interval[0] < _BORDERS[1]:
        sentence = f"Undecided: so far {found}, but that will not last. {_because(draining)}"
        return Verdict(UNDECIDED, sentence, evidence, [draining])
    named: list[Cause] = []
    if recorded is not None and interval[0] >= _BORDERS[0]:
        named = causes.find(recorded)
        evidence += causes.missing(recorded, named)
    why = f" {_because(named[0])}" if named else ""
    most = _upper_bound(share, recorded)
    lowest, highest = (_class_of(bound) for bound in interval)
    if lowest == highest:
        sentence = f"{lowest.capitalize()}: {found}.{why} {most}"
        return Verdict(lowest, sentence, evidence, named)
    more = _more_steps(share, interval, summary.steps - WARM_UP_STEPS)
    decide = (
        f"About {words.about(more)} more step{'' if more < 1.5 else 's'} would decide."
        if more is not None
        else "It lies too close to the border for more steps to decide."
    )
    sentence = f"Undecided between {lowest} and {highest}: {found}. {decide}{why} {most}"
    return Verdict(UNDECIDED, sentence, evidence, named)


def _because(cause: Cause) -> str:
    """Say the cause, and the first thing to try, so that a reader has both in one line."""
    evidence = f"{cause.evidence[:1].lower()}{cause.evidence[1:]}"
    found = f"{cause.title[:1].upper()}{cause.title[1:]}: {evidence}"
    if not cause.settings:
        return found
    return (
        f"{found} Try {' and '.join(cause.settings)}: {words.times_range(*cause.gain)} × expected."
    )


def _class_of(share: float) -> str:
    return _CLASSES[sum(share >= border for border in _BORDERS)]


def _upper_bound(share: float, recorded: Evidence | None) -> str:
    if recorded is not None and recorded.may_slow_compute:
        return (
            "How much an input fix can give is not known: a thread of the training process makes"
            " batches, and taking turns with it may be part of the compute time."
        )
    if share >= 1:
        return "There is nothing but waiting, so an input fix has no upper bound."
    return (
        "As long as compute stays as it is, nothing done to the input can give more than"
        f" {words.times(1 / (1 - share))} ×."
    )


def _more_steps(share: float, interval: tuple[float, float], counted: int) -> float | None:
    """Estimate the steps still missing: an interval narrows with the root of their number."""
    needed = float(counted)
    for border in _BORDERS:
        if interval[0] < border <= interval[1]:
            reach = share - interval[0] if border <= share else interval[1] - share
            distance = abs(share - border)
            if reach >= distance * _PATIENCE**0.5:
                return None
            needed = max(needed, counted * (reach / distance) ** 2)
    return max(needed - counted, 1.0)


def _too_few(summary: LoaderSummary) -> str:
    missing = WARM_UP_STEPS + MIN_STEPS - summary.steps
    if missing <= 0:
        return "Nothing to judge: the recorded steps took no time."
    return (
        f"Too few steps to judge: {words.count(summary.steps)} recorded, the first {WARM_UP_STEPS}"
        f" are warm-up. {missing} more would give a first answer."
    )


def _evidence(summary: LoaderSummary, steps: Steps) -> list[str]:
    found = []
    step, wait = summary.step_ms, summary.wait_ms
    if step.mean is not None:
        parts = ", ".join(
            f"{phase} {words.ms(getattr(summary, f'{phase}_ms').mean)}" for phase in PHASES
        )
        found.append(f"A step takes {words.ms(step.mean)} ms on average: {parts}.")
    if wait.p50 is not None and wait.p99 is not None and wait.max is not None:
        inner = np.flatnonzero(~steps.epoch_start)
        worst = steps.step[inner[np.argmax(steps.wait_ns[inner])]]
        found.append(
            f"Half of the steps wait at most {words.ms(wait.p50)} ms, 99 % at most"
            f" {words.ms(wait.p99)} ms; the longest wait, {words.ms(wait.max)} ms,"
            f" delayed step {words.count(worst)}."
        )
    if summary.epoch_start_ms is not None:
        found.append(
            f"The first step of an epoch waits {words.ms(summary.epoch_start_ms)} ms on average,"
            " start of the workers included."
        )
    if summary.stall_clock == "host":
        found.append(
            "Host clock: an accelerator that was still busy during a wait would make the true share"
            " smaller."
        )
    return found
