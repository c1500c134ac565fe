"""The report in a real browser without a network: everything is drawn, and nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from server import HOSTILE
from test_dashboard import BADLY_PLACED_TEXT
from typer.testing import CliRunner

from probe.cli import app

pytestmark = pytest.mark.browser


@pytest.fixture(scope="session")
def reports(recording: Path) -> Path:
    folder = recording.parent
    for name, runs in (("two", ["slow", "3"]), ("many", ["slow", "quick", "3"])):
        path = str(folder / f"{name}.html")
        arguments = ["export", *runs, "--html", path, "--db", str(recording)]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page without a network, which fails the test on any complaint and any request."""
    complaints: list[str] = []
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: complaints.append(request.url))
    yield page
    context.close()
    assert [said for said in complaints if not said.endswith(".html")] == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(("name", "charts"), [("two", 10), ("many", 11)])
def test_the_report_draws_every_chart_offline(
    offline: Page, reports: Path, name: str, charts: int, width: int
) -> None:
    offline.set_viewport_size({"width": width, "height": 900})
    offline.goto((reports / f"{name}.html").as_uri())
    expect(offline.locator(".js-plotly-plot .infolayer")).to_have_count(charts)
    offline.wait_for_timeout(500)
    assert offline.evaluate(BADLY_PLACED_TEXT) == []
    assert offline.evaluate("document.documentElement.scrollWidth") <= width


def test_a_hostile_name_stays_text(offline: Page, reports: Path) -> None:
    offline.goto((reports / "two.html").as_uri())
    heading = offline.locator("h2").first
    assert heading.inner_text().startswith(HOSTILE)
    expect(offline.locator("h2 img, td img, th img, a[href*='//b']")).to_have_count(0)
    assert "<img src=x" not in (reports / "two.html").read_text(encoding="utf-8")
