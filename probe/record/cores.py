"""How many cores this process may really use: its affinity, and the quota of its control group."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from probe.record.warnings import attempt

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def allowed_cores() -> list[int]:
    """Return the numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cores() -> float:
    """Return how much of the machine this process may use, in cores: 2, or 1.5 under a quota."""
    allowed, quota = float(len(allowed_cores())), attempt(_quota)
    return allowed if quota is None else min(allowed, quota)


def _quota() -> float | None:
    """Return the tightest CPU quota from this process's control group up to the root, in cores."""
    quotas = []
    for line in _MEMBERSHIP.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = _CGROUPS / controllers if controllers else _CGROUPS
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            if not folder.is_relative_to(root):
                break
            quotas.append(attempt(partial(_quota_of, folder)))
    known = [quota for quota in quotas if quota is not None]
    return min(known) if known else None


def _quota_of(folder: Path) -> float | None:
    file = folder / "cpu.max"  # version 2: "max 100000" or "150000 100000"
    if file.exists():
        quota, period = file.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    allowed = int((folder / "cpu.cfs_quota_us").read_text())
    return None if allowed < 0 else allowed / int((folder / "cpu.cfs_period_us").read_text())
