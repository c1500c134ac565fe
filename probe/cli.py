"""The command `probe`: reads recordings and prints what the report says of them.

What a command needs is imported when it runs, so that `probe --help` answers at once.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from probe.store.queries import Store

app = typer.Typer(
    name="probe",
    help="Is my GPU waiting for data, why, and did the change help?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# As of a program that SIGINT has ended.
_INTERRUPTED = 130

Db = Annotated[
    Path | None,
    typer.Option("--db", help="The recording. Default: PROBE_DB, else probe.db in this folder."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
RunRef = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="An id, the start of a uid, or a name (the newest run with it)."
    ),
]


def main() -> None:
    """Run the command line; the entry point of the `probe` script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows a question mark, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app(prog_name="probe")


@app.command()
def demo(
    scenario: Annotated[
        Literal["storage", "decode", "burst"],
        typer.Option(help="What makes loading slow: waiting storage, costly decoding, bursts."),
    ] = "storage",
    fast: Annotated[bool, typer.Option("--fast", help="Finish in under a minute.")] = False,
    db: Annotated[Path | None, typer.Option("--db", help="The file to record to.")] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="Open the dashboard at the end.")
    ] = True,
) -> None:
    """Train a small network under several strategies and say which one wins, and why."""
    from probe.demo import run_demo

    run_demo(scenario, fast, db, dashboard)


@app.command()
def runs(db: Db = None, as_json: Json = False) -> None:
    """List the runs of a recording, the newest first."""
    from probe.report import runs_table

    with _recording(db) as store:
        rows = runs_table(store)
    if as_json:
        _print_json(rows)
        return
    from probe import printing

    printing.runs(rows)


@app.command()
def show(run: RunRef, db: Db = None, as_json: Json = False) -> None:
    """Say whether a run waits for data, with the evidence."""
    from probe.report import report, to_json

    with _recording(db) as store:
        found = report(store, store.run(run))
    if as_json:
        _print_json(to_json(found))
        return
    from probe import printing

    printing.show(found)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The baseline: an id, uid or name.")],
    others: Annotated[
        list[str], typer.Argument(metavar="B [C]...", help="The candidates: an id, uid or name.")
    ],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(help='Exit with 1 if it surely holds: "throughput < 0.97", "stall > 5%".'),
    ] = None,
    db: Db = None,
    as_json: Json = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown for a pull request.")
    ] = False,
) -> None:
    """Say whether run B is faster than run A, and where the time went; or rank several.

    With --fail-if the exit status is 1 if a condition surely holds, 3 if one cannot be told, else
    0. Metrics are throughput (B ÷ A), stall (share of B), wait_ms and step_ms (means of B) and
    their percentiles, such as step_ms_p95. The whole 95 % interval decides.
    """
    if as_json and markdown:
        _fail("--json and --markdown are both given: choose one")
    from probe.comparing import compare_many, compare_two

    how = "json" if as_json else "markdown" if markdown else "text"
    with _recording(db) as store:
        runs = [store.run(ref) for ref in (a, *others)]
        try:
            if len(runs) == 2:
                status = compare_two(store, runs[0], runs[1], fail_if or [], how)
            elif fail_if:
                _fail("--fail-if is about two runs: name a baseline and one candidate")
            else:
                status = compare_many(store, runs, how)
        except ValueError as error:
            _fail(str(error))
    raise typer.Exit(status)


