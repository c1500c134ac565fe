"""The command `probe`: reads recordings and prints what the report says of them.

What a command needs is imported when it runs, so that `probe --help` answers at once.
"""

from __future__ import annotations

import json
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
        loaders = store.loaders(found.run.id)
    if as_json:
        _print_json(to_json(found))
        return
    from probe import printing

    printing.show(found, loaders)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="The baseline: an id, uid or name.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The candidate: an id, uid or name.")],
    db: Db = None,
    as_json: Json = False,
) -> None:
    """Say whether run B is faster than run A, and where the time went."""
    from probe.report import comparison

    with _recording(db) as store:
        found = comparison(store, store.run(a), store.run(b))
    if as_json:
        _print_json(found.to_json())
        return
    from probe import printing

    printing.comparison(found)


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


@contextmanager
def _recording(db: Path | None) -> Iterator[Store]:
    from probe.environment import database
    from probe.store.queries import Store, StoreError

    try:
        with Store(database(db)) as store:
            yield store
    except StoreError as error:
        _fail(str(error))


def _fail(sentence: str) -> NoReturn:
    from probe.printing import plain

    typer.echo(f"probe: {plain(sentence)}", err=True)
    raise typer.Exit(2)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
