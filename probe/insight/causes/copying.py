"""Copies to the device hold it up."""

from __future__ import annotations

from probe.insight import words
from probe.insight.causes.cause import COPY, Cause, advise, confidence
from probe.insight.causes.evidence import Evidence
from probe.insight.words import ms_of_ns as ms

_MOST = 0.5


def copy(evidence: Evidence, part_ns: float) -> Cause:
    """Copies run while nothing else does: from pageable memory, blocking, or not overlapped."""
    loader = evidence.loader
    total = loader.copied_bytes or 0
    pageable = _share(loader.copied_pageable_bytes, total)
    blocking = _share(loader.copied_blocking_bytes, total)
    counted = pageable is not None and blocking is not None
    if pageable is not None and pageable > _MOST:
        settings = ["pin_memory=True", "non_blocking=True"]
        assumption = "copies from pinned memory are at least twice as fast"
    elif blocking is not None and blocking > _MOST:
        settings = ["non_blocking=True"]
        assumption = "the device has other work while the copy runs"
    else:
        settings = ["probe.prefetch.to_device(loader, device)"]
        assumption = "the next batch is there early enough to be copied while this one trains"
    parts = [
        f"{words.percent(share)} of the bytes {what}"
        for share, what in ((pageable, "from pageable memory"), (blocking, "in blocking calls"))
        if share is not None
    ]
    how = ", ".join(parts) or "from what memory and how was not counted"
    gain = (evidence.gives(part_ns / 2), evidence.gives(part_ns))
    return Cause(
        cause=COPY,
        share=part_ns / evidence.stall_ns,
        evidence=f"Copies hold the device up for {ms(part_ns)} of {ms(evidence.step_ns)} ms a"
        f" step; {how}.",
        advice=advise(f"Use {' and '.join(settings)}", gain, assumption),
        gain=gain,
        confidence=confidence(counted),
        title="copy",
        settings=tuple(settings),
    )


def _share(part: int | None, total: int) -> float | None:
    return None if part is None or not total else part / total
