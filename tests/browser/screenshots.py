"""Pictures of each page, to look at: `python tests/browser/screenshots.py FILE [FOLDER]`.

Each page is taken at 1280 and at 390 px, light and dark, into `artifacts/screenshots`.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page
from server import MAIN, chromium, dashboard

from probe.store.queries import Store

FOLDER = MAIN.parents[1] / "artifacts" / "screenshots"


def pages(recording: Path) -> dict[str, str]:
    """Name each page and its link: one run, two runs compared, and all of them."""
    with Store(recording) as store:
        uids = [run.uid for run in reversed(store.runs())]
    return {
        "runs": "/",
        "run": f"/run?run={uids[0]}",
        "run-last": f"/run?run={uids[-1]}",
        "compare": "/compare?" + "&".join(f"run={uid}" for uid in uids[:2]),
        "compare-many": "/compare?" + "&".join(f"run={uid}" for uid in uids),
        "whatif": f"/whatif?run={uids[0]}",
    }


def settle(page: Page) -> None:
    """Wait until the page has stopped running and drawing."""
    page.wait_for_selector("[data-testid=stHeading], [data-testid=stAlert]")
    page.wait_for_function(
        "!document.querySelector('[data-testid=stStatusWidget]')"
        " && !document.querySelector('[data-testid=stSkeleton]')"
    )
    page.wait_for_timeout(800)


def main(recording: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as elsewhere,
        dashboard(recording, Path(elsewhere)) as url,
        chromium() as browser,
    ):
        for scheme, width in itertools.product(("light", "dark"), (1280, 390)):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            for name, link in pages(recording).items():
                page.goto(url + link)
                settle(page)
                # Streamlit scrolls inside the page, so the window has to hold all of it.
                height = page.evaluate(
                    "document.querySelector('[data-testid=stMain]').scrollHeight"
                )
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(500)
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")
                page.set_viewport_size({"width": width, "height": 900})
            page.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER)
