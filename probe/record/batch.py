"""How large a batch is, without touching what it holds."""

from __future__ import annotations

from collections import UserDict
from typing import Any

_ARRAY, _SEQUENCE, _MAPPING, _OPAQUE = range(4)
_kinds: dict[type, int] = {}
_DEPTH = 4


def measure(batch: Any) -> tuple[int | None, int | None]:
    """Return (samples, bytes) of a batch; None where that cannot be told.

    Samples is the first dimension of the first array found, bytes the sum over all arrays, in
    tuples, lists and dicts up to four levels deep. Anything with `shape` and `nbytes` is an array:
    tensors of torch, NumPy, JAX, CuPy. A sequence that begins with something else is not read.

    Args:
        batch: What the loader returned.
    """
    try:
        return _measure(batch, _DEPTH)
    except Exception:  # a batch may be anything; it is never worth a training run
        return None, None


def _measure(batch: Any, depth: int) -> tuple[int | None, int | None]:
    cls = type(batch)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = _classify(cls)
    if kind == _ARRAY:
        shape = batch.shape
        return (int(shape[0]) if shape else None), int(batch.nbytes)
    if kind == _OPAQUE or depth == 0:
        return None, None
    samples: int | None = None
    size: int | None = None
    for item in batch if kind == _SEQUENCE else batch.values():
        item_samples, item_size = _measure(item, depth - 1)
        if item_size is not None:
            size = item_size if size is None else size + item_size
            if samples is None:
                samples = item_samples
        elif size is None and kind == _SEQUENCE:
            break  # a list of a thousand numbers is not worth the time of the loop
    return samples, size


def _classify(cls: type) -> int:
    if hasattr(cls, "shape") and hasattr(cls, "nbytes"):
        return _ARRAY
    if issubclass(cls, (tuple, list)):
        return _SEQUENCE
    # Another mapping may make its values when asked for them.
    if issubclass(cls, (dict, UserDict)):
        return _MAPPING
    return _OPAQUE
