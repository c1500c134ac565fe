"""Every colour can be seen on both backgrounds, and every label on its colour."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import theme
from probe.insight.summary import PHASES

CONFIG = Path(theme.__file__).parent / ".streamlit" / "config.toml"


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_each_phase_has_a_place_a_colour_and_an_ink() -> None:
    assert set(theme.STACK) == set(theme.PHASE) == set(theme.INK) == set(PHASES)
    assert theme.STACK[0] == "compute"
    assert theme.STACK[-2:] == ("copy", "wait")


@pytest.mark.parametrize(
    "colour",
    [*theme.PHASE.values(), *theme.LINES, *theme.SIDES, theme.NEUTRAL, theme.BETTER, theme.WORSE],
)
def test_marks_stand_out_from_both_backgrounds(colour: str) -> None:
    config = tomllib.loads(CONFIG.read_text())
    for side in ("light", "dark"):
        assert contrast(colour, config["theme"][side]["backgroundColor"]) >= 3


@pytest.mark.parametrize("phase", PHASES)
def test_labels_can_be_read_on_their_phase(phase: str) -> None:
    assert contrast(theme.PHASE[phase], theme.INK[phase]) >= 4.5
