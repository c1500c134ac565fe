"""Steps and runs as the store returns them, made without a file: for tests of pure functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from recordings import LOADER, RUN

from probe.insight.settings import Side
from probe.store.queries import Loader, Run, Steps

WARM_UP = 20


def make_steps(
    n: int,
    *,
    wait_ms: ArrayLike = 0.0,
    copy_ms: ArrayLike = 0.0,
    compute_ms: ArrayLike = 0.0,
    other_ms: ArrayLike = 0.0,
    exposed_wait_ms: ArrayLike = np.nan,
    samples: ArrayLike = 32.0,
    epoch_length: int | None = None,
) -> Steps:
    """Make `n` steps, back to back; each column is one value or n of them."""
    times = {
        f"{name}_ns": np.rint(np.broadcast_to(values, n) * np.float64(1e6)).astype(np.int64)
        for name, values in (
            ("wait", wait_ms),
            ("copy", copy_ms),
            ("compute", compute_ms),
            ("other", other_ms),
        )
    }
    step_ns = sum(times.values(), np.zeros(n, np.int64))
    exposed = np.broadcast_to(exposed_wait_ms, n) * np.float64(1e6)
    unknown = np.full(n, np.nan)
    step = np.arange(n)
    return Steps(
        step=step,
        epoch=step // (epoch_length or max(n, 1)),
        epoch_start=step % (epoch_length or max(n, 1)) == 0,
        start_ns=np.cumsum(step_ns) - step_ns,
        **times,
        step_ns=step_ns,
        stall_ns=np.where(np.isnan(exposed), times["wait_ns"], np.nan_to_num(exposed)).astype(
            np.int64
        ),
        exposed_wait_ns=exposed,
        device_copy_ns=unknown,
        exposed_copy_ns=unknown,
        device_compute_ns=unknown,
        samples=np.broadcast_to(np.asarray(samples, np.float64), n),
        bytes=unknown,
        ready=unknown,
    )


def make_run(**columns: Any) -> Run:
    return Run(**{"id": 1, "uid": "0" * 8, "name": "baseline"} | RUN | columns)


def make_loader(**columns: Any) -> Loader:
    return Loader(**{"id": 1, "run_id": 1, "name": "train"} | LOADER | columns)


def make_side(
    steps: Steps, run: dict[str, Any] | None = None, loader: dict[str, Any] | None = None
) -> Side:
    return Side(make_run(**run or {}), make_loader(**loader or {}), steps)