@app.command()
def whatif(
    run: RunRef,
    workers: Annotated[str, typer.Option(help="Numbers of workers to try.")] = "0,1,2,4,8",
    prefetch_factor: Annotated[str, typer.Option(help="Prefetch factors to try.")] = "2,4",
    storage: Annotated[
        float, typer.Option(help="Time that storage takes, as a multiple: 0.25 is 4 × faster.")
    ] = 1.0,
    batch: Annotated[
        int | None, typer.Option(help="Samples in a batch. Default: as recorded.")
    ] = None,
    background: Annotated[
        int, typer.Option(help="Batches that a background thread holds ready; 0 for no thread.")
    ] = 0,
    side_stream: Annotated[
        bool, typer.Option("--side-stream", help="Copy on a stream of its own, from pinned memory.")
    ] = False,
    cores: Annotated[
        float | None, typer.Option(help="Cores to run on. Default: as recorded.")
    ] = None,
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Predict the throughput of a run under other settings, from what was recorded."""
    from probe import forecast

    with _recording(db) as store:
        replay = forecast.replay(store, store.run(run))
    try:
        found = forecast.ask(
            replay,
            _numbers("--workers", workers),
            _numbers("--prefetch-factor", prefetch_factor),
            storage,
            batch,
            background,
            side_stream,
            cores,
        )
    except ValueError as error:
        _fail(str(error))
    if as_json:
        _print_json(found.to_json())
        return
    from probe import printing

    printing.forecast(found)


@app.command()
def race(
    loader: Annotated[
        str,
        typer.Argument(
            metavar="LOADER", help="The function that makes the loader: package.module:function."
        ),
    ],
    step: Annotated[
        str, typer.Option(help="The function that trains on a batch: package.module:function.")
    ],
    strategies: Annotated[
        str | None,
        typer.Option(
            help='What to try, such as "plain;workers=2;workers=4,prefetch_factor=4;background".'
            " Default: what suits this machine."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Steps of each run that count.")] = 200,
    repeats: Annotated[int, typer.Option(help="Rounds at most.")] = 5,
    seconds: Annotated[
        float | None, typer.Option(help="Time for all of it. Default: no limit.")
    ] = None,
    db: Annotated[Path | None, typer.Option("--db", help="The file to record to.")] = None,
    as_json: Json = False,
) -> None:
    """Run your training step under several loading strategies and recommend one."""
    from contextlib import redirect_stdout

    import probe
    from probe.racing.strategies import RaceError
    from probe.racing.targets import find

    try:
        # What the functions print would not be JSON.
        with redirect_stdout(sys.stderr if as_json else sys.stdout):
            found = probe.race(
                find(loader),
                find(step),
                None if strategies is None else strategies.split(";"),
                steps=steps,
                repeats=repeats,
                seconds=seconds,
                db=db,
            )
    except RaceError as error:
        _fail(str(error))
    if as_json:
        _print_json(found.to_json())
    else:
        typer.echo(found)
    if found.interrupted:
        raise typer.Exit(_INTERRUPTED)


@app.command()
def dashboard(
    db: Annotated[
        Path | None,
        typer.Option(
            "--db", help="The recording. Default: PROBE_DB, else probe.db, else a sample."
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Where to listen.")] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Open no browser.")] = False,
) -> None:
    """Open the dashboard in a browser; it listens on this machine only."""
    from probe.dashboard import launch

    if db is not None:
        with _recording(db):
            pass
    raise typer.Exit(launch(db, port, headless))


@app.command()
def export(
    refs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="An id, uid or name; the baseline first.")
    ],
    html: Annotated[
        Path | None, typer.Option(help="Write a report in one file, with all of its charts.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the steps as CSV.")] = None,
    parquet: Annotated[Path | None, typer.Option(help="Write the steps as Parquet.")] = None,
    db: Db = None,
) -> None:
    """Write runs to a file: a report to send, or their steps for other tools."""
    from probe import export as exports

    wanted = [
        (write, path)
        for write, path in (
            (exports.to_html, html),
            (exports.to_csv, csv),
            (exports.to_parquet, parquet),
        )
        if path is not None
    ]
    if not wanted:
        _fail("nothing to write: name a file with --html, --csv or --parquet")
    with _recording(db) as store:
        runs = [store.run(ref) for ref in refs]
        for write, path in wanted:
            try:
                write(store, runs, path)
            except exports.ExportError as error:
                _fail(str(error))
            typer.echo(f"Written: {path}")


@contextmanager
def _recording(db: Path | None) -> Iterator[Store]:
    from probe.environment import database
    from probe.store.queries import Store, StoreError

    try:
        path = database(db)
    except (OSError, RuntimeError) as error:  # no such user, no such folder any more
        _fail(f"cannot tell where the recording is: {error}")
    try:
        with Store(path) as store:
            yield store
    except (StoreError, OSError) as error:
        _fail(str(error))


def _numbers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{option} is {text!r}: give whole numbers with commas between them, such as 0,2,4"
        ) from None


def _fail(sentence: str) -> NoReturn:
    from probe.printing import plain

    typer.echo(f"probe: {plain(sentence)}", err=True)
    raise typer.Exit(2)


def _print_json(value: Any) -> None:
    from probe import strict_json

    typer.echo(strict_json.dumps(value))
