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
def browser():
    """Chromium without a window; it lives as long as a file of tests."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Callable]:
    """Open the report of an analysis; at the end, fail on any error or request it caused."""
    from syncscope.reports.html_report import write_html

    trouble: list[str] = []
    contexts = []

    def open_report(analysis, **options):
        path = tmp_path / f"report-{len(contexts)}.html"
        write_html(analysis, path)
        context = browser.new_context(
            offline=True, viewport={"width": 1366, "height": 900}, reduced_motion="reduce",
            **options,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        own = path.as_uri()
        page.on(
            "request",
            lambda request: trouble.append(f"request: {request.url}")
            if request.url.split("#")[0] != own and not request.url.startswith(("data:", "blob:"))
            else None,
        )
        page.on("pageerror", lambda error: trouble.append(f"error: {error}"))
        page.on(
            "console",
            lambda message: trouble.append(f"console: {message.text}")
            if message.type in ("error", "warning")
            else None,
        )
        page.on("dialog", lambda dialog: (trouble.append("dialog"), dialog.dismiss()))
        page.goto(own)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert trouble == []
