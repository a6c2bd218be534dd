"""The HTML report in Chromium, opened from disk with the network off."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from syncscope.records import StepRecord
from syncscope.reports.html_report import write_html

READY = "#syncscope-timeline[data-ready]"
FILLS = "#syncscope-timeline .scatterlayer path.js-fill"


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


def ready(page):
    """The timeline is decoded and drawn after the page has loaded."""
    page.wait_for_selector(READY, state="attached")
    return page


def colours(page):
    return set(page.locator(FILLS).evaluate_all("es => es.map(e => getComputedStyle(e).fill)"))


def point_at(page, lane, ms):
    """Move the mouse to a time in the lane of this name; waits for what is said about it."""
    page.locator("#syncscope-timeline").scroll_into_view_if_needed()
    x, y = page.evaluate(
        """([name, ms]) => {
            const e = document.getElementById('syncscope-timeline');
            const { margin, xaxis, width } = e._fullLayout;
            const names = Array.from(e.querySelectorAll('.ytick text'), (t) => t.textContent);
            const box = e.getBoundingClientRect();
            const share = (ms - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0]);
            return [box.left + margin.l + share * (width - margin.l - margin.r),
                    box.top + margin.t + 34 * (names.indexOf(name) + 0.5)];
        }""",
        [lane, ms],
    )
    page.mouse.move(x, y)
    page.wait_for_selector("#timeline-tip", state="visible")
    return page.locator("#timeline-tip").inner_text()


def ranges(page):
    return page.evaluate("document.getElementById('syncscope-timeline').layout.xaxis.range")


@pytest.fixture
def page(opened, analyses):
    """The report of eight plausible steps."""
    return ready(opened(analyses.plausible_analysis(steps=8)))


def test_the_verdict_is_the_first_thing_on_the_page(page):
    assert page.title() == "train.py – syncscope"
    assert "3 lines can give back up to 6.2 ms" in page.locator("h1").inner_text()
    assert in_view(page, "h1")


def test_a_row_opens_by_mouse_and_by_keyboard(page):
    site = page.locator("#site-1")
    assert not site.locator(".body").is_visible()
    site.locator("summary").first.click()
    assert site.locator("mark").inner_text() == "loss.item()"
    assert site.locator(".rewrite pre").inner_text() == "running += loss.detach()"
    page.keyboard.press("Enter")
    assert not site.locator(".body").is_visible()


def test_open_all_leaves_what_is_not_flagged_closed(page):
    page.get_by_role("button", name="Open all").click()
    assert page.locator("#site-6 .body").is_visible()
    assert not page.locator("#site-7 .body").is_visible()
    page.get_by_role("button", name="Close all").click()
    assert page.locator("details.site[open]").count() == 0


def test_the_timeline_draws_all_kinds_in_their_colours(page):
    assert {"rgb(213, 94, 0)", "rgb(0, 114, 178)", "rgb(102, 114, 127)"} <= colours(page)
    lanes = page.locator("#syncscope-timeline .ytick text").all_text_contents()
    assert lanes == ["MainThread", "GPU idle", "copies to GPU", "stream 7", "stream 20"]
    assert "kernel" in page.locator("#legend").inner_text()
    assert page.locator("#syncscope-timeline .annotation-arrow-g").count() > 5


def test_a_site_shows_its_occurrences_in_the_timeline(page):
    page.locator("#site-2 > summary").click()
    page.locator("#site-2").get_by_role("button", name="Show in timeline").click()
    status = page.locator("#selection-text")
    assert re.fullmatch(
        r"train\.py:13\s+scores\[keep\]\s+\(event 1 of 8, 1\.52 ms\)", status.inner_text()
    )
    assert in_view(page, "section.timeline")
    before = ranges(page)
    page.get_by_role("button", name="Next").click()
    assert "event 2 of 8" in status.inner_text()
    assert ranges(page)[0] > before[0]
    outlined = page.locator("#syncscope-timeline .scatterlayer path.js-line").evaluate_all(
        "es => es.filter(e => parseFloat(getComputedStyle(e).strokeWidth) > 1.2).length"
    )
    assert outlined >= 2
    page.get_by_role("button", name="Clear").click()
    assert not status.is_visible()


def test_an_event_of_the_timeline_opens_its_site(page):
    assert not page.locator("#site-3 .body").is_visible()
    told = point_at(page, "MainThread", 4 * 24.1 + 2)
    assert told.splitlines()[:2] == ["images.to(device)", "train.py:8"]
    assert "copy between host and GPU, 4.5 ms" in told
    page.mouse.down()
    page.mouse.up()
    page.wait_for_selector("#site-3 .body", state="visible")
    assert in_view(page, "#site-3")
    assert page.evaluate("document.activeElement.closest('details').id") == "site-3"


def test_a_gap_names_the_line_that_caused_it_and_a_kernel_its_name(page):
    assert "idle: host waits for the GPU" in point_at(page, "GPU idle", 4 * 24.1 + 10)
    assert point_at(page, "GPU idle", 4 * 24.1 + 10).startswith("scores[keep]")
    assert point_at(page, "stream 7", 4 * 24.1 + 15).splitlines()[1].startswith("kernel, ")


def test_the_keyboard_walks_from_event_to_event_and_opens_its_line(page):
    page.locator("#syncscope-timeline").focus()
    page.keyboard.press("n")
    first = page.locator("#selection-text").inner_text()
    page.keyboard.press("n")
    second = page.locator("#selection-text").inner_text()
    assert "train.py:" in first
    assert first != second
    page.keyboard.press("p")
    assert page.locator("#selection-text").inner_text() == first
    page.keyboard.press("Enter")
    opened = page.evaluate("document.activeElement.closest('details').id")
    location = page.locator(f"#{opened} .place").inner_text().split(" in ")[0]
    assert location in first
    page.locator("#syncscope-timeline").focus()
    start, end = ranges(page)
    page.keyboard.press("+")
    assert ranges(page)[1] - ranges(page)[0] == pytest.approx((end - start) / 2)
    page.keyboard.press("Home")
    assert ranges(page)[0] <= 0
    page.keyboard.press("Escape")
    assert not page.locator(".selection").is_visible()


def test_the_timeline_moves_by_buttons_alone(page):
    ready(page)
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
    ready(page)
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
    ready(page)
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    tick = page.locator("#syncscope-timeline .ytick text").first.evaluate(
        "e => getComputedStyle(e).fill"
    )
    assert (background, tick) == {
        "light": ("rgb(255, 255, 255)", "rgb(89, 99, 110)"),
        "dark": ("rgb(20, 23, 26)", "rgb(152, 162, 173)"),
    }[scheme]


def test_the_scheme_may_change_while_the_report_is_open(page):
    ready(page)
    page.emulate_media(color_scheme="dark")
    wait_until(
        page,
        "getComputedStyle(document.querySelector('#syncscope-timeline .ytick text')).fill"
        " === 'rgb(152, 162, 173)'",
    )


def test_it_prints_with_everything_open(page):
    assert page.pdf(format="A4").startswith(b"%PDF-")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    for shown in ("#site-1 .body", "#site-7 .body", "#site-1 .stack li", ".words dt"):
        assert page.locator(shown).first.is_visible(), shown
    assert page.locator("#syncscope-timeline svg").first.bounding_box()["width"] <= 660
    assert not page.locator(".filters").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("#site-1 .body").is_visible()


def test_the_pdf_is_complete(page):
    """The browser fires the events of printing itself."""
    pages = len(re.findall(rb"/Type /Page\b", page.pdf(format="A4")))
    assert pages >= 7  # without what is closed it would take three
    assert page.locator("details.site[open]").count() == 0


def test_nothing_runs_off_the_side_of_narrow_windows(page):
    page.get_by_role("button", name="Open all").click()
    for width in (1366, 1024, 640, 420):
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
    ready(page)
    page.get_by_role("button", name="Open all").click()
    page.get_by_role("button", name="Show in timeline").click()
    page.get_by_role("button", name="Everything").click()
    for lane in page.locator("#syncscope-timeline .ytick text").all_text_contents():
        point_at(page, lane, 0.0004)
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


def heights(page, colour):
    """Of the filled paths of this colour in the timeline, in pixels."""
    return page.locator(FILLS).evaluate_all(
        """(paths, colour) => paths.filter((e) => getComputedStyle(e).fill === colour)
            .map((e) => e.getBoundingClientRect().height)""",
        colour,
    )


def test_many_short_idle_times_do_not_look_like_one_long_one(opened, analyses):
    """Where events cannot be told apart, the height is the share of time that they fill."""
    starts = range(0, 9_000 * 100_000, 100_000)
    kernels = [(0, 7, t, t + 95_000, "kernel", "k", "", "", -1, 1) for t in starts]
    gaps = [(0, t + 95_000, t + 100_000, "launch", "") for t in starts]
    page = ready(opened(analyses.make_analysis(activity=kernels, gaps=gaps)))
    (idle,), (busy,) = heights(page, "rgb(86, 180, 233)"), heights(page, "rgb(102, 114, 127)")
    assert idle < 3
    assert busy > 15
    assert "slow launches: 5 %" in point_at(page, "GPU idle", 450)


@pytest.fixture
def table(page):
    def rows():
        return [
            row.get_attribute("id")
            for row in page.locator(".entries").first.locator("details.site").all()
            if row.is_visible()
        ]

    return rows


def test_the_table_sorts_by_click_and_by_keyboard(page, table):
    assert table() == [f"site-{n}" for n in range(1, 7)]
    blocked = page.get_by_role("button", name="Host blocked").first

    def shown():
        return [page.locator(f"#{row} .number").nth(1).inner_text() for row in table()]

    falling = ["4.5 ms", "2.2 ms", "1.52 ms", "225 µs", "50 µs", "25 µs"]
    blocked.click()
    assert shown() == falling  # by the time, whatever its unit
    assert blocked.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Enter")
    assert shown() == falling[::-1]
    page.get_by_role("button", name="Line and expression").first.click()
    places = [page.locator(f"#{row} .place").inner_text() for row in table()]
    assert places[0].startswith("loop/amp.py:88")
    assert places[1].startswith("train.py:8 ")


def test_the_table_narrows_down(page, table):
    page.get_by_label("Verdict").select_option("fix")
    assert table() == ["site-1", "site-2", "site-3"]
    page.get_by_label("Cause").select_option("pageable batch")
    assert table() == ["site-3"]
    assert page.locator(".filters output").inner_text() == "1 of 7 lines"
    page.get_by_label("Verdict").select_option("")
    page.get_by_label("Cause").select_option("")
    page.get_by_label("File").select_option("loop/amp.py")
    assert len(table()) == 1
    page.get_by_label("File").select_option("")
    page.get_by_label("Search").fill("LOSS.detach")
    assert table() == ["site-1"]
    page.get_by_label("Search").fill("pinned upload")
    assert table() == []
    assert page.locator("#site-7").is_visible()  # among those that are not flagged


def test_a_rewrite_can_be_copied(page):
    page.locator(".first .copy").click()
    assert page.locator(".first .copy").inner_text() == "Copied"
    search = page.get_by_label("Search")
    search.focus()
    page.keyboard.press("Control+V")
    assert search.input_value() == "running += loss.detach()"


def test_links_between_sites_open_them(opened, analyses):
    site = analyses.make_site(moves_to="s2")
    other = analyses.make_site(
        id="s2", line=16, end_line=16, size_bytes=1 << 30, savings_ns_per_step=1_000_000
    )
    page = opened(analyses.make_analysis(analyses.make_summary(site, other)))
    for link in ("#site-1 .right a", "a[href='#site-2']", ".moved a"):
        page.get_by_role("button", name="Close all").click()
        page.locator("#site-1 > summary").click()
        page.locator(link).first.click()
        assert page.evaluate("document.activeElement.closest('details').id") == "site-2"
        assert page.locator("#site-2 .body").is_visible()


def test_a_step_of_the_chart_is_shown_in_the_timeline(opened, analyses):
    analysis = analyses.plausible_analysis(steps=8)
    steps = tuple(
        StepRecord(n, n * 24_100_000, (n + 1) * 24_100_000, 24_100_000, 7_000_000, 9_000_000, 0, 0,
                   n > 1, "it waited" if n == 5 else "")
        for n in range(8)
    )  # fmt: skip
    page = ready(opened(replace(analysis, summary=replace(analysis.summary, steps=steps))))
    page.get_by_role("button", name="Step 5").click()
    wait_until(page, "document.querySelector('.timeline').getBoundingClientRect().top < 200")
    assert ranges(page)[0] == pytest.approx(5 * 24.1, abs=0.5)
    assert ranges(page)[1] == pytest.approx(6 * 24.1, abs=0.5)
    page.locator(".steps > i").nth(2).click()
    assert ranges(page)[0] == pytest.approx(2 * 24.1, abs=0.5)


def test_the_order_of_focus_is_the_order_of_the_page(page):
    page.evaluate("document.activeElement.blur()")
    sections = []
    for _ in range(60):
        page.keyboard.press("Tab")
        sections.append(
            page.evaluate(
                "document.activeElement.closest('section')?.getAttribute('aria-labelledby')"
            )
        )
    passed = [
        section
        for section, before in zip(sections, ["", *sections], strict=False)
        if section != before
    ]
    assert passed[:5] == ["first", "sites", "timeline", "moved", "recorded"]
