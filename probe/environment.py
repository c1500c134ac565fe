"""Settings from the environment: argument first, then these, then the default."""

from __future__ import annotations

import os
from pathlib import Path


def database(db: str | Path | None) -> Path:
    """Return the file to record to: the argument, else `PROBE_DB`, else `probe.db`; absolute."""
    return Path(db or os.environ.get("PROBE_DB") or "probe.db").expanduser().absolute()


def disabled() -> bool:
    """Tell whether the environment switches probe off."""
    return os.environ.get("PROBE_DISABLE", "") not in ("", "0")


def times_stages() -> bool:
    """Tell whether the stages of making a batch are to be timed by name; off by default."""
    return os.environ.get("PROBE_STAGES", "") not in ("", "0")
