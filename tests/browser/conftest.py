"""One server and one browser for all tests; without Chromium they are skipped, or fail in CI."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, ConsoleMessage, Page
from server import CHROMIUM, HOSTILE, chromium, dashboard
from torch.utils.data import DataLoader, Dataset

import probe

# Read before the tests' own environment is emptied.
REQUIRED = os.environ.get("PROBE_REQUIRE_BROWSER") == "1"

# Streamlit finds its server by asking below the page's own path first, which Chromium reports.
SEARCH_FOR_THE_SERVER = re.compile(r"/(run|compare|whatif)/_stcore/(health|host-config)$")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        message = "there is no chromium on the path"
        pytest.fail(message) if REQUIRED else pytest.skip(message)
    with chromium() as started:
        yield started


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three small runs, recorded with probe itself."""
    path = tmp_path_factory.mktemp("dashboard") / "training.db"
    record(path)
    return path


@pytest.fixture(scope="session")
def url(recording: Path) -> Iterator[str]:
    """Serve the recording."""
    with dashboard(recording, recording.parent) as address:
        yield address


class Slow(Dataset[torch.Tensor]):
    """Sixty-four batches of eight, each of which takes its time."""

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % 8 == 0:
            time.sleep(self.wait_s)
        return torch.zeros(1)


def record(path: Path) -> None:
    for name, wait_s in (("slow", 0.006), ("quick", 0.0002), (HOSTILE, 0.001)):
        with probe.run(name, strategy=f"sleeps {wait_s * 1e3:g} ms", db=path):
            loader = probe.watch(DataLoader(Slow(wait_s), batch_size=8))
            for _ in range(2):
                for _ in loader:
                    time.sleep(0.002)


@pytest.fixture
def page(browser: Browser, url: str) -> Iterator[Page]:
    """A page that fails the test on whatever the browser complains of."""
    complaints: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        where = str(message.location.get("url"))
        if message.type == "error" and not SEARCH_FOR_THE_SERVER.search(where):
            complaints.append(f"{message.text} ({where})")

    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    opened.on("console", on_console)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    yield opened
    context.close()
    assert not complaints
