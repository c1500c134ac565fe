"""How things look: each phase its colour and its place, on every page.

The colours are Okabe and Ito's, told apart with every common colour blindness. Backgrounds and text
come from `.streamlit/config.toml`, which has a light and a dark side.
"""

from __future__ import annotations

# Bottom to top, and left to right: the stall, copy and wait, lies in one piece at the end.
STACK = ("compute", "other", "copy", "wait")

PHASE = {"compute": "#0072B2", "other": "#949494", "copy": "#CC79A7", "wait": "#D55E00"}

# Text that lies on a phase.
INK = {"compute": "#FFFFFF", "other": "#000000", "copy": "#000000", "wait": "#000000"}

# Lines and bars that are no phase; readable on both backgrounds.
NEUTRAL = "#7A8088"

# Lines side by side that are no phases; each also has its own dashes and marks.
LINES = ("#009E73", "#8D6FD1", "#B07A00", "#7A8088")

# Baseline and candidate, wherever two runs share a chart; the first is dashed.
SIDES = ("#7A8088", "#00805F")

# Text that lies on a bar of one of them.
SIDES_INK = ("#000000", "#FFFFFF")

# A difference that is shown; what is not shown to differ is neutral.
BETTER = "#00805F"
WORSE = "#C8372D"

TEXT_PX = 13
