"""The dashboard's modules import each other as Streamlit lets them: by the name of the file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "app"))
