"""How numbers read in a sentence: as many digits as they deserve, and their unit."""

from __future__ import annotations


def count(value: float) -> str:
    """Write a whole number with thousands separated: 2,000."""
    return f"{value:,.0f}"


def plural(number: int, noun: str) -> str:
    """Write a number of things whose plural ends in s: 1 worker, 8 workers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def about(value: float) -> str:
    """Write a rough number with two digits that count: 912 becomes 910."""
    return f"{float(f'{value:.1e}'):,.0f}"


def ms(value: float) -> str:
    """Write milliseconds without the unit: 1,234 or 57.1 or 0.25."""
    return f"{value:,.{_decimals(value, 100)}f}"


def ms_of_ns(value: float) -> str:
    """Write nanoseconds as milliseconds without the unit."""
    return ms(value / 1e6)


def rate(value: float) -> str:
    """Write a number per second without the unit: 1,234 or 57.1 or 0.25."""
    return ms(value)


def signed_ms(value: float) -> str:
    """Write a change in milliseconds without the unit: +2.7 or −56.0; nothing changed is 0."""
    return _signed(value, _decimals(value, 100))


def percent(share: float) -> str:
    """Write a share of 1 in percent: 61 % or 2.3 % or 0.02 %."""
    return f"{share * 100:.{_decimals(share * 100, 10)}f} %"


def percent_range(low: float, high: float) -> str:
    """Write an interval of shares in percent: 59–63 % or 1.2–3.4 % or 33.8–34.2 %."""
    decimals = _decimals(high * 100, 10)
    if f"{low * 100:.{decimals}f}" == f"{high * 100:.{decimals}f}" and low < high:
        decimals += 1  # the same number twice would say nothing of the width
    return f"{low * 100:.{decimals}f}–{high * 100:.{decimals}f} %"


def signed_percent(share: float) -> str:
    """Write a relative change in percent: −1.2 % or +31 %."""
    return f"{_signed(share * 100, _decimals(share * 100, 10))} %"


def times(ratio: float) -> str:
    """Write a ratio without the sign ×, more exactly near 1: 2.3 or 1.46 or 1.013."""
    return f"{ratio:.{3 if 0.9 < ratio < 1.1 else 2 if ratio < 10 else 1}f}"


def times_range(low: float, high: float) -> str:
    """Write an interval of ratios without the sign ×: 1.53–2.30, or one if both read alike."""
    decimals = 3 if high < 1.1 else 2 if high < 10 else 1
    ends = f"{low:.{decimals}f}", f"{high:.{decimals}f}"
    return ends[0] if ends[0] == ends[1] else "–".join(ends)


def _decimals(value: float, whole_from: float) -> int:
    """Choose decimals so that small values keep two digits and large ones have none."""
    size = abs(value)
    if size >= whole_from or size == 0:
        return 0
    return 1 if size >= whole_from / 100 and size >= 1 else 2


def _signed(value: float, decimals: int) -> str:
    text = f"{abs(value):,.{decimals}f}"
    if not float(text.replace(",", "")):
        return "0"
    return f"{'+' if value > 0 else '−'}{text}"
