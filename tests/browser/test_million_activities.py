"""The report of a million activities: small, and nearly as quick as plotly alone."""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path

import pytest

from syncscope.analysis.pipeline import analyze
from syncscope.recording.reader import Recording
from syncscope.reports.html_report import write_html

TESTS = Path(__file__).resolve().parents[1]
ACTIVITIES = 1_000_000
MAX_BYTES = 12_000_000
MAX_RATIO = 2.5
"""Time to open, to that of a page with nothing but plotly in it: 1.4 to 1.9 was measured."""

EMPTY = (
    "<!doctype html><meta charset='utf-8'><div id='plot'></div><script>{plotly}</script>"
    "<script>Plotly.newPlot('plot', [{{ y: [1] }}]).then(() => {{ plot.dataset.ready = ''; }});"
    "</script>"
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The report, and a page with an empty plot."""
    from plotly.offline import get_plotlyjs

    folder = tmp_path_factory.mktemp("million")
    spec = importlib.util.spec_from_file_location("big_recording", TESTS / "big_recording.py")
    big_recording = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = big_recording
    spec.loader.exec_module(big_recording)
    source = Recording(TESTS / "data" / "h200" / "train_gpt")
    analysis = analyze(Recording(big_recording.repeated(source, folder / "run", ACTIVITIES)))
    assert len(analysis.activity) >= ACTIVITIES
    write_html(analysis, folder / "report.html")
    (folder / "empty.html").write_text(EMPTY.format(plotly=get_plotlyjs()), encoding="utf-8")
    return folder / "report.html", folder / "empty.html"


def open_cold(browser_page, path):
    """A page of its own, so that nothing is compiled yet; returns it and the seconds it took."""
    context = browser_page.context.browser.new_context(offline=True)
    page = context.new_page()
    began = time.perf_counter()
    page.goto(path.as_uri())
    page.wait_for_selector("[data-ready]", state="attached")
    return page, time.perf_counter() - began


def opening_time_s(browser_page, path):
    page, seconds = open_cold(browser_page, path)
    page.context.close()
    return seconds


def test_the_report_of_a_million_activities_is_small(pages):
    assert pages[0].stat().st_size < MAX_BYTES


@pytest.mark.timeout(600)
def test_a_million_activities_open_nearly_as_quickly_as_plotly_alone(pages, browser_page):
    report, empty = pages
    times = [
        (opening_time_s(browser_page, empty), opening_time_s(browser_page, report))
        for _ in range(5)
    ]
    ratio = statistics.median(of_report / of_empty for of_empty, of_report in times)
    print(f"seconds for the empty page and the report: {times}, ratio {ratio:.2f}")
    assert ratio < MAX_RATIO


def test_zooming_takes_no_longer_than_opening_an_empty_page(pages, browser_page):
    report, empty = pages
    base_s = opening_time_s(browser_page, empty)
    page, _ = open_cold(browser_page, report)
    taken = []
    for move in ("all", "in", "in", "in", "later", "step", "out"):
        began = time.perf_counter()
        page.locator(f"[data-move={move}]").click()
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        taken.append(time.perf_counter() - began)
    print(f"seconds for a move: {[round(seconds, 2) for seconds in taken]}, base {base_s:.2f}")
    assert statistics.median(taken) < base_s / 2
    assert page.locator("#syncscope-timeline *").count() < 5_000
    page.context.close()
