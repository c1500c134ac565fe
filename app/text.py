"""How values and other people's text are written on screen."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime

from probe.insight import words
from probe.store.queries import Run

NOT_MEASURED = "not measured"

_LONGEST_NAME = 18

_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def plain(text: str) -> str:
    """Escape text so that Markdown shows it as it stands.

    Names and notes come out of a file that may be anybody's. Streamlit looks for its own shorthand
    (`:smile:`, `:material/home:`) after Markdown has removed the backslashes, so a colon that
    another one answers also gets an invisible word joiner, which leaves nothing to be found.
    """
    escaped = _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))
    hidden = re.sub(r"\\:(?=\S+\\:)", "\\:\u2060", escaped)
    return re.sub(r"(?<=\d) (?=×|\\%|ms\b)", "\u00a0", hidden)  # a number keeps its unit


def sentence(error: Exception) -> str:
    """Write an error's message as a sentence, escaped."""
    message = str(error)
    return plain(f"{message[:1].upper()}{message[1:]}.")


def in_chart(name: str) -> str:
    """Cut a name to the room beside a bar, and escape it for Plotly, which reads some HTML tags."""
    one_line = " ".join(name.split())
    cut = one_line if len(one_line) <= _LONGEST_NAME else f"{one_line[: _LONGEST_NAME - 1]}…"
    return html.escape(cut, quote=False)


def ms(value: float | None) -> str:
    """Write a duration that is given in ms."""
    return NOT_MEASURED if value is None else f"{words.ms(value)} ms"


def signed_ms(value: float | None) -> str:
    """Write a change of a duration that is given in ms."""
    return NOT_MEASURED if value is None else f"{words.signed_ms(value)} ms"


def rate(per_second: float | None) -> str:
    """Write samples per second with their unit."""
    return NOT_MEASURED if per_second is None else f"{words.rate(per_second)} samples/s"


def percent(share: float | None) -> str:
    """Write a share of 0–1 in percent."""
    return NOT_MEASURED if share is None else words.percent(share)


def in_percent(share: float | None) -> float | None:
    """Scale a share for a table column whose unit is %."""
    return None if share is None else share * 100


def moment(iso: str) -> str:
    """Write a moment that is given as ISO 8601, to the minute, in UTC."""
    try:
        return datetime.fromisoformat(iso).astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return iso


def setting(value: object) -> str:
    """Write a setting's value: yes and no are words, and a dash stands for none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return str(value)


def run_choice(run: Run) -> str:
    """Name a run so that it can be told from others of the same name."""
    return " · ".join(part for part in (run.label, run.strategy, f"run {run.id}") if part)


def run_line(run: Run) -> str:
    """Say in one line how a run came about."""
    if run.status == "running":
        state = f"live since {moment(run.started_at)} UTC"
    else:
        state = f"{run.status}, started {moment(run.started_at)} UTC"
    return " · ".join(part for part in (run.strategy, run.device, state, *run.tags) if part)
