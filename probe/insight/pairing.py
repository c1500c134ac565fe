"""Which fetch made the batch of a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probe.store.queries import Fetches, Loader, Steps


@dataclass(frozen=True, slots=True)
class Paired:
    """Which fetch made the batch of each step, −1 where none is known; shape (steps,).

    `before` is the fetch that the same worker had finished before, `freed` the step whose batch
    was returned when the task was sent. `is_uneven` tells that in some epoch the workers made such
    unequal numbers of batches that some must have ended early: the others then had more turns, and
    nothing is paired there.
    """

    made: NDArray[np.int64]
    before: NDArray[np.int64]
    freed: NDArray[np.int64]
    is_uneven: bool

    @classmethod
    def of(cls, loader: Loader, steps: Steps, fetches: Fetches) -> Paired:
        """Pair by epoch and by place in it: in order, workers deliver one batch each in turn."""
        workers = max(1, loader.num_workers or 0)
        ahead = workers * (loader.prefetch_factor or 0)
        rows = np.arange(len(fetches))
        first = rows - _rank(fetches.worker, fetches.epoch)
        turn = fetches.seq - fetches.seq[first]  # a fetch that was lost leaves a gap
        place = turn * workers + fetches.worker
        uneven = np.zeros(len(fetches), np.bool_)
        if loader.in_order is False:
            order = np.lexsort((fetches.start_ns + fetches.wall_ns, fetches.epoch))
            place[order] = _rank(fetches.epoch[order])
        else:
            uneven = _uneven(fetches, turn, workers, 1 + (loader.prefetch_factor or 0))
        keys = zip(fetches.epoch.tolist(), place.tolist(), strict=True)
        known = {key: fetch for fetch, key in enumerate(keys) if not uneven[fetch]}
        step_place = _rank(steps.epoch)
        keys = zip(steps.epoch.tolist(), step_place.tolist(), strict=True)
        made = np.array([known.get(key, -1) for key in keys], np.int64)
        follows = np.zeros(len(fetches) + 1, np.bool_)  # its last entry answers for −1
        follows[1:-1] = (rows[1:] != first[1:]) & (np.diff(fetches.seq) == 1)
        return cls(
            made=made,
            before=np.where(follows[made], made - 1, -1),
            freed=np.where(step_place >= ahead, np.arange(len(steps)) - ahead, -1),
            is_uneven=bool(uneven.any()),
        )


def _uneven(
    fetches: Fetches, turn: NDArray[np.int64], workers: int, most: int
) -> NDArray[np.bool_]:
    """Mark the fetches of epochs in which the workers' numbers of turns differ by over `most`."""
    epochs, epoch = np.unique(fetches.epoch, return_inverse=True)
    turns = np.zeros((len(epochs), max(workers, int(fetches.worker.max(initial=0)) + 1)), np.int64)
    np.maximum.at(turns, (epoch, fetches.worker), turn + 1)
    found: NDArray[np.bool_] = (np.ptp(turns, axis=1) > most)[epoch]
    return found


def _rank(*groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number the rows of each group 0, 1, 2, …; the rows of a group are neighbours."""
    rows = np.arange(len(groups[0]))
    begins = np.zeros(len(rows), np.bool_)
    begins[:1] = True
    for group in groups:
        begins[1:] |= group[1:] != group[:-1]
    found: NDArray[np.int64] = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    return found
