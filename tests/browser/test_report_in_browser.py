"""The HTML report in Chromium, opened from disk with the network off."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from syncscope.reports.html_report import write_html

BARS = "#syncscope-timeline .barlayer .point path"


def in_view(page, selector):
    """Whether the element's top edge is on the screen."""
    return page.locator(selector).evaluate(
        "e => e.getBoundingClientRect().top >= -1 && e.getBoundingClientRect().top < innerHeight"
    )


def wait_until(page, expression):
    """Like page.wait_for_function, which the report's policy refuses: it evaluates a string."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"still not true: {expression}")


def ranges(page):
    return page.evaluate("document.getElementById('syncscope-timeline').layout.xaxis.range")


@pytest.fixture
def page(opened, analyses):
    """The report of eight plausible steps."""
    return opened(analyses.plausible_analysis(steps=8))


def test_the_verdict_is_the_first_thing_on_the_page(page):
    assert page.title() == "train.py – syncscope"
    assert "3 lines can give back up to 6.2 ms" in page.locator("h1").inner_text()
    assert in_view(page, "h1")


def test_a_row_opens_by_mouse_and_by_keyboard(page):
    site = page.locator("#site-1")
    assert not site.locator(".body").is_visible()
    site.locator("summary").first.click()
    assert site.locator("mark").inner_text() == "loss.item()"
    assert site.locator(".rewrite").inner_text() == "running += loss.detach()"
    page.keyboard.press("Enter")
    assert not site.locator(".body").is_visible()


def test_open_all_leaves_what_is_not_flagged_closed(page):
    page.get_by_role("button", name="Open all").click()
    assert page.locator("#site-6 .body").is_visible()
    assert not page.locator("#site-7 .body").is_visible()
    page.get_by_role("button", name="Close all").click()
    assert page.locator("details.site[open]").count() == 0


def test_the_timeline_draws_all_kinds_in_their_colours(page):
    page.wait_for_selector(BARS)
    assert page.locator(BARS).count() > 50
    colours = set(page.locator(BARS).evaluate_all("es => es.map(e => getComputedStyle(e).fill)"))
    assert len(colours) >= 4
    lanes = page.locator("#syncscope-timeline .ytick text").all_text_contents()
    assert lanes == ["MainThread", "GPU idle", "stream 7", "stream 20"]
    assert "kernel" in page.locator("#legend").inner_text()


def test_a_site_shows_its_occurrences_in_the_timeline(page):
    page.wait_for_selector(BARS)
    page.locator("#site-2 > summary").click()
    page.locator("#site-2").get_by_role("button", name="Show in timeline").click()
    status = page.get_by_role("status")
    assert re.fullmatch(
        r"train\.py:13\s+scores\[keep\]\s+\(event 1 of 8, 1\.52 ms\)", status.inner_text()
    )
    assert in_view(page, "section.timeline")
    before = ranges(page)
    page.get_by_role("button", name="Next").click()
    assert "event 2 of 8" in status.inner_text()
    assert ranges(page)[0] > before[0]
    outlined = page.locator(BARS).evaluate_all(
        "es => es.filter(e => parseFloat(getComputedStyle(e).strokeWidth) > 1).length"
    )
    assert outlined >= 2
    page.get_by_role("button", name="Clear").click()
    assert not status.is_visible()


def test_an_event_of_the_timeline_opens_its_site(page):
    page.wait_for_selector(BARS)
    page.locator("section.timeline").scroll_into_view_if_needed()
    assert not page.locator("#site-3 .body").is_visible()
    # The widest blue bar of the first lane is a blocking upload.
    box = page.locator(BARS).evaluate_all(
        """bars => bars.filter(e => getComputedStyle(e).fill === "rgb(0, 114, 178)")
            .map(e => e.getBoundingClientRect()).sort((a, b) => a.y - b.y || b.width - a.width)
            .filter(r => r.x > 250 && r.right < 1200)
            .map(r => [r.x + r.width / 2, r.y + r.height / 2])[0]"""
    )
    page.mouse.move(box[0], box[1])
    page.wait_for_selector("#syncscope-timeline .hoverlayer .hovertext")
    assert "images.to(device)" in page.locator(".hovertext").text_content()
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#site-3 .body", state="visible")
    assert in_view(page, "#site-3")
    assert page.evaluate("document.activeElement.closest('details').id") == "site-3"


def test_the_timeline_moves_by_buttons_alone(page):
    page.wait_for_selector(BARS)
    start, end = ranges(page)
    page.get_by_role("button", name="Zoom in").focus()
    page.keyboard.press("Enter")
    assert ranges(page)[1] - ranges(page)[0] == pytest.approx((end - start) / 2)
    page.get_by_role("button", name="Later").click()
    assert ranges(page)[0] > start
    page.get_by_role("button", name="One step").click()
    assert ranges(page)[1] - ranges(page)[0] == pytest.approx(24.1 * 1.02, rel=0.01)
    page.get_by_role("button", name="Everything").click()
    assert ranges(page)[0] <= 0 and ranges(page)[1] >= 8 * 24.1  # noqa: PT018


def test_dragging_zooms_and_a_double_click_shows_everything(page):
    page.wait_for_selector(BARS)
    page.locator("section.timeline").scroll_into_view_if_needed()
    start, end = ranges(page)
    box = page.locator("#syncscope-timeline .nsewdrag").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 300, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, middle, steps=4)
    page.mouse.up()
    wait_until(
        page,
        f"document.getElementById('syncscope-timeline').layout.xaxis.range[0] > {start + 1}",
    )
    assert ranges(page)[1] < end
    page.mouse.dblclick(box["x"] + 400, middle)
    wait_until(page, "document.getElementById('syncscope-timeline').layout.xaxis.range[0] <= 0")


def test_a_link_to_a_site_opens_it_even_among_the_unflagged(page):
    page.evaluate("location.hash = 'site-7'")
    page.wait_for_selector("#site-7 .body", state="visible")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_colour_schemes_reach_page_and_timeline(opened, analyses, scheme):
    page = opened(analyses.plausible_analysis(steps=2), scheme)
    page.wait_for_selector(BARS)
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    tick = page.locator("#syncscope-timeline .ytick text").first.evaluate(
        "e => getComputedStyle(e).fill"
    )
    assert (background, tick) == {
        "light": ("rgb(255, 255, 255)", "rgb(89, 99, 110)"),
        "dark": ("rgb(20, 23, 26)", "rgb(152, 162, 173)"),
    }[scheme]


def test_the_scheme_may_change_while_the_report_is_open(page):
    page.wait_for_selector(BARS)
    page.emulate_media(color_scheme="dark")
    wait_until(
        page,
        "getComputedStyle(document.querySelector('#syncscope-timeline .ytick text')).fill"
        " === 'rgb(152, 162, 173)'",
    )


def test_it_prints_with_the_flagged_sites_open(page):
    page.wait_for_selector(BARS)
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#site-1 .body").is_visible()
    assert page.locator("#syncscope-timeline svg").first.bounding_box()["width"] <= 660
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#site-1 .body").is_visible()


def test_nothing_runs_off_the_side_of_narrow_windows(page):
    page.get_by_role("button", name="Open all").click()
    for width in (1366, 1024, 640):
        page.set_viewport_size({"width": width, "height": 800})
        wait_until(page, f"document.documentElement.scrollWidth <= {width}")


def test_without_scripts_everything_but_the_timeline_can_be_read(page, analyses, tmp_path):
    write_html(analyses.plausible_analysis(steps=2), tmp_path / "plain.html")
    context = page.context.browser.new_context(java_script_enabled=False, offline=True)
    plain = context.new_page()
    plain.goto((tmp_path / "plain.html").as_uri())
    plain.locator("#site-1 > summary").click()
    assert plain.locator("#site-1 .rewrite").is_visible()
    context.close()


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>",
        "\"' onmouseover=window.hit=1 autofocus onfocus=window.hit=1 x='",
        '<a href="javascript:window.hit=1">x</a><b>%{x}</b> &lt;i&gt; \x1b[2J\u2028\u202e🎉',
        "w" * 10_000,
    ],
)
def test_hostile_names_are_only_text(opened, analyses, text):
    site = analyses.make_site(
        file=text, function=text, expression=text, cause=text, op=text, library_line=text,
        advice=replace(analyses.make_site().advice, title=text, text=text, rewrite=text),
    )  # fmt: skip
    summary = analyses.make_summary(site, argv=(text,), device=text)
    manifest = analyses.make_manifest(argv=(text,), run_id=text, notes=(text,))
    page = opened(
        analyses.make_analysis(
            summary,
            manifest,
            calls=[(0, 0, 900, "s1", text, "sync", "d2h", 4, True, False)],
            activity=[(0, 7, 0, 1_000, "kernel", text, "", "", -1, 1)],
            steps=[(0, 0, 500), (1, 500, 1_000)],
        )
    )
    page.wait_for_selector(BARS)
    page.get_by_role("button", name="Open all").click()
    page.get_by_role("button", name="Show in timeline").click()
    for bar in page.locator(BARS).all()[:3]:
        bar.hover(force=True)
        page.wait_for_selector("#syncscope-timeline .hoverlayer .hovertext")
    assert page.evaluate("window.hit") is None
    assert page.locator("#syncscope-timeline a, img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1366


def test_an_injected_script_would_be_refused(page, opened):
    """The policy is what holds if escaping ever fails."""
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('div'), {id: 'injected'}));"
        "document.getElementById('injected').setAttribute('onclick', 'window.hit = 1')"
    )
    refused = page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener(
                'securitypolicyviolation', (e) => resolve(e.violatedDirective));
            const script = document.createElement('script');
            script.textContent = 'window.hit = 1';
            document.body.append(script);
        })"""
    )
    assert refused.startswith("script-src")
    assert page.evaluate("window.hit") is None
    assert all("Content Security Policy" in message for message in opened.trouble)
    opened.trouble.clear()


def test_many_short_idle_times_do_not_look_like_one_long_one(opened, analyses):
    """A gap is as opaque as it fills the pixels that it is drawn on."""
    starts = range(0, 9_000 * 100_000, 100_000)
    kernels = [(0, 7, t, t + 95_000, "kernel", "k", "", "", -1, 1) for t in starts]
    gaps = [(0, t + 95_000, t + 100_000, "launch", "") for t in starts[:4_000]]
    page = opened(analyses.make_analysis(activity=kernels, gaps=gaps))
    page.wait_for_selector(BARS)
    opacities = page.locator(BARS).evaluate_all(
        """bars => bars.filter(e => getComputedStyle(e).fill === "rgb(86, 180, 233)")
            .map(e => parseFloat(getComputedStyle(e).opacity))"""
    )
    assert len(opacities) > 50
    assert max(opacities) < 0.3


def test_a_large_recording_opens_and_zooms(opened, analyses):
    page = opened(analyses.plausible_analysis(steps=600, kernels=200))
    page.wait_for_selector(BARS)
    page.get_by_role("button", name="Everything").click()
    assert page.locator(BARS).count() < 8_000
    page.get_by_role("button", name="One step").click()
    assert page.locator(BARS).count() > 5
