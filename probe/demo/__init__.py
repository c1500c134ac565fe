"""A small training run under several loading strategies, recorded and compared on this machine."""

from __future__ import annotations

import sqlite3
import sys
import warnings
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn, track

import probe
from probe.demo.scenarios import SCENARIOS, Strategy, strategies
from probe.environment import database, disabled

# Training time of each strategy. A fixed time bounds the whole; a fast strategy makes more steps.
_SECONDS = 30.0
_FAST_SECONDS = 8.0

# What the demo needs beyond the core: package and module.
_NEEDS = {"torch": "torch", "pillow": "PIL"}

# A pipe has no width; narrower, the table would break its lines.
_PIPE_WIDTH = 140


def run_demo(
    scenario: str = "storage",
    fast: bool = False,
    db: str | Path | None = None,
    dashboard: bool = True,
) -> None:
    """Train a small network on JPEG files under each strategy, and say which wins and why.

    Every figure that is printed is read back from the recording.

    Args:
        scenario: storage, decode or burst.
        fast: Finish in under a minute, with wider intervals.
        db: The file to record to; default `PROBE_DB`, else `probe.db` in the current directory.
        dashboard: Open the dashboard at the end; this returns when it is closed.

    Raises:
        SystemExit: With code 2, after one sentence, when the demo cannot run as asked.
    """
    file = database(db)
    _check(scenario, file)
    console = Console()
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    experiment = f"demo-{datetime.now(UTC):%Y%m%dT%H%M%S}-{scenario}"
    seconds = _FAST_SECONDS if fast else _SECONDS
    ways = _record(scenario, seconds, file, experiment, console)

    # Only now: nothing that reads a recording belongs into a process that still trains.
    from probe.demo.table import print_table

    print_table(file, experiment, {way.title: way.because for way in ways}, console)
    if dashboard:
        from probe.dashboard import launch

        launch(file)


def _check(scenario: str, file: Path) -> None:
    """Refuse what cannot work before any time is spent on it."""
    if scenario not in SCENARIOS:
        _refuse(f"there is no scenario {scenario!r}: choose one of {', '.join(SCENARIOS)}")
    if disabled():
        _refuse("PROBE_DISABLE is set, so nothing would be recorded: unset it and run again")
    missing = [name for name, module in _NEEDS.items() if find_spec(module) is None]
    if missing:
        _refuse(
            f"the demo needs {' and '.join(missing)}, not installed here:"
            ' pip install "prefetch-probe[demo]"'
        )
    from probe.record.file import connect

    try:
        connect(file).close()
    except (sqlite3.Error, OSError, ValueError) as error:
        _refuse(f"cannot record to {file}: {error}")


def _refuse(sentence: str) -> NoReturn:
    print(f"probe: {sentence}", file=sys.stderr)
    raise SystemExit(2)


def _record(
    name: str, seconds: float, file: Path, experiment: str, console: Console
) -> list[Strategy]:
    """Train under each strategy and return what was tried, in that order."""
    import torch

    from probe.demo.pictures import Pictures, folder
    from probe.demo.training import loader, train

    scenario = SCENARIOS[name]
    console.print(f"[bold]{name}[/]  {scenario.sentence}", highlight=False)
    files = folder(
        scenario.pixels, lambda numbers: track(numbers, "writing pictures", console=console)
    )
    pictures = Pictures(files, scenario.read_ms, scenario.spread, scenario.augment)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ways = strategies(scenario, cuda=device.type == "cuda")
    bars = Progress(
        TextColumn("{task.description:<29}"), BarColumn(), TimeRemainingColumn(), console=console
    )
    threads = torch.get_num_threads()
    # The workers need the other cores; compute that takes them all would blur what is compared.
    torch.set_num_threads(1)
    try:
        with bars, warnings.catch_warnings():
            # More workers than cores is what `burst` is about.
            warnings.filterwarnings("ignore", message="This DataLoader will create")
            for way in ways:
                show = partial(bars.update, bars.add_task(way.title, total=seconds))
                with probe.run(
                    f"{name}-{way.name}",
                    strategy=way.title,
                    experiment=experiment,
                    tags=["demo", name],
                    notes=scenario.sentence,
                    db=file,
                ):
                    train(loader(way, scenario, pictures, device), device, seconds, show)
    finally:
        torch.set_num_threads(threads)
    return ways
