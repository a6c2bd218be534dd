"""The card of a run in a notebook: short, self-contained, and harmless to its page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from syncscope.errors import RecordingError
from syncscope.reports.notebook_card import card_html, error_html

VOID = {"br", "hr", "img"}


class Page(HTMLParser):
    """Collects tags and text, and checks that every element is closed in order."""

    def __init__(self, content):
        super().__init__()
        self.open, self.tags, self.links, self.text = [], set(), [], ""
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        assert not [name for name, _ in attributes if name.startswith("on") or name == "id"]
        self.links += [value for name, value in attributes if name in ("href", "src")]
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_card_says_the_verdict_and_the_first_sites(analyses):
    page = Page(card_html(analyses.plausible_analysis(steps=2), None))
    for expected in (
        "3 lines can give back up to 6.2 ms",
        "train.py:20",
        "loss.item()",
        "fix, up to 3.1 ms a step",
        "running += loss.detach()",
        "1 more flagged",
        "run.report() writes the full report.",
    ):
        assert expected in page.text


def test_it_links_to_the_report_from_where_the_notebook_is(analyses, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    page = Page(card_html(analyses.make_analysis(), tmp_path / "a b" / "report.html"))
    assert page.links == ["a%20b/report.html"]


@pytest.mark.parametrize("name", ['</div></table><script>alert(1)</script>"', "\x1b[2J", "\ud800"])
def test_no_name_can_leave_the_card(analyses, name):
    site = analyses.make_site(file=name, expression=name, verdict=name, cause=name)
    summary = analyses.make_summary(site, argv=(name,), torch=name, device=name)
    content = card_html(analyses.make_analysis(summary), Path(name))
    page = Page(content)
    assert not page.tags & {"script", "style", "link", "iframe", "img"}
    assert "\x1b" not in content
    content.encode()


def test_a_run_without_a_gpu_is_told_what_to_do(analyses):
    summary = analyses.make_summary(gpu=(), device="")
    text = Page(card_html(analyses.make_analysis(summary), None)).text
    assert "never used the GPU" in text
    assert "Move the model" in text


def test_an_error_is_text():
    assert "&lt;b&gt;" in error_html(RecordingError("<b>"))
