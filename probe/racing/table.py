"""How the result of a race reads in a terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from probe import tables
from probe.insight import words
from probe.insight.board import Board
from probe.printing import plain
from probe.racing.result import RaceResult

# A pipe has no width; narrower, the board would break its lines.
_PIPE_WIDTH = 140
# An interval whose ends differ by more than this factor is of no use to anybody.
_VAGUE = 3


def text(found: RaceResult) -> str:
    """Write the board, what the race was, and what to use."""
    board = "" if found.board is None else _board(found.board)
    return board + "\n".join(_sentences(found))


def _board(found: Board) -> str:
    cells = tables.board(found)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(cells.head):
        table.add_column(head, justify="right" if i >= cells.numbers_from else "left")
    for row in cells.rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    out = io.StringIO()
    width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns
    Console(file=out, width=width).print(table)
    return out.getvalue()


def _sentences(found: RaceResult) -> Iterator[str]:
    if found.board is not None:
        if found.board.ceiling is not None:
            ceiling = words.rate(found.board.ceiling)
            yield f"Ceiling, batches from memory: {ceiling} {found.unit}."
        for note in found.board.notes:
            yield f"Note: {plain(note)}"
    for title, sentence in found.failed.items():
        yield f"{plain(title)} failed: {plain(sentence)}"
    yield found.stopped
    chosen = found.recommended
    if chosen is None:
        yield "Nothing was measured that could be recommended."
        return
    why = (
        "the fastest"
        if chosen.title == found.best
        else f"the simplest that is not shown to be slower than {plain(found.best or '')}"
    )
    yield f"Use {plain(chosen.title)}: {words.rate(chosen.samples_per_s)} {found.unit}, {why}."
    if chosen.predicted is None:
        yield "One repeat does not tell where another run would lie."
    elif chosen.predicted[1] > _VAGUE * chosen.predicted[0]:
        yield "Its repeats differ too much, or are too few, to tell where another run would lie."
    else:
        low, high = map(words.rate, chosen.predicted)
        yield f"Another run will reach {low}–{high} {found.unit} (95 %)."
    yield ""
    yield from (f"    {line}" for line in chosen.code.splitlines())
