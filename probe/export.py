"""Recordings for others: steps as CSV or Parquet, and reports in one HTML file."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probe.dashboard import app_file
from probe.store.queries import Run, Steps, Store

# A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_BESIDE = ("run_id", "run_uid", "run", "strategy", "loader", "role")


class ExportError(Exception):
    """Something that cannot be exported; one sentence for the user."""


def to_csv(store: Store, runs: Sequence[Run], path: Path) -> None:
    """Write every step of some runs, one a row, with the columns of the view `step_times`.

    What was not measured is an empty cell. Text that a spreadsheet would take for a formula gets an
    apostrophe in front.

    Raises:
        OSError: The file cannot be written.
        StoreError: The recording cannot be read.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*_BESIDE, *Steps.__slots__))
        for beside, steps in _tables(store, runs):
            text = [_harmless(value) for value in beside]
            columns = [_cells(getattr(steps, name)) for name in Steps.__slots__]
            writer.writerows((*text, *row) for row in zip(*columns, strict=True))


def to_parquet(store: Store, runs: Sequence[Run], path: Path) -> None:
    """Write the same table as `to_csv` as Parquet, with nulls for what was not measured.

    Raises:
        ExportError: pyarrow is not installed.
        OSError: The file cannot be written.
        StoreError: The recording cannot be read.
    """
    if find_spec("pyarrow") is None:
        raise ExportError("Parquet takes pyarrow, which is not installed: pip install pyarrow")
    import pyarrow as pa
    from pyarrow import parquet

    kinds = [pa.int64(), *[pa.string()] * (len(_BESIDE) - 1)]
    parts = []
    for beside, steps in _tables(store, runs):
        own = {
            name: pa.array([value] * len(steps), kind)
            for name, value, kind in zip(_BESIDE, beside, kinds, strict=True)
        }
        for name in Steps.__slots__:
            values = getattr(steps, name)
            missing = np.isnan(values)
            kind = pa.bool_() if values.dtype == np.bool_ else pa.int64()
            own[name] = pa.array(_whole(values), type=kind, mask=missing)
        parts.append(pa.table(own))
    parquet.write_table(pa.concat_tables(parts), path)


def to_html(store: Store, runs: Sequence[Run], path: Path) -> None:
    """Write a report on some runs as one file that needs nothing else; see `app/html_report.py`.

    Raises:
        ExportError: Plotly is not installed, or the report could not be made.
    """
    if find_spec("plotly") is None:
        raise ExportError(
            'an HTML report takes plotly, which is not installed: pip install "prefetch-probe[app]"'
        )
    command = [sys.executable, str(app_file("html_report.py")), str(store.path), str(path)]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *(run.uid for run in runs)], stderr=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        why = done.stderr.strip().rpartition("\n")[2]
        raise ExportError(f"the report could not be made: {why}")


def _tables(store: Store, runs: Sequence[Run]) -> Iterator[tuple[tuple[Any, ...], Steps]]:
    for run in runs:
        for loader in store.loaders(run.id):
            beside = (run.id, run.uid, run.name, run.strategy, loader.name, loader.role)
            yield beside, store.steps(run.id, loader.id)


def _harmless(value: object) -> object:
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value


def _cells(values: NDArray[Any]) -> list[object]:
    whole = _whole(values).astype(np.int64).tolist()
    missing = np.isnan(values).tolist()
    return ["" if none else value for value, none in zip(whole, missing, strict=True)]


def _whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return integers for what the store keeps as integers; NaN, which means NULL, becomes 0."""
    if values.dtype != np.float64:
        return values
    found: NDArray[np.int64] = np.nan_to_num(values).astype(np.int64)
    return found
