"""Other people's text is shown as it stands, and numbers keep their units."""

from __future__ import annotations

import pytest

import text


@pytest.mark.parametrize("dangerous", list("*_`[]()<>#$~|\\!-+.{}"))
def test_markdown_is_escaped(dangerous: str) -> None:
    assert text.plain(f"a{dangerous}b") == f"a\\{dangerous}b"


def test_streamlits_own_shorthand_is_broken_up() -> None:
    assert ":material" not in text.plain(":material/home:")
    assert ":\u2060smile" in text.plain(":smile:")
    assert ":\u2060100" in text.plain(":100:")
    assert "\u2060" not in text.plain("started 09:47, lasted: long")


def test_a_name_cannot_start_a_line_of_its_own() -> None:
    assert "\n" not in text.plain("innocent\n\n# A headline")


def test_a_number_is_not_parted_from_its_unit() -> None:
    assert text.plain("61 % of 94 ms gives 2.5 ×") == (
        "61\u00a0\\% of 94\u00a0ms gives 2\\.5\u00a0×"
    )


def test_charts_get_no_tags() -> None:
    assert text.in_chart('<a href="x">&</a>') == '&lt;a href="x"&gt;&amp;&lt;/a&gt;'


def test_a_long_name_leaves_room_for_the_bars() -> None:
    assert text.in_chart("DataLoader & 4 workers & more") == "DataLoader &amp; 4 wo…"


def test_missing_is_said_and_never_zero() -> None:
    assert text.ms(None) == text.signed_ms(None) == text.percent(None) == "not measured"
    assert text.in_percent(None) is None
    assert text.setting(None) == "–"


def test_moments_are_utc() -> None:
    assert text.moment("2026-01-02T03:04:05+02:00") == "2026-01-02 01:04"
    assert text.moment("yesterday") == "yesterday"


def test_an_error_becomes_a_sentence() -> None:
    assert text.sentence(ValueError("no run 'a_b'")) == "No run \\'a\\_b\\'\\."
