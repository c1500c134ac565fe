"""Epochs begin slowly."""

from __future__ import annotations

from probe.insight import words
from probe.insight.causes.cause import EPOCH_START, Cause, advise, confidence
from probe.insight.causes.evidence import Evidence
from probe.insight.words import ms_of_ns as ms

# One late start may be chance.
_SEVERAL = 3


def epoch_start(evidence: Evidence, part_ns: float) -> Cause:
    """The first step of an epoch waits, mostly for workers to start."""
    count, workers, fetch = evidence.epoch_starts, evidence.workers, evidence.fetch
    each_ns = part_ns * evidence.steps / count
    # Workers that stay still need as long as one fetch for the first batch.
    first_ns = each_ns / 2 if fetch is None else fetch.wall_ns
    kept = max(0.0, each_ns - first_ns) / each_ns * part_ns
    gain, settings = (evidence.gives(kept), evidence.gives(part_ns)), []
    started = workers and not evidence.loader.persistent_workers
    if started:
        settings = ["persistent_workers=True"]
        action = f"Set {settings[0]}"
        assumption = "starting the workers and their data set is what takes the time"
        found = f" for {words.plural(workers or 0, 'worker')} that had to start anew"
    else:
        action = "Make epochs longer, or let the loader's `iter()` do less"
        gain = (1.0, gain[1])
        assumption = "there are then so few starts, or such quick ones, that they do not count"
        found = ", though the workers stay" if workers else ""
    return Cause(
        cause=EPOCH_START,
        share=part_ns / evidence.stall_ns,
        evidence=f"{words.plural(count, 'first step')} of epochs waited {ms(each_ns)} ms longer"
        f" than other steps{found}.",
        advice=advise(action, gain, assumption),
        gain=gain,
        confidence=confidence(count >= _SEVERAL, workers is not None),
        title="epoch start",
        settings=tuple(settings),
    )
