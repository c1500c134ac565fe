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

TEXT_PX = 13
