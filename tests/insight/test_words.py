"""Numbers in sentences keep the digits they deserve."""

from __future__ import annotations

import pytest

from probe.insight import words


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (words.count(1999.6), "2,000"),
        (words.about(912), "910"),
        (words.about(8), "8"),
        (words.ms(1234.4), "1,234"),
        (words.ms(57.06), "57.1"),
        (words.ms(0.25), "0.25"),
        (words.ms(0), "0"),
        (words.signed_ms(2.71), "+2.7"),
        (words.signed_ms(-56.04), "−56.0"),
        (words.signed_ms(-0.001), "0"),
        (words.percent(0.614), "61 %"),
        (words.percent(0.0234), "2.3 %"),
        (words.percent(0.0002), "0.02 %"),
        (words.percent(0), "0 %"),
        (words.percent_range(0.59, 0.634), "59–63 %"),
        (words.percent_range(0.0, 0.05), "0.0–5.0 %"),
        (words.percent_range(0.338, 0.342), "33.8–34.2 %"),
        (words.percent_range(0.5, 0.5), "50–50 %"),
        (words.signed_percent(-0.012), "−1.2 %"),
        (words.signed_percent(0.31), "+31 %"),
        (words.times(2.314), "2.31"),
        (words.times(1.0126), "1.013"),
        (words.times(46.12), "46.1"),
    ],
)
def test_written(written: str, expected: str) -> None:
    assert written == expected
