"""Did the model's own part of a step change, and may that be the price of prefetching?"""

from __future__ import annotations

import numpy as np

from probe.insight import words
from probe.insight.settings import Side

# Compute that changed by less is the same for every practical purpose.
_ALIKE = 0.02
_ABOUT = 0.05
# Class names of loaders that make batches in a thread of the training process.
_THREADS = frozenset({"Background", "BackgroundGenerator"})


def changed(before_ms: float, interval: tuple[float, float] | None) -> bool:
    """Tell whether compute changed by more than noise.

    Args:
        before_ms: Mean compute of the baseline's steps.
        interval: Of the change, in ms; None with too few steps.
    """
    if interval is None:
        return False
    low, high = interval
    return low > _ALIKE * before_ms or high < -_ALIKE * before_ms


def unchanged(before_ms: float, interval: tuple[float, float] | None) -> bool:
    """Tell whether compute is shown to have stayed what it was, give or take 5 %."""
    return interval is not None and max(map(abs, interval)) <= _ABOUT * before_ms


def reason(a: Side, b: Side, growth_ms: float) -> str | None:
    """Say why compute may have grown from `a` to `b` by no fault of the model, or return None.

    Makers of batches that were not there before compete with the model for cores, or in a thread of
    the same process for the interpreter. A device that was still busy during a wait lets the host
    wait later instead, inside compute.

    Args:
        a: The baseline's steady steps.
        b: The candidate's.
        growth_ms: What was added to a mean step.
    """
    workers, thread = b.loader.num_workers or 0, _has_thread(b)
    makers = workers + thread
    cores, threads = b.run.config.get("cores"), b.run.config.get("torch_threads")
    model = threads if isinstance(threads, int) else 1
    more = makers > (a.loader.num_workers or 0) + _has_thread(a)
    if more and isinstance(cores, int | float) and makers + model > cores:
        who = [words.plural(workers, "worker")] * bool(workers)
        who += ["a background thread"] * thread
        verb = "compete" if makers > 1 else "competes"
        on = f"{cores:g} {'core' if cores == 1 else 'cores'}"
        return f"{' and '.join(who)} {verb} with the model for {on}"
    if thread and not _has_thread(a):
        return "a background thread takes turns with the loop in one interpreter"
    hidden_ns = a.steps.wait_ns - a.steps.exposed_wait_ns
    known = hidden_ns[~np.isnan(hidden_ns)]
    if len(known) and known.mean() / 1e6 >= growth_ms:
        return "the device was busy during part of the old wait, which now counts as compute"
    return None


def _has_thread(side: Side) -> bool:
    return not _THREADS.isdisjoint(side.loader.chain)
