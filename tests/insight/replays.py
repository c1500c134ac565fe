"""A DataLoader by its recurrence, without events: what the simulator must agree with.

Batch k is made by worker k mod w as soon as that worker is free and the batch w × p before it has
been returned; see `_MultiProcessingDataLoaderIter`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sides import make_loader, make_steps

from probe.store.queries import Fetches, Loader, Steps


def record(
    n: int,
    *,
    fetch_ms: ArrayLike,
    loop_ms: ArrayLike,
    workers: int,
    prefetch_factor: int = 2,
    cpu_share: float = 0.0,
    between_ms: float = 0.0,
    transit_ms: float = 0.0,
    receive_ms: float = 0.0,
) -> tuple[Loader, Steps, Fetches]:
    """Make the recording of a run, in order, with enough cores, in one epoch.

    With several workers `receive_ms` must be 0: a batch that came early is not taken out early.
    """
    fetch, loop = np.broadcast_to(fetch_ms, n) * 1.0, np.broadcast_to(loop_ms, n) * 1.0
    begin, end, asked, got = (np.zeros(n) for _ in range(4))
    for k in range(n):
        asked[k] = got[k - 1] + loop[k - 1] if k else 0.0
        if workers:
            free = end[k - workers] + between_ms if k >= workers else 0.0
            ahead = workers * prefetch_factor
            sent = got[k - ahead] if k >= ahead else 0.0
            begin[k] = max(free, sent)
        else:
            begin[k] = asked[k]
        end[k] = begin[k] + fetch[k]
        got[k] = max(asked[k], end[k] + transit_ms) + receive_ms if workers else end[k]
    steps = make_steps(n, wait_ms=got - asked, compute_ms=loop)
    order = np.argsort(np.arange(n) % max(workers, 1), kind="stable")
    worker = (np.arange(n) % max(workers, 1))[order]
    wall_ns = _ns(fetch)[order]
    fetches = Fetches(
        worker=worker,
        seq=np.arange(n)[order] // max(workers, 1),
        epoch=np.zeros(n, np.int64),
        start_ns=_ns(begin)[order],
        wall_ns=wall_ns,
        cpu_ns=wall_ns * cpu_share,
        samples=np.full(n, 32.0),
    )
    ready = np.array([float((end[k:] + transit_ms <= asked[k]).sum()) for k in range(n)])
    steps = Steps(**{name: getattr(steps, name) for name in Steps.__slots__} | {"ready": ready})
    loader = make_loader(num_workers=workers, prefetch_factor=prefetch_factor if workers else None)
    return loader, steps, fetches


def no_fetches() -> Fetches:
    empty = np.zeros(0)
    whole = empty.astype(np.int64)
    return Fetches(whole, whole, whole, whole, whole, empty, empty)


def _ns(ms: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(ms * 1e6).astype(np.int64)
