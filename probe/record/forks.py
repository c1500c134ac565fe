"""Keeps a fork and a flush apart.

SQLite keeps what it knows of an open file per process, and a fork copies that: a child that met the
file half open could not use it. So a fork waits for the flush under way, but not for long.
"""

from __future__ import annotations

import threading

_WAIT_SECONDS = 0.2

writing = threading.Lock()
_forking = threading.local()
_forked_while_writing = False


def check() -> None:
    """Refuse to write in a process that was forked in the middle of a flush.

    Raises:
        OSError: It was.
    """
    if _forked_while_writing:
        raise OSError("this process was forked from one that was writing to it")


def before_fork() -> None:
    """Let no flush be under way while the process forks."""
    _forking.holding = writing.acquire(timeout=_WAIT_SECONDS)


def after_fork_in_parent() -> None:
    """Go on writing."""
    if _forking.holding:
        writing.release()


def after_fork_in_child() -> None:
    """Start afresh; after a fork in the middle of a flush this process cannot record."""
    global writing, _forked_while_writing
    _forked_while_writing = _forked_while_writing or not _forking.holding
    writing = threading.Lock()
