"""Two ways to have the next batch ready while this one trains: a thread, and a copy stream.

Watch the result, not the loader inside: `probe.watch(probe.prefetch.background(loader))` tells what
the training loop still waits for.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Iterable, Iterator, Mapping
from copy import copy as duplicate
from threading import Event, current_thread
from typing import TYPE_CHECKING, Any, Self

from prefetch_generator import BackgroundGenerator

from probe.record.blocks import copy

if TYPE_CHECKING:
    import torch

# How long an iterator that is dropped early waits for the batch that its thread is still making.
_PATIENCE_S = 5.0


def background(loader: Iterable[Any], max_prefetch: int = 2) -> Iterable[Any]:
    """Make batches in a thread, ahead of the loop that uses them.

    Each `iter()` starts one `prefetch_generator.BackgroundGenerator` over `iter(loader)`. The
    thread helps as far as making a batch releases the interpreter lock: reading and decoding do,
    Python code does not.

    Args:
        loader: Anything that can be iterated; `len` and attributes are its own.
        max_prefetch: How many finished batches may wait in the queue; below 1 means any number.

    Returns:
        The same batches in the same order. An error reaches the loop after the batches that were
        made before it. A loop that breaks early stops the thread.
    """
    if not isinstance(max_prefetch, int):
        raise TypeError(f"max_prefetch must be a whole number; it was given {max_prefetch!r}")
    return Background(loader, max_prefetch)


def to_device(
    loader: Iterable[Any], device: str | torch.device, non_blocking: bool = True
) -> Iterable[Any]:
    """Copy the next batch to the device on a stream of its own while this one trains.

    Tensors are found in tuples, lists, dicts, dataclasses and the attributes of objects that have
    a `to` method; everything else stays as it is. A tensor that is not in pinned memory is pinned
    first; an object with a `to` of its own moves as that does it. What the training thread spends
    on it counts as copy.

    Args:
        loader: Anything that can be iterated; `len` and attributes are its own.
        device: Where the batches go. For the CPU the loader itself is returned.
        non_blocking: Whether the copies may still be under way when the host goes on.

    Returns:
        The same batches on the device, safe to use on the stream that is current when they come.
    """
    import torch

    target = torch.device(device)
    if target.type == "cpu":
        return loader
    return SideStream(loader, target, non_blocking)


class _Prefetched:
    """A loader whose iterators are replaced; the rest of it shows through."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(self.loader)  # not by length: the loader may have none

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # not there yet while an instance is being copied
            raise AttributeError(name)
        return getattr(self.loader, name)


class Background(_Prefetched):
    """What `background` returns."""

    def __init__(self, loader: Iterable[Any], max_prefetch: int) -> None:
        super().__init__(loader)
        self._max_prefetch = max_prefetch

    def __iter__(self) -> Iterator[Any]:
        return _FromThread(iter(self.loader), self._max_prefetch)


class SideStream(_Prefetched):
    """What `to_device` returns."""

    def __init__(self, loader: Iterable[Any], device: torch.device, non_blocking: bool) -> None:
        super().__init__(loader)
        self._device = device
        self._non_blocking = non_blocking

    def __iter__(self) -> Iterator[Any]:
        return _OnDevice(iter(self.loader), _Mover(self._device, self._non_blocking))


class _FromThread:
    """The batches of a thread; dropping or closing the iterator ends the thread."""

    def __init__(self, batches: Iterator[Any], max_prefetch: int) -> None:
        stop = Event()
        thread = BackgroundGenerator(_until(stop, batches), max_prefetch)
        self._thread = thread
        self.queue = thread.queue  # the finished batches, a `queue.Queue`
        # Where probe times the fetches of a DataLoader without workers.
        self._dataset_fetcher = getattr(batches, "_dataset_fetcher", None)
        # Not `__del__`: at exit it comes too late, when threads can no longer be waited for.
        self._close = weakref.finalize(self, _end, thread, stop)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if not self._close.alive:
            raise StopIteration
        try:
            return next(self._thread)
        except _CarriedError as ended:
            raise ended.cause from None

    def close(self) -> None:
        """Stop the thread once it has made the batch at hand; what is ready is dropped."""
        self._close()


def _until(stop: Event, batches: Iterator[Any]) -> Iterator[Any]:
    try:
        for batch in batches:
            yield batch
            if stop.is_set():
                return
    except (KeyboardInterrupt, SystemExit) as cause:
        raise _CarriedError(cause) from cause


