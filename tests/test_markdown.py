"""Markdown for a pull request: complete, and nothing in a recording becomes markup of its own."""

from __future__ import annotations

import re
from pathlib import Path

from recordings import Recording

from probe import markdown
from probe.insight.conditions import Outcome
from probe.report import board, comparison
from probe.store.queries import Store

HOSTILE = "@team | `x` **b** <img src=x> [a](//b) #1 ~s~ $m$ \n> q &amp; \x1b[31m"


def record(path: Path, *names: str) -> None:
    with Recording(path) as recording:
        for i, name in enumerate(names):
            run = recording.run(name, strategy=name, git_commit=f"c{i}")
            loader = recording.loader(run, num_workers=i)
            recording.steps(run, loader, wait_ms=[20.0 - 5 * i] * 100, compute_ms=10.0)


def test_a_comparison_has_its_sentence_conditions_and_tables(tmp_path: Path) -> None:
    record(tmp_path / "a.db", "before", "after")
    with Store(tmp_path / "a.db") as store:
        found = comparison(store, store.run("before"), store.run("after"))
    text = markdown.comparison(found, [Outcome("stall > 5%", True, (0.5, 0.6), "Fails: it does.")])
    assert text.startswith("**after against before: 1.20 × samples/s (95 %: 1.20)")
    assert "\n- Fails: it does.\n" in text
    assert "| wait | 20.0 | 15.0 | −5.0 | −5.0 to −5.0 |" in text
    assert "| num\\_workers | 0 | 1 |" in text
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({re.sub(r"\\\|", "", line).count("|") for line in block.splitlines()}) == 1


def test_a_recording_cannot_write_markup_or_call_anybody(tmp_path: Path) -> None:
    record(tmp_path / "a.db", HOSTILE, HOSTILE + "2", HOSTILE + "3")
    with Store(tmp_path / "a.db") as store:
        runs = store.runs()
        texts = (
            markdown.comparison(comparison(store, *runs[:2])),
            markdown.board(board(store, runs)),
        )
    for text in texts:
        assert "@team" not in text
        assert "\x1b" not in text
        for markup in ("`", "<img", "**b", "[a]", "#1", "~s", "$m", "> q", "&amp;"):
            assert not re.search(rf"(?<!\\){re.escape(markup)}", text), markup
        rows = [line for line in text.splitlines() if "team" in line and line.startswith("|")]
        assert rows
