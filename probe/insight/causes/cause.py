"""What a cause is, and what they are called."""

from __future__ import annotations

from dataclasses import dataclass, replace

from probe.insight import words

STORAGE = "storage"
CPU_LOADING = "cpu-loading"
TOO_FEW_WORKERS = "too-few-workers"
OVERSUBSCRIBED = "oversubscribed"
BURST = "burst"
EPOCH_START = "epoch-start"
COPY = "copy"
MAIN_THREAD = "main-thread"
QUEUE_DRAINING = "queue-draining"

HIGH = "high"
MEDIUM = "medium"
LOW = "low"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the loop waits, and what to do about it.

    `share` is the part of the stall that the cause explains, 0–1; no part is explained twice.
    `gain` is the interval of the speed-up that following the advice would bring, under the
    assumption that the advice names. `confidence` says how much of the evidence it needs was
    recorded. `title` names the cause in words. `settings` are the changes as code, as they stand in
    the advice; empty where the advice is no setting.
    """

    cause: str
    share: float
    evidence: str
    advice: str
    gain: tuple[float, float]
    confidence: str
    title: str
    settings: tuple[str, ...] = ()


def confidence(*present: bool) -> str:
    """Grade how much of the needed evidence is there: all, all but one, or less."""
    missing = present.count(False)
    return HIGH if not missing else MEDIUM if missing == 1 else LOW


def less_sure(cause: Cause) -> Cause:
    """Return a cause with one grade of confidence less."""
    return replace(cause, confidence=MEDIUM if cause.confidence == HIGH else LOW)


def advise(action: str, gain: tuple[float, float], assumption: str) -> str:
    """Write an advice: what to do, what it would bring, and what that rests on.

    Args:
        action: The change, as an order.
        gain: The speed-up, lowest and highest.
        assumption: What must hold for it, as a clause that follows "if".
    """
    return f"{action}: {words.times_range(*gain)} × expected, if {assumption}."
