"""How large a batch is, without touching what it holds."""

from __future__ import annotations

from collections import UserDict
from typing import Any

_TENSOR, _ARRAY, _TUPLE, _LIST, _MAPPING, _USER_DICT, _OPAQUE = range(7)
_kinds: dict[type, int] = {}
_DEPTH = 4
_LONG = 1024

# Whose shape and size are plain integers and cost nothing to ask for.
_KNOWN = {("torch", "Tensor"), ("numpy", "ndarray"), ("torch.nn.parameter", "Parameter")}


def measure(batch: Any) -> tuple[int | None, int | None]:
    """Return (samples, bytes) of a batch; None where that cannot be told.

    Samples is the first dimension of the first array found, bytes the sum over all arrays, in
    tuples, lists and dicts up to four levels deep. Anything with `shape` and `nbytes` is an array:
    tensors of torch, NumPy, JAX, CuPy. A sequence that begins with something else is not read, nor
    one of more than a thousand items.

    Args:
        batch: What the loader returned.
    """
    return _measure(batch, _DEPTH)


def _measure(batch: Any, depth: int) -> tuple[int | None, int | None]:
    cls = type(batch)
    kind = _kinds.get(cls)
    if kind is None:
        if len(_kinds) >= _LONG:  # a program may make a class for every batch
            _kinds.clear()
        kind = _kinds[cls] = _classify(cls)
    if kind == _TENSOR:
        try:
            shape = batch.shape
            return (shape[0] if shape else None), batch.nbytes
        except RuntimeError:  # a nested tensor has no shape
            return None, None
    if kind == _OPAQUE or depth == 0:
        return None, None
    if kind == _ARRAY:
        return _ask(batch)
    # As tuple, list and dict have it: a subclass may do work when it is read.
    if kind == _MAPPING:
        items: Any = dict.values(batch)
    elif kind == _USER_DICT:  # what tokenizers of transformers return
        return _measure(batch.data, depth - 1) if type(batch.data) is dict else (None, None)
    else:
        items = tuple.__iter__(batch) if kind == _TUPLE else list.__iter__(batch)
    samples: int | None = None
    size: int | None = None
    for count, item in enumerate(items):
        item_samples, item_size = _measure(item, depth - 1)
        if item_size is not None:
            size = item_size if size is None else size + item_size
            if samples is None:
                samples = item_samples
        elif size is None and kind != _MAPPING:
            break  # a list of numbers is not worth the time of the loop
        if count >= _LONG:
            return samples, None
    return samples, size


def _ask(array: Any) -> tuple[int | None, int | None]:
    try:
        shape = array.shape
        return (int(shape[0]) if shape else None), int(array.nbytes)
    except Exception:  # a class of somebody's own may do anything
        return None, None


def _classify(cls: type) -> int:
    if (cls.__module__, cls.__qualname__) in _KNOWN:
        return _TENSOR
    if issubclass(cls, tuple):
        return _TUPLE
    if issubclass(cls, list):
        return _LIST
    # Another mapping may make its values when asked for them.
    if issubclass(cls, dict):
        return _MAPPING
    if issubclass(cls, UserDict):
        return _USER_DICT
    try:
        return _ARRAY if hasattr(cls, "shape") and hasattr(cls, "nbytes") else _OPAQUE
    except Exception:  # a metaclass may do anything
        return _OPAQUE
