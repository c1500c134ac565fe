"""The queue was filled before it mattered, and is running out."""

from __future__ import annotations

import math

from probe.insight import words
from probe.insight.causes.cause import QUEUE_DRAINING, Cause, confidence
from probe.insight.causes.evidence import Evidence
from probe.insight.causes.workers import needed
from probe.insight.queue import Draining
from probe.insight.words import ms_of_ns as ms

# What a stall has to reach to matter; the border of compute-bound.
_MATTERS = 0.05


def to_come(evidence: Evidence) -> float | None:
    """Give the stall share that is to come once the queue is empty; None if none that matters.

    A stock that falls by so much a step leaves that share of the time to wait for. Fetches say
    the same another way: of the workers' period, the part beyond the loop's own.
    """
    draining = evidence.queue.draining
    if draining is None:
        return None
    share = max(draining.per_step, _from_fetches(evidence) or 0.0)
    return share if share >= _MATTERS else None


def queue_draining(evidence: Evidence, draining: Draining, share: float) -> Cause:
    """The loop takes batches faster than they are made, from a stock."""
    fetch, workers = evidence.fetch, evidence.workers
    left = draining.steps_left
    made = ""
    if fetch is not None and workers:
        made = (
            f"; {words.count(workers)} workers make a batch every {ms(fetch.wall_ns / workers)} ms,"
            f" the loop takes one every {ms(evidence.period_ns)}"
        )
    lasts = "it is empty now" if left is None else f"it lasts about {words.about(left)} more steps"
    more = max(evidence.steps, 2 * (left or 0))
    agrees = _from_fetches(evidence)
    return Cause(
        cause=QUEUE_DRAINING,
        share=1.0,
        evidence=f"The queue fell from {draining.first:.1f} to {draining.last:.1f} finished"
        f" batches and {lasts}{made}.",
        advice=f"Run longer, {words.about(math.ceil(more))} more steps: steady state not reached."
        f" Once the queue is empty the loop will wait about {words.percent(share)} of the time, if"
        " batches go on being made as fast as now.",
        gain=(1.0, 1.0),
        confidence=confidence(left is not None, agrees is not None and agrees > 0),
        title="queue draining",
    )


def _from_fetches(evidence: Evidence) -> float | None:
    fetch, workers = evidence.fetch, evidence.workers
    if fetch is None or not workers or needed(evidence, fetch) <= workers:
        return None
    return max(0.0, 1 - evidence.period_ns * workers / fetch.wall_ns)
