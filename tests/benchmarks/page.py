"""Puts what a benchmark measured into its section of `docs/accuracy.md`."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"


def write(section: str, text: str) -> None:
    """Replace the text between the markers of a section.

    Raises:
        ValueError: The page has no such section.
    """
    begin, end = f"<!-- {section}: begin -->", f"<!-- {section}: end -->"
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, also, after = rest.partition(end)
    if not (found and also):
        raise ValueError(f"{PAGE} has no section {section}: it takes the lines {begin} and {end}")
    PAGE.write_text(f"{before}{begin}\n\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    align = [":--", *["--:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, align, *rows])


def measured_on() -> str:
    """Say where and when: machine, Python, torch, date."""
    import torch

    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {_processor()}, {cpus} cores,"
        f" {platform.system()}, Python {platform.python_version()}, torch {torch.__version__}."
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
