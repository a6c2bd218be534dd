"""Finding things in a report in Chromium: gaps and steps in the timeline, lines in the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncscope.records import StepRecord

MS = 1_000_000
TIMELINE = "document.getElementById('syncscope-timeline')"


@pytest.fixture
def show(opened):
    def shown(analysis):
        page = opened(analysis)
        page.wait_for_selector("#syncscope-timeline[data-ready]", state="attached")
        return page

    return shown


def view(page):
    return page.evaluate(f"{TIMELINE}.layout.xaxis.range")


def lanes(page):
    return page.locator("#syncscope-timeline .ytick text").all_text_contents()


def test_the_keyboard_goes_on_in_the_chart_once_a_line_is_shown_there(show, analyses):
    page = show(analyses.plausible_analysis(steps=8))
    page.locator("#site-2 > summary").click()
    page.locator("#site-2").get_by_role("button", name="Show in timeline").click()
    assert page.evaluate("document.activeElement.id") == "syncscope-timeline"
    page.keyboard.press("n")
    assert "event 2 of 8" in page.locator("#selection-text").inner_text()
    page.get_by_role("button", name="Next").click()
    assert page.evaluate("document.activeElement.id") == "syncscope-timeline"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('details').id") == "site-2"


def sleeping(analyses, steps=8):
    """Steps of 24 ms in which nothing waits and the host does something else for 20 ms."""
    kernels = [(0, 7, n * 24 * MS, n * 24 * MS + 4 * MS, "kernel", "k", "", "", -1, 1)
               for n in range(steps)]  # fmt: skip
    gaps = [(0, n * 24 * MS + 4 * MS, (n + 1) * 24 * MS, "launch", "") for n in range(steps)]
    marks = [(n, n * 24 * MS, (n + 1) * 24 * MS) for n in range(steps)]
    calls = [(1, 100, 50_000, "", "cudaFree", "allocator", "", -1, True, False)]
    return analyses.make_analysis(activity=kernels, gaps=gaps, steps=marks, calls=calls)


def test_n_finds_the_next_idle_time_in_view(show, analyses):
    page = show(sleeping(analyses))
    before = view(page)
    page.locator("#syncscope-timeline").focus()
    page.keyboard.press("n")
    text = page.locator("#selection-text").inner_text()
    assert text.startswith("idle: the host does other work, 20 ms, at ")
    assert view(page) == before
    page.keyboard.press("n")
    assert page.locator("#selection-text").inner_text() != text


def test_a_click_on_idle_time_that_no_line_causes_tells_what_it_is(show, analyses):
    page = show(sleeping(analyses))
    page.locator("section.timeline").scroll_into_view_if_needed()
    box = page.locator("#syncscope-timeline .nsewdrag").first.bounding_box()
    row = lanes(page).index("GPU idle")
    page.mouse.click(box["x"] + box["width"] * 0.24, box["y"] + 34 * (row + 0.5))
    assert "idle: the host does other work" in page.locator("#selection-text").inner_text()
    assert page.locator("details.site[open]").count() == 0


def test_a_lane_without_anything_in_view_takes_no_room(show, analyses):
    page = show(sleeping(analyses))
    assert lanes(page) == ["GPU idle", "stream 7"]
    page.get_by_role("button", name="Everything").click()
    assert lanes(page) == ["pin_memory", "GPU idle", "stream 7"]


def test_one_step_out_of_everything_is_a_usual_one(show, analyses):
    analysis = sleeping(analyses)
    lengths = [90, 24, 26, 25, 30, 25, 24, 40]
    steps = tuple(
        StepRecord(index=n, start_ns=n * 24 * MS, end_ns=(n + 1) * 24 * MS,
                   length_ns=length * MS, idle_ns=0, blocked_ns=0, h2d_bytes=0, d2h_bytes=0,
                   steady=n > 0, outlier="")
        for n, length in enumerate(lengths)
    )  # fmt: skip
    page = show(replace(analysis, summary=replace(analysis.summary, steps=steps)))
    page.get_by_role("button", name="Everything").click()
    page.get_by_role("button", name="One step").click()
    assert view(page)[0] == pytest.approx(5 * 24, abs=0.5)
    assert view(page)[1] == pytest.approx(6 * 24, abs=0.5)


def test_the_table_sorts_by_verdict_and_says_when_no_line_matches(show, analyses):
    page = show(analyses.plausible_analysis(steps=2))
    page.get_by_role("button", name="Verdict").first.click()
    verdicts = page.locator(".entries").first.locator(".badge").all_inner_texts()
    assert verdicts == sorted(verdicts)  # fix before harmless
    page.get_by_role("button", name="What").first.click()
    causes = page.locator(".entries").first.locator(".what").all_inner_texts()
    assert causes == sorted(causes)
    page.get_by_label("Search").fill("nowhere to be found")
    assert page.locator(".filters output").inner_text() == "No line matches."


def test_on_a_narrow_screen_what_to_change_comes_first(show, analyses):
    page = show(analyses.plausible_analysis(steps=2))
    page.set_viewport_size({"width": 420, "height": 800})
    tops = [page.locator(part).bounding_box()["y"] for part in (".verdict", ".first", ".tiles")]
    assert tops == sorted(tops)
    row = page.locator("#site-2 > summary")
    parts = [row.locator(part).bounding_box() for part in (".where", ".what")]
    assert parts[1]["y"] >= parts[0]["y"] + parts[0]["height"]
    page.set_viewport_size({"width": 1366, "height": 900})
    tops = [page.locator(part).bounding_box()["y"] for part in (".verdict", ".tiles", ".first")]
    assert tops == sorted(tops)
