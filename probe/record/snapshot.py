"""What a run says of itself: the loader, the versions, the machine, the command."""

from __future__ import annotations

import json
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from probe.record.cores import usable_cores
from probe.record.warnings import attempt

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
    parts = list(unwrapped(inner))
    each = map(attributes, parts)
    own = next((own for own in each if "num_workers" in own and "dataset" in own), {})
    context = own.get("_DataLoader__multiprocessing_context")
    workers = _integer(own.get("num_workers"))
    return {
        "chain": [type(part).__name__ for part in parts],
        "dataset": type(own["dataset"]).__name__ if "dataset" in own else None,
        "batch_size": _integer(own.get("batch_size")),
        "num_workers": workers,
        "prefetch_factor": _integer(own.get("prefetch_factor")),
        "pin_memory": _flag(own.get("pin_memory")),
        "persistent_workers": _flag(own.get("persistent_workers")),
        "start_method": _start_method(context) if workers else None,
        "in_order": _flag(own.get("in_order")),
    }


def unwrapped(loader: Any) -> Iterator[Any]:
    """Give a loader and what lies inside it, outermost first, by its instance attributes alone."""
    seen: set[int] = set()
    while loader is not None and id(loader) not in seen and len(seen) < _DEPTH:
        loader = _unwatched(loader)
        seen.add(id(loader))
        yield loader
        own = attributes(loader)
        loader = next((own[name] for name in _INNER if own.get(name) is not None), None)


def process() -> dict[str, Any]:
    """Describe this process as columns of `runs`, quickly."""
    torch = sys.modules.get("torch")
    rank, local_rank, world_size = _ranks()
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "rank": rank,
        "local_rank": local_rank,
        "world_size": world_size,
        "group_uid": _group(),
        "command": shlex.join(getattr(sys, "orig_argv", sys.argv)),
        "python": platform.python_version(),
        "torch": getattr(torch, "__version__", None),
    }


def details() -> dict[str, Any]:
    """Describe what takes longer to find out: it reads package lists and runs git."""
    torch = sys.modules.get("torch")
    config = {
        # torch may be in the middle of its own import.
        "torch_threads": attempt(lambda: int(torch.get_num_threads())) if torch else None,
        "cores": usable_cores(),
        # `platform.platform()` would run a program through a pipe; see `_git`.
        "platform": "-".join((platform.system(), platform.release(), platform.machine())),
        "versions": _versions(),
    }
    return {"git_commit": _git_commit(), "config": json.dumps(config)}


def device(index: int | None, *, ended: bool) -> str | None:
    """Name the accelerator in use, "cpu" without one, None while that cannot be told.

    A device that has not been initialized is left alone: asking for its name would create a
    context, and asking CUDA whether it is available would spoil a later fork.

    Args:
        index: Which device the loop has used, if known.
        ended: The run is over: what it has not used by now it does not use.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "accelerator"):
        return None
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None:
        return "cpu"
    module = torch.get_device_module(accelerator.type)
    if not getattr(module, "is_initialized", lambda: False)():
        return "cpu" if ended else None
    if not hasattr(module, "get_device_name"):
        return str(accelerator.type)
    return str(module.get_device_name(_ranks()[1] if index is None else index))


def _ranks() -> tuple[int, int, int]:
    """Return rank, local rank and world size, from torchrun's environment or Slurm's."""
    for rank, local_rank, world_size in (
        ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"),
    ):
        found = _integer(os.environ.get(rank)), _integer(os.environ.get(world_size))
        if found[0] is not None and found[1] is not None:
            return found[0], _integer(os.environ.get(local_rank)) or 0, found[1]
    return 0, 0, 1


def _group() -> str | None:
    """Return what the ranks of one training share; torchrun calls an unnamed one "none"."""
    named = os.environ.get("TORCHELASTIC_RUN_ID")
    if named and named != "none":
        return named
    job = os.environ.get("SLURM_JOB_ID")
    return f"{job}.{os.environ.get('SLURM_STEP_ID', '')}" if job else None


def in_dataloader_worker() -> bool:
    """Tell whether this process is a worker of a DataLoader."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _unwatched(obj: Any) -> Any:
    from probe.view import inner_of

    return inner_of(obj)


def attributes(obj: Any) -> dict[str, Any]:
    """Return an object's own attributes, past any `__getattr__` and property; they are live."""
    try:
        own: dict[str, Any] = object.__getattribute__(obj, "__dict__")
        return own
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

    # Asking for the method in use would choose one, and the program may still want to.
    chosen = multiprocessing.get_start_method(allow_none=True)
    return chosen or multiprocessing.get_all_start_methods()[0]


def _git_commit() -> str | None:
    try:
        head = _git("rev-parse", "HEAD")
        return head + "+dirty" if _git("status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        raise FileNotFoundError("git")
    # No pipe, and `close_fds=False` so that the child is spawned without one: workers forked
    # meanwhile would hold the pipe's other end open, and reading it would last as long as they do.
    with tempfile.TemporaryFile() as output:
        subprocess.run(  # noqa: S603 - fixed arguments
            [git, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            timeout=5,
            check=True,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
        output.seek(0)
        return output.read().decode().strip()


def _versions() -> dict[str, str]:
    from importlib import metadata  # a third of the time of `import probe`

    found = {}
    for name in ("torchdata", "lightning", "accelerate", "transformers", "prefetch_generator"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
