"""Every test starts in an empty folder, with no run open and no settings of its user."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from open_runs import finish_runs


@pytest.fixture(autouse=True)
def clean_slate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PROBE_")]:
        if name != "PROBE_REQUIRE_BROWSER":
            monkeypatch.delenv(name)
    yield
    finish_runs()
