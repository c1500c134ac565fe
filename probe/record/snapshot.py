"""What a run says of itself: the loader, the versions, the machine, the command."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import sys
from typing import Any

# Attributes under which wrappers of loaders keep what they wrap.
_INNER = (
    "loader",
    "dataloader",
    "base_dataloader",
    "_loader",
    "_dataloader",
    "iterable",
    "generator",
    "iterator",
)
_DEPTH = 8


def loader(inner: Any) -> dict[str, Any]:
    """Describe a loader as the columns of `loaders`, reading instance attributes only.

    Properties, `__getattr__` and `len` may have effects, so they are left alone; what cannot be
    seen in the instance's own dictionary is unknown.

    Args:
        inner: The loader, not watched.
    """
    chain: list[str] = []
    core: dict[str, Any] | None = None
    seen: set[int] = set()
    obj = inner
    while obj is not None and id(obj) not in seen and len(chain) < _DEPTH:
        seen.add(id(obj))
        obj = _unwatched(obj)
        chain.append(type(obj).__name__)
        own = _attributes(obj)
        if core is None and "num_workers" in own and "dataset" in own:
            core = own
        obj = next((own[name] for name in _INNER if own.get(name) is not None), None)
    own = core or {}
    context = own.get("_DataLoader__multiprocessing_context")
    workers = _integer(own.get("num_workers"))
    return {
        "chain": chain,
        "dataset": type(own["dataset"]).__name__ if "dataset" in own else None,
        "batch_size": _integer(own.get("batch_size")),
        "num_workers": workers,
        "prefetch_factor": _integer(own.get("prefetch_factor")),
        "pin_memory": _flag(own.get("pin_memory")),
        "persistent_workers": _flag(own.get("persistent_workers")),
        "start_method": _start_method(context) if workers else None,
        "in_order": _flag(own.get("in_order")),
    }


def process() -> dict[str, Any]:
    """Describe this process as columns of `runs`. Reads files and may run git: not for a loop."""
    rank = _integer(_first("RANK", "SLURM_PROCID"))
    torch = sys.modules.get("torch")
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "rank": rank or 0,
        "local_rank": _integer(_first("LOCAL_RANK", "SLURM_LOCALID")) or 0,
        "world_size": _integer(_first("WORLD_SIZE", "SLURM_NTASKS")) or 1,
        "group_uid": _first("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"),
        "command": " ".join(getattr(sys, "orig_argv", sys.argv)),
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None),
        "device": device(),
        "config": {
            "torch_threads": torch.get_num_threads() if torch else None,
            "cores": cores(),
            "platform": platform.platform(),
            "versions": _versions(),
        },
    }


def device() -> str | None:
    """Name the accelerator in use, "cpu" without one, None while that cannot be told."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if torch.cuda.is_available():
        # Asking for a name would create a context on the device; only look at one that exists.
        return str(torch.cuda.get_device_name()) if torch.cuda.is_initialized() else None
    return "cpu"


def cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_dataloader_worker() -> bool:
    """Tell whether this process is a worker of a DataLoader."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _unwatched(obj: Any) -> Any:
    from probe.view import inner_of

    return inner_of(obj)


def _attributes(obj: Any) -> dict[str, Any]:
    try:
        return dict(object.__getattribute__(obj, "__dict__"))
    except AttributeError:
        return {}


def _integer(value: Any) -> int | None:
    try:
        return None if value is None or isinstance(value, bool) else int(value)
    except (TypeError, ValueError):
        return None


def _flag(value: Any) -> int | None:
    return int(value) if isinstance(value, bool) else None


def _start_method(context: Any) -> str:
    if context is not None:
        return str(context.get_start_method())
    import multiprocessing

    return multiprocessing.get_start_method()


def _first(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _git_commit() -> str | None:
    try:
        head = _git("rev-parse", "HEAD")
        return head + "+dirty" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(  # noqa: S603 - fixed arguments
        ["git", *arguments],  # noqa: S607 - whichever git the user has
        capture_output=True,
        text=True,
        timeout=5,
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
    ).stdout.strip()


def _versions() -> dict[str, str]:
    from importlib import metadata  # a third of the time of `import probe`

    found = {}
    for name in ("torchdata", "lightning", "accelerate", "transformers", "prefetch_generator"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
