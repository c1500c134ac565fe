"""What each thread has open: its loops, and the copies it makes for them."""

from __future__ import annotations

import threading
from time import perf_counter_ns as now
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probe.record.buffer import LoaderRecord
    from probe.record.clock import Mark
    from probe.record.loop import Loop


class ThreadState:
    """What one thread has open."""

    __slots__ = ("copying", "loops")

    def __init__(self) -> None:
        self.loops: list[Loop] = []
        self.copying = False

    def mark(self) -> Mark | None:
        """Record where the device is, before a copy; None where there is no device clock."""
        clock = next((loop.clock for loop in self.loops if loop.clock is not None), None)
        return None if clock is None else clock.mark()

    def copied(
        self, took: int, begin: Mark | None, source: Any = None, *, blocking: bool = True
    ) -> None:
        """Count a copy from host to device that this thread has made.

        Args:
            took: How long the thread was in it, ns.
            begin: Where the device was before it.
            source: The tensor that was copied, if known.
            blocking: Whether the thread asked to wait for it.
        """
        end = None
        hidden = not self.copying
        for loop in self.loops:
            record = loop.record
            hidden = hidden and record is not None and record.role == "producer"
            if loop.excluded:
                continue
            if not self.copying:  # inside `probe.copy()` the time counts as a whole, bytes do not
                # What began before the loop last asked or was answered is partly another step's.
                loop.copy += max(0, min(took, now() - loop.entered))
                if begin is not None and loop.clock is not None:
                    end = end or loop.clock.mark()
                    if end is not None:
                        loop.copies.append((begin, end))
            if record is not None and source is not None:
                record.copied(source, blocking=blocking)
        if hidden:
            hidden_copy(took)


def hidden_copy(took: int) -> None:
    """Note a copy in a thread that no watched loop waits in: it costs the loops nothing."""
    for record in list(consumers):
        record.hidden_copies += 1
        record.hidden_copy_ns += took


# Records of the loops open in any thread that are not producers.
consumers: set[LoaderRecord] = set()


class _Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()


_local = _Local()


def thread_state() -> ThreadState:
    """Return what the calling thread has open."""
    return _local.state


def forget_threads() -> None:
    """Start with nothing open; for a forked child, whose loops all belong to its parent."""
    global _local
    _local = _Local()
    consumers.clear()
