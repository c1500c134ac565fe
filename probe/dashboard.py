"""Starts the dashboard: a Streamlit server on this machine only."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# In an installed wheel, and in a checkout.
_APPS = (_HERE / "_app", _HERE.parent / "app")


def launch(db: Path | None, port: int | None = None, headless: bool = False) -> int:
    """Run the dashboard until it is stopped.

    Args:
        db: The recording to open; None lets the dashboard choose (`PROBE_DB`, `probe.db`, else the
            sample that ships with probe).
        port: Where to listen; None takes Streamlit's choice.
        headless: Do not open a browser.

    Returns:
        The exit status: 0 when the user stopped it, 2 if the dashboard is not installed.
    """
    if find_spec("streamlit") is None or find_spec("plotly") is None:
        sys.stderr.write('The dashboard is not installed: pip install "prefetch-probe[app]"\n')
        return 2
    server = subprocess.Popen(_command(db, port, headless))  # noqa: S603 - our own command
    # A server that outlives the command would keep the port.
    before = signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    try:
        return server.wait()
    except KeyboardInterrupt:
        # The terminal has sent the same signal to the server, which ends by itself.
        server.wait()
        return 0
    finally:
        server.terminate()
        signal.signal(signal.SIGTERM, before)


def app_file(name: str) -> Path:
    """Find a program of the dashboard's folder."""
    return next(folder / name for folder in _APPS if (folder / name).is_file())


def _command(db: Path | None, port: int | None, headless: bool) -> list[str]:
    command = [sys.executable, "-m", "streamlit", "run", str(app_file("main.py"))]
    command += ["--server.address", "127.0.0.1", "--browser.gatherUsageStats", "false"]
    if port is not None:
        command += ["--server.port", str(port)]
    if headless:
        command += ["--server.headless", "true"]
    if db is not None:
        command += ["--", "--db", str(db.absolute())]
    return command
