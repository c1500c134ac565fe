"""The dashboard in a real browser: each page opens, says its sentence and draws its charts."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect
from server import HOSTILE

pytestmark = pytest.mark.browser


def open_page(page: Page, link: str) -> None:
    page.goto(link)
    expect(page.get_by_test_id("stHeading").first).to_be_visible(timeout=20_000)
    expect(page.get_by_test_id("stStatusWidget")).to_have_count(0, timeout=20_000)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)


def test_the_list_opens_a_run(page: Page) -> None:
    open_page(page, "/")
    expect(page.get_by_text("training.db · 3 runs")).to_be_visible()
    table = page.get_by_test_id("stDataFrame")
    # The table is painted; its first column holds the boxes, 35 px a row, newest first.
    table.click(position={"x": 16, "y": 35 * 3 + 17})
    page.get_by_role("link", name="Open slow").click()
    expect(page.get_by_role("heading", name="Highly input-bound")).to_be_visible(timeout=20_000)
    assert "/run?run=" in page.url


def test_two_chosen_runs_are_compared_the_older_one_first(page: Page) -> None:
    open_page(page, "/")
    table = page.get_by_test_id("stDataFrame")
    for row in (2, 3):
        table.click(position={"x": 16, "y": 35 * row + 17})
    page.get_by_role("link", name="Compare slow, quick").click()
    expect(page.get_by_role("heading", name="quick against slow")).to_be_visible(timeout=20_000)
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    expect(page.get_by_text("Settings that differ")).to_be_visible()


def test_a_run_shows_its_charts_and_the_tables_behind_them(page: Page) -> None:
    open_page(page, "/run?run=slow")
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    expect(page.locator(".js-plotly-plot")).to_have_count(3)
    for behind in page.get_by_text("What is shown, as a table").all():
        behind.click()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(5)


def test_the_choice_of_a_run_goes_into_the_link(page: Page) -> None:
    open_page(page, "/run?run=slow")
    page.get_by_role("combobox").first.click()
    page.get_by_role("option", name="quick").click()
    expect(page.get_by_test_id("stHeading").first).not_to_contain_text("Highly", timeout=20_000)
    shared = page.url
    page.go_back()
    open_page(page, shared)
    expect(page.get_by_role("combobox").first).to_have_value(re.compile("^quick"))


def test_a_hostile_name_is_shown_as_it_stands(page: Page) -> None:
    open_page(page, "/compare?run=slow&run=3")
    heading = page.get_by_test_id("stHeading").first
    expect(heading).to_be_visible()
    assert HOSTILE in heading.inner_text().replace("\u2060", "").replace("\u00a0", " ")
    made_of_it = "img, a[href*='//b'], strong, .katex, [data-testid=stIconMaterial]"
    expect(heading.locator(made_of_it)).to_have_count(0)


# What a chart writes, as boxes: outside of its chart, or on top of one another?
BADLY_PLACED_TEXT = """() => {
    const found = [];
    for (const chart of document.querySelectorAll('.js-plotly-plot')) {
        const frame = chart.getBoundingClientRect();
        const texts = [...chart.querySelectorAll('text')]
            .map(text => [text.textContent, text.getBoundingClientRect()])
            .filter(([words, box]) => words.trim() && box.width);
        texts.forEach(([words, box], i) => {
            if (box.left < frame.left - 1 || box.right > frame.right + 1)
                found.push(`cut: ${words}`);
            for (const [others, other] of texts.slice(i + 1))
                if (box.left + 1 < other.right && other.left + 1 < box.right
                    && box.top + 2 < other.bottom && other.top + 2 < box.bottom)
                    found.push(`overlap: ${words} and ${others}`);
        });
    }
    return found;
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    ("link", "charts"),
    [
        ("/", 0),
        ("/run?run=slow", 3),
        ("/compare?run=slow&run=3", 4),
        ("/compare?run=slow&run=quick&run=3", 2),
        ("/whatif?run=slow", 1),
    ],
)
def test_text_is_whole_at_every_width(page: Page, link: str, charts: int, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    open_page(page, link)
    expect(page.locator(".js-plotly-plot .infolayer")).to_have_count(charts)
    page.wait_for_timeout(700)
    assert page.evaluate(BADLY_PLACED_TEXT) == []
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width


def test_what_was_asked_is_in_the_link(page: Page) -> None:
    open_page(page, "/whatif?run=slow&workers=0&workers=3&storage=0.5")
    expect(page.get_by_role("spinbutton", name="Storage time ×")).to_have_value("0.50")
    page.get_by_text("Background thread").click()
    page.wait_for_url(re.compile("background=true"))
    assert "storage=0.5" in page.url
    expect(page.get_by_text("interpreter lock")).to_be_visible()


def test_the_server_listens_to_this_machine_only(url: str) -> None:
    port = urlsplit(url).port
    assert port is not None
    elsewhere = socket.gethostbyname(socket.gethostname())
    addresses = {"127.0.0.2", elsewhere} - {"127.0.0.1"}
    for address in addresses:
        with pytest.raises(OSError, match="refused"), socket.create_connection((address, port), 2):
            pass
