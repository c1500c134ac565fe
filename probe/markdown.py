"""Comparisons as Markdown, to paste into a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from probe import tables
from probe.insight.board import Board
from probe.insight.compare import Comparison
from probe.insight.conditions import Outcome
from probe.printing import plain
from probe.tables import Table

# What Markdown or HTML could take for markup; an @ in front of a name would notify somebody.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~&$])")


def escape(text: str) -> str:
    """Write text that comes out of a recording so that Markdown shows it as it stands."""
    return _MARKUP.sub(r"\\\1", plain(text)).replace("@", "@\u2060")


def comparison(found: Comparison, outcomes: Sequence[Outcome] = ()) -> str:
    """Write a comparison, with what became of the conditions that were asked."""
    parts = [f"**{escape(found.sentence)}**", *_conditions(outcomes), *_notes(found.warnings)]
    parts += [_table(tables.changes(found)), _table(tables.figures(found))]
    if found.differs:
        parts.append(_table(tables.differences(found)))
    if found.alike:
        parts.append(f"Same: {', '.join(found.alike)}.")
    return "\n\n".join(parts)


def board(found: Board) -> str:
    """Write a board."""
    parts = [f"**{escape(found.sentence)}**", _table(tables.board(found)), *_notes(found.notes)]
    return "\n\n".join(parts)


def _conditions(outcomes: Sequence[Outcome]) -> Iterator[str]:
    if outcomes:
        yield "\n".join(f"- {escape(outcome.sentence)}" for outcome in outcomes)


def _notes(sentences: Iterable[str]) -> Iterator[str]:
    if lines := [f"> {escape(sentence)}" for sentence in sentences]:
        yield "\n>\n".join(lines)


def _table(table: Table) -> str:
    align = [":--" if i < table.numbers_from else "--:" for i in range(len(table.head))]
    rows = [[escape(cell) for cell in row] for row in (table.head, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], align, *rows[1:]))
