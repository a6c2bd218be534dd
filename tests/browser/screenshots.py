"""The pictures of the README, from recordings of an H200: `python tests/browser/screenshots.py`.

Writes report.png (the first screen) and timeline.png into examples/, or into the folder named.
Needs Chromium, as the browser tests do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from syncscope.api import load

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "data" / "h200"
WIDTH, HEIGHT = 1400, 900
MAX_BYTES = 300_000


def opened(browser: Browser, recording: str, folder: Path) -> Page:
    """The report of a recording, drawn, in a light window of the pictures' size."""
    report = load(RECORDINGS / recording).report(folder / f"{recording}.html")
    page = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", reduced_motion="reduce"
    )
    page.goto(report.as_uri())
    page.wait_for_selector("#syncscope-timeline[data-ready]", state="attached")
    return page


def take(browser: Browser, target: Path) -> list[Path]:
    """Take both pictures; returns their paths."""
    first, timeline = target / "report.png", target / "timeline.png"
    with tempfile.TemporaryDirectory() as folder:
        page = opened(browser, "upload_bound", Path(folder))
        page.screenshot(path=first)
        page.locator("section.timeline").scroll_into_view_if_needed()
        box = page.locator("section.timeline").bounding_box()
        assert box is not None
        area = {"x": 0, "y": box["y"] - 20, "width": WIDTH, "height": box["height"] + 40}
        page.screenshot(path=timeline, clip=area)
    return [first, timeline]


def main(target: Path) -> None:
    """Write the pictures and say how large they are. Fails if one is larger than allowed."""
    from conftest import CHROMIUM  # of this folder, which python puts first on its path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for path in take(browser, target):
            print(f"{path}: {path.stat().st_size:,} bytes")
            assert path.stat().st_size < MAX_BYTES
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "examples")
