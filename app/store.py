"""Which recording is open, and its answers kept until the recording grows.

An answer is kept under the file, the run and the run's newest heartbeat: a finished run is read
once, a live one whenever there is something new.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from probe import forecast as forecasts
from probe import report
from probe.forecast import Forecast, Replay
from probe.insight.board import Board
from probe.insight.compare import Comparison
from probe.store.queries import GpuSamples, HostSamples, Loader, Run, Steps, Store

_HERE = Path(__file__).resolve().parent

# In a checkout, and in an installed wheel.
_SAMPLES = (_HERE.parent / "data" / "sample.db", _HERE.parent / "_data" / "sample.db")

_Key = tuple[str, str, tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Recording:
    """The file on screen, and whether it is the sample that ships with probe."""

    path: Path
    is_sample: bool = False


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machine did during a run."""

    gpus: list[GpuSamples]
    host: HostSamples


def locate(arguments: Sequence[str], environ: Mapping[str, str], folder: Path) -> Recording:
    """Decide which file to open: `--db`, else `PROBE_DB`, else `probe.db`, else the sample.

    Args:
        arguments: The command line behind the script's name.
        environ: The environment.
        folder: Where `probe.db` is looked for.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--db")
    named = parser.parse_known_args(arguments)[0].db or environ.get("PROBE_DB")
    if named:
        return Recording(Path(named))
    if (folder / "probe.db").is_file():
        return Recording(folder / "probe.db")
    for sample in _SAMPLES:
        if sample.is_file():
            return Recording(sample, is_sample=True)
    return Recording(folder / "probe.db")


def recording() -> Recording:
    """Return the file that this server was started for."""
    return locate(sys.argv[1:], os.environ, Path.cwd())


def runs() -> list[Run]:
    """Return all runs, the newest first, with the status they have now."""
    with _open() as store:
        return store.runs()


def find(reference: str) -> Run:
    """Find the run that a link names by id, uid or name; raises StoreError."""
    with _open() as store:
        return store.run(reference)


def run_report(run: Run) -> report.RunReport:
    """Return the report of a run."""
    with _open() as store:
        return _report(_key(store, run), store, run)


def loaders(run: Run) -> list[Loader]:
    """Return the watched loaders of a run, in the order of its report."""
    with _open() as store:
        return store.loaders(run.id)


def hardware(run: Run) -> Hardware:
    """Return the samples of GPU and host that were taken during a run."""
    with _open() as store:
        return _hardware(_key(store, run), store, run)


def steps(run: Run, loader: Loader) -> Steps:
    """Return the steps of one loader."""
    with _open() as store:
        return _steps(_key(store, run), loader.id, store, run)


def comparison(baseline: Run, candidate: Run) -> Comparison:
    """Compare two runs."""
    with _open() as store:
        keys = _key(store, baseline), _key(store, candidate)
        return _comparison(*keys, store, baseline, candidate)


def consumer(run: Run) -> Loader:
    """Return the loader that the verdict on a run is about, which comparisons look at."""
    found = run_report(run)
    assert found.consumer is not None  # else there is no comparison
    return found.rows[found.loaders.index(found.consumer)]


def board(runs: Sequence[Run]) -> Board:
    """Set the strategies of several runs against that of the first."""
    with _open() as store:
        keys = tuple(_key(store, run) for run in runs)
        return _board(keys, len(store.runs()), store, runs)


def replay(run: Run) -> Replay:
    """Prepare a run for what-if questions; raises StoreError if it cannot be replayed."""
    with _open() as store:
        return _replay(_key(store, run), len(store.runs()), store, run)


def forecast(run: Run, **asked: Any) -> Forecast:
    """Predict a run under other settings; `asked` as for `probe.forecast.ask`."""
    with _open() as store:
        key, count = _key(store, run), len(store.runs())
        return _forecast(key, count, _replay(key, count, store, run), **asked)


def _open() -> Store:
    return Store(recording().path)


def _key(store: Store, run: Run) -> _Key:
    return str(store.path.resolve()), run.uid, store.version_key(run.id)


@st.cache_data(max_entries=1000, show_spinner=False)
def _report(key: _Key, _store: Store, _run: Run) -> report.RunReport:
    return report.report(_store, _run)


@st.cache_data(max_entries=16, show_spinner=False)
def _hardware(key: _Key, _store: Store, _run: Run) -> Hardware:
    return Hardware(_store.gpu_samples(_run.id), _store.host_samples(_run.id))


@st.cache_data(max_entries=16, show_spinner=False)
def _steps(key: _Key, loader_id: int, _store: Store, _run: Run) -> Steps:
    return _store.steps(_run.id, loader_id)


@st.cache_data(max_entries=200, show_spinner=False)
def _comparison(
    baseline_key: _Key, candidate_key: _Key, _store: Store, _baseline: Run, _candidate: Run
) -> Comparison:
    return report.comparison(_store, _baseline, _candidate)


@st.cache_data(max_entries=50, show_spinner=False)
def _board(keys: tuple[_Key, ...], count: int, _store: Store, _runs: Sequence[Run]) -> Board:
    return report.board(_store, _runs)


@st.cache_data(max_entries=16, show_spinner=False)
def _replay(key: _Key, runs: int, _store: Store, _run: Run) -> Replay:
    return forecasts.replay(_store, _run)


@st.cache_data(max_entries=200, show_spinner=False)
def _forecast(key: _Key, runs: int, _replay: Replay, **asked: Any) -> Forecast:
    return forecasts.ask(_replay, **asked)
