"""Sees host-to-device copies wherever they happen while a watched loop runs.

`Tensor.to`, `Tensor.cuda` and `Tensor.copy_` are wrapped on the class while at least one watched
loop is open, and put back afterwards. A call that moves nothing pays for one clock read. Nested
moves (modules, packed sequences, batch classes with a `.to` of their own) end in these three.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import wraps
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe.record.thread import ThreadState

_NAMES = ("to", "cuda", "copy_")

# A garbage collection inside the lock may end a loop on the same thread.
_lock = threading.RLock()
_open_loops = 0
_saved: dict[str, Any] = {}
_hooks: dict[str, Any] = {}
_marking = False
_tensor: Any = None


def watch_copies(thread_state: Callable[[], ThreadState]) -> None:
    """Begin to see copies; each call is undone by one of `unwatch_copies`.

    Args:
        thread_state: Gives what the calling thread has open.
    """
    global _open_loops, _tensor
    with _lock:
        _open_loops += 1
        torch = sys.modules.get("torch")
        if _hooks or torch is None or not hasattr(torch, "Tensor"):
            return
        _tensor = tensor = torch.Tensor
        for name in _NAMES:
            _saved[name] = tensor.__dict__.get(name)
            hook = _hook_target if name == "copy_" else _hook_source
            _hooks[name] = hook(getattr(tensor, name), thread_state)
            setattr(tensor, name, _hooks[name])


def unwatch_copies() -> None:
    """Stop seeing copies once the last watched loop has ended; leaves no trace."""
    global _open_loops
    with _lock:
        _open_loops -= 1
        if _open_loops == 0:
            _remove()


def forget_copies() -> None:
    """Take the hooks out of a forked child, where no loop is open."""
    global _lock, _open_loops
    _lock = threading.RLock()
    _open_loops = 0
    _remove()


def _remove() -> None:
    global _marking
    for name, hook in _hooks.items():
        tensor = _tensor
        if tensor.__dict__.get(name) is not hook:
            continue  # somebody has wrapped the wrapper since; theirs is not ours to undo
        if _saved[name] is None:
            delattr(tensor, name)
        else:
            setattr(tensor, name, _saved[name])
    _marking = False
    _hooks.clear()
    _saved.clear()


def mark_copies() -> None:
    """From now on mark the device around each copy; a loop has got a device clock."""
    global _marking
    _marking = True


def _hook_source(
    original: Callable[..., Any], thread_state: Callable[[], ThreadState]
) -> Callable[..., Any]:
    """Wrap a method of the tensor that goes to the device: `to`, `cuda`."""

    @wraps(original)
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        begin = thread_state().mark() if _marking and _on_host(self) else None
        began = now()
        result = original(self, *args, **kwargs)
        if result is not self and is_transfer(self, result):
            took = now() - began
            thread_state().copied(took, begin, self, blocking=is_blocking(args, kwargs))
        return result

    return hook


def _hook_target(
    original: Callable[..., Any], thread_state: Callable[[], ThreadState]
) -> Callable[..., Any]:
    """Wrap a method of the tensor on the device: `copy_`."""

    @wraps(original)
    def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
        source = args[0] if args else kwargs.get("other")
        if not is_transfer(source, self):
            return original(self, *args, **kwargs)
        begin = thread_state().mark() if _marking else None
        began = now()
        result = original(self, *args, **kwargs)
        took = now() - began
        thread_state().copied(took, begin, source, blocking=is_blocking(args[1:], kwargs))
        return result

    return hook


def _on_host(tensor: Any) -> bool:
    try:
        return bool(tensor.is_cpu)
    except Exception:  # a subclass may refuse any question
        return False


def is_transfer(source: Any, target: Any) -> bool:
    """Tell whether data went from the host to a device."""
    try:
        return bool(source.is_cpu and is_on_device(target))
    except Exception:  # not a tensor, or a subclass that refuses the question
        return False


def is_on_device(tensor: Any) -> bool:
    """Tell whether a tensor's data lies on an accelerator; meta tensors have none."""
    return not tensor.is_cpu and not tensor.is_meta


def is_blocking(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Tell whether a call asked for a blocking copy, which is what torch does unless told."""
    return not kwargs.get("non_blocking", any(value is True for value in args))
