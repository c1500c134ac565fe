"""A real Streamlit server and a real Chromium, for the tests and for `screenshots.py`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

# A name that a recording from somebody else may hold.
HOSTILE = "<img src=x onerror=alert(1)> :red[y] **z** :smile: :material/home: $x^2$ [a](//b)"

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def dashboard(recording: Path, folder: Path) -> Iterator[str]:
    """Serve a recording from a folder that is not the checkout; give the address.

    No address is asked for: which one it binds is what the dashboard's own configuration says.
    """
    port = _free_port()
    command = [sys.executable, "-m", "streamlit", "run", str(MAIN)]
    options = ["--server.port", str(port), "--server.headless", "true"]
    log = folder / "streamlit.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, *options, "--", "--db", str(recording)],
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(MAIN.parents[1])},
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_up(url, server, log)
            yield url
        finally:
            server.terminate()
            server.wait(timeout=20)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's Chromium without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert server.poll() is None, f"the server ended: {log.read_text()}"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.1)
    raise AssertionError(f"the server did not come up: {log.read_text()}")