class _CarriedError(Exception):
    """Carries what `BackgroundGenerator` would take for the end of the batches."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _end(thread: BackgroundGenerator, stop: Event) -> None:
    stop.set()
    queue = thread.queue
    with queue.mutex:
        queue.queue.clear()
        queue.maxsize = math.inf  # the thread has up to two more things to put, and nobody reads
        queue.not_full.notify_all()
    # The loader must be at rest before it is iterated again; a stuck one must not hold the loop.
    if thread is not current_thread():
        thread.join(_PATIENCE_S)


class _OnDevice:
    """Batches whose copies run one ahead."""

    def __init__(self, batches: Iterator[Any], mover: _Mover) -> None:
        self._batches = batches
        self._mover = mover
        self._upcoming: list[Any] = []
        self._end: BaseException | None = None
        self._begun = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if not self._begun:
            self._begun = True
            self._copy_next()
        if not self._upcoming:
            assert self._end is not None
            end, self._end = self._end, StopIteration()
            raise end
        batch = self._upcoming.pop()
        self._mover.hand_over(batch)
        self._copy_next()
        return batch

    def _copy_next(self) -> None:
        if self._end is not None:
            return
        try:
            self._upcoming.append(self._mover.start(next(self._batches)))
        except Exception as end:  # the batch before it comes first
            # Without this frame, which would tie the iterator into a cycle with its own error.
            frames = end.__traceback__.tb_next if end.__traceback__ else None
            self._end = end.with_traceback(frames)


class _Mover:
    """Copies batches on a side stream, where the device has streams."""

    def __init__(self, device: torch.device, non_blocking: bool) -> None:
        import torch

        self._tensor = torch.Tensor
        self._device = device
        self._non_blocking = non_blocking
        module: Any = getattr(torch, device.type, None)
        self._streams: Any = module if hasattr(module, "Stream") else None
        self._side = module.Stream(device) if self._streams else None

    def start(self, batch: Any) -> Any:
        """Issue the copies of a batch and return what they will fill."""
        if self._side is None:
            with copy():
                return self._moved(batch)
        # The copy begins and ends on the side stream, so it is timed there.
        with self._streams.stream(self._side), copy():
            return self._moved(batch)

    def hand_over(self, batch: Any) -> None:
        """Let the current stream use a batch whose copies were issued."""
        if self._side is None:
            return
        using = self._streams.current_stream(self._device)
        using.wait_stream(self._side)
        for tensor in self._tensors(batch):
            # The memory belongs to the side stream, which would use it again too early.
            tensor.record_stream(using)

    def _moved(self, item: Any) -> Any:
        if isinstance(item, self._tensor):
            if self._side is not None and item.device.type == "cpu" and not item.is_pinned():
                item = item.pin_memory()
            return item.to(self._device, non_blocking=self._non_blocking)
        if isinstance(item, type):
            return item
        if callable(getattr(item, "to", None)):
            return item.to(self._device)
        if isinstance(item, dict):
            clone: Any = duplicate(item)
            clone.update({key: self._moved(value) for key, value in item.items()})
            return clone
        if isinstance(item, tuple):
            parts = [self._moved(part) for part in item]
            return item._make(parts) if hasattr(item, "_make") else type(item)(parts)
        if isinstance(item, list):
            clone = duplicate(item)
            clone[:] = [self._moved(part) for part in item]
            return clone
        if dataclasses.is_dataclass(item):
            clone = duplicate(item)
            for field in dataclasses.fields(item):
                # A frozen dataclass refuses `setattr`; this copy is nobody else's yet.
                object.__setattr__(clone, field.name, self._moved(getattr(item, field.name)))
            return clone
        return item

    def _tensors(self, item: Any) -> Iterator[Any]:
        if isinstance(item, self._tensor):
            if item.device.type == self._device.type:
                yield item
        elif isinstance(item, Mapping):
            for value in item.values():
                yield from self._tensors(value)
        elif isinstance(item, (tuple, list)):
            for value in item:
                yield from self._tensors(value)
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            for field in dataclasses.fields(item):
                yield from self._tensors(getattr(item, field.name))
        elif callable(getattr(item, "to", None)) and not isinstance(item, type):
            yield from self._tensors(getattr(item, "__dict__", {}))
