"""Gathers the checks of `check_device.py` and writes them down."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Report:
    """The checks made so far.

    Args:
        device: Name of the device.
        torch: Version of torch.
    """

    def __init__(self, device: str, torch: str) -> None:
        self.device, self.torch = device, torch
        self.checks: list[dict[str, Any]] = []

    @property
    def ok(self) -> bool:
        """Tell whether there were checks and all held."""
        return bool(self.checks) and all(check["ok"] for check in self.checks)

    def add(self, name: str, ok: bool, values: dict[str, float]) -> None:
        """Note the outcome of a check."""
        self.checks.append({"name": name, "ok": bool(ok), "values": values})
        print(_line(self.checks[-1]), flush=True)

    def attempt(self, check: Callable[..., None], *args: Any) -> None:
        """Make a group of checks; one that raises has failed, and the others go on."""
        try:
            check(self, *args)
        except Exception:
            self.add(f"{check.__name__} raised", False, {})
            self.checks[-1]["error"] = traceback.format_exc()
            print(self.checks[-1]["error"], flush=True)

    def write(self, folder: Path, seconds: float) -> None:
        """Write `device.json` and `device.md`."""
        folder.mkdir(parents=True, exist_ok=True)
        found = {"device": self.device, "torch": self.torch, "seconds": round(seconds, 1)}
        found |= {"ok": self.ok, "checks": self.checks}
        (folder / "device.json").write_text(json.dumps(found, indent=2), encoding="utf-8")
        head = [
            f"{self.device}, torch {self.torch}, {seconds:.0f} s",
            "",
            "| check |  | figures |",
            "| :-- | :-- | :-- |",
        ]
        lines = [*head, *map(_line, self.checks)]
        (folder / "device.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(check: dict[str, Any]) -> str:
    values = ", ".join(f"{name} {value:.3g}" for name, value in check["values"].items())
    return f"| {check['name']} | {'right' if check['ok'] else 'WRONG'} | {values} |"
