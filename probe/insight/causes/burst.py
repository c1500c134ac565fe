"""Workers deliver together, and then nobody does."""

from __future__ import annotations

from probe.insight import words
from probe.insight.causes.cause import BURST, Cause, advise, confidence
from probe.insight.causes.evidence import Evidence
from probe.insight.causes.rhythm import Rhythm
from probe.insight.causes.workers import deeper_queue, plan
from probe.insight.words import ms_of_ns as ms

# A rhythm that was heard this often, this clearly, is beyond doubt.
_OFTEN = 10
_CLEARLY = 0.6


def burst(evidence: Evidence, rhythm: Rhythm, part_ns: float) -> Cause:
    """The stall has a period of as many steps as there are workers."""
    fetch = evidence.fetch
    making = "how long a batch takes to make was not recorded"
    deeper = deeper_queue(evidence, part_ns)
    gain, settings = deeper.gain, [deeper.setting]
    action = f"Set {deeper.setting} ({deeper.now})"
    assumption = "the workers are fast enough on average"
    if fetch is not None:
        making = f"a batch takes {ms(fetch.wall_ns)} ms to make"
        if fetch.off_core is not None:
            making += f", {words.percent(fetch.off_core)} of it off the core"
        change = plan(evidence, fetch, part_ns)
        if change is None:
            settings, action = [], "Make fetches shorter"
            assumption = "they then take the workers less time than the loop leaves them"
        else:
            gain, settings = change.gain, [change.setting]
            action = f"Set {change.setting} ({change.now})"
            if change.workers > (evidence.workers or 0):
                assumption = "a batch takes each of the workers as long to make as now"
    return Cause(
        cause=BURST,
        share=part_ns / evidence.stall_ns,
        evidence=f"{rhythm.period} workers deliver together: one step in {rhythm.period} waits"
        f" {ms(rhythm.long_ns)} ms, the others {ms(rhythm.short_ns)} ms; {making}.",
        advice=advise(action, gain, assumption),
        gain=gain,
        confidence=confidence(
            fetch is not None, rhythm.periods >= _OFTEN and rhythm.correlation >= _CLEARLY
        ),
        title=f"burst, every {rhythm.period} steps",
        settings=tuple(settings),
    )
