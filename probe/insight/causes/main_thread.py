"""The training process makes its batches itself, in the loop or in a thread beside it."""

from __future__ import annotations

from probe.insight.causes.cause import LOW, MAIN_THREAD, Cause, advise, confidence
from probe.insight.causes.evidence import Evidence
from probe.insight.causes.workers import plan, workers_for
from probe.insight.words import ms_of_ns as ms


def main_thread(evidence: Evidence, part_ns: float) -> Cause:
    """No worker process helps: 0 workers, with or without a background thread."""
    fetch = evidence.fetch
    share = part_ns / evidence.stall_ns
    if fetch is None:
        gain = (1.0, evidence.gives(part_ns))
        # A thread is busy during all of the step, the training thread only while it waits.
        made_ns = evidence.ordinary_ns if len(evidence.loader.chain) > 1 else evidence.wait_ns
        setting = f"num_workers={workers_for(evidence, made_ns)}"
        return Cause(
            cause=MAIN_THREAD,
            share=share,
            evidence=f"There are 0 workers, so the training process makes every batch itself and"
            f" the loop waits {ms(evidence.wait_ns)} ms for it.",
            advice=advise(
                f"Set {setting} (now 0)", gain, "each worker finds a core; fetches were not timed"
            ),
            gain=gain,
            confidence=LOW,
            title="main thread",
            settings=(setting,),
        )
    change = plan(evidence, fetch, part_ns)
    assert change is not None  # without workers there is room for one
    if evidence.ahead:
        found = (
            f"A thread of the training process makes every batch in {ms(fetch.wall_ns)} ms,"
            f" {ms(fetch.on_ns)} of them on a core: it and the loop take turns with the interpreter"
        )
    else:
        found = (
            f"The training thread makes every batch itself: {ms(fetch.on_ns)} of"
            f" {ms(fetch.wall_ns)} ms on its core, while the loop waits"
        )
    return Cause(
        cause=MAIN_THREAD,
        share=share,
        evidence=f"{found}.",
        advice=advise(
            f"Set {change.setting} ({change.now})",
            change.gain,
            "each worker finds a core and the data set can be used in another process",
        ),
        gain=change.gain,
        confidence=confidence(fetch.off_core_ci is not None, evidence.busy is not None),
        title="main thread",
        settings=(change.setting,),
    )
