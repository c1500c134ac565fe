"""JSON that every parser reads: numbers that JSON does not know become null."""

from __future__ import annotations

import json
import math
from typing import Any


def dumps(value: Any) -> str:
    """Write a value as indented JSON; NaN and infinity, which mean "no such number", as null."""
    return json.dumps(_finite(value), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
