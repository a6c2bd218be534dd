"""A real browser with the network forbidden, and reports of hand-built analyses to open in it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

CHROMIUM = os.environ.get("SYNCSCOPE_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder, and skip it where there is nothing to run it in."""
    reason = _why_not()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


def _why_not() -> str:
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    if not CHROMIUM:
        return "no Chromium found: install one, or name it in SYNCSCOPE_CHROMIUM"
    return ""


@pytest.fixture(scope="session")
def analyses() -> ModuleType:
    """The builders of the unit tests; tests are not a package to import them from."""
    path = Path(__file__).parents[1] / "unit" / "reports" / "analyses.py"
    spec = importlib.util.spec_from_file_location("syncscope_browser_analyses", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser_page():
    """One page without a network for a file of tests: it compiles plotly.js only once."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context(offline=True, reduced_motion="reduce")
        yield context.new_page()
        chromium.close()


@pytest.fixture
def opened(browser_page, tmp_path) -> Iterator[Callable]:
    """Open the report of an analysis; at the end, fail on any error or request it caused.

    What it caused is the list `opened.trouble`: a test that provokes it clears it.
    """
    from syncscope.reports.html_report import write_html

    page = browser_page
    trouble: list[str] = []
    report = tmp_path / "report.html"

    def on_request(request) -> None:
        own = request.url.split("#")[0] == report.as_uri()
        if not own and not request.url.startswith(("data:", "blob:")):
            trouble.append(f"request: {request.url}")

    def on_console(message) -> None:
        if message.type in ("error", "warning"):
            trouble.append(f"console: {message.text}")

    def on_error(error) -> None:
        trouble.append(f"error: {error}")

    def on_dialog(dialog) -> None:
        trouble.append("dialog")
        dialog.dismiss()

    listeners = {
        "request": on_request,
        "console": on_console,
        "pageerror": on_error,
        "dialog": on_dialog,
    }

    def open_report(analysis, scheme="light"):
        write_html(analysis, report)
        page.set_viewport_size({"width": 1366, "height": 900})
        page.emulate_media(media="screen", color_scheme=scheme)
        page.goto(report.as_uri())
        return page

    for event, listener in listeners.items():
        page.on(event, listener)
    open_report.trouble = trouble
    yield open_report
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    page.goto("about:blank")
    assert trouble == []
