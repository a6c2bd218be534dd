"""The HTML report as text: self-contained, stable, and safe whatever names contain."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from syncscope.errors import UsageError
from syncscope.recording.manifest import CollectorStatus, Exit, Thread
from syncscope.records import Advice, Origin, Regime, StackFrame, StepRecord
from syncscope.reports.html_report import render_html, write_html
from syncscope.reports.ranks import rank_charts
from syncscope.reports.step_chart import step_chart
from syncscope.reports.view import report_view

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"' {{ 7 * 7 }} "
    "<!-- ]]> & \x00\x1b[31m\x07\r\n\u2028\u2029\u202e 🎉 \udcff"
)


class Elements(HTMLParser):
    """Collects the start tags of a document and its text outside scripts and styles."""

    def __init__(self):
        super().__init__()
        self.tags = []
        self.text = []
        self._raw = False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._raw = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        if not self._raw:
            self.text.append(data)


def parsed(html):
    elements = Elements()
    elements.feed(html)
    return elements


def without_plotly(html):
    return "".join(
        script
        for script in re.split(r"(?s)(<script>.*?</script>)", html)
        if len(script) < 1_000_000
    )


def timeline_data(html):
    return json.loads(re.search(r'(?s)id="timeline-data">(.*?)</script>', html)[1])


def make_step(index, length_ns=24_100_000, **changes):
    step = StepRecord(
        index=index, start_ns=index * 24_100_000, end_ns=(index + 1) * 24_100_000,
        length_ns=length_ns, idle_ns=length_ns // 4, blocked_ns=1_000, h2d_bytes=2_048, d2h_bytes=4,
        steady=True, outlier="",
    )  # fmt: skip
    return replace(step, **changes)


def hostile_analysis(analyses, text):
    """An analysis in which every text is this one."""
    site = analyses.make_site(
        id=text, file=text, function=text, expression=text, library_line=text, owner=text,
        op=text, kind=text, direction=text, cause=text, verdict=text,
        advice=Advice(text, text, text), stack=(StackFrame(text, 1, text),),
        line=1, end_line=1, column=1, end_column=8, moves_to=text, reason=text,
        origin=Origin(text, 1, 1, 1, 8, text, text),
    )  # fmt: skip
    summary = analyses.make_summary(
        site, replace(site, id="unflagged", flagged=False), argv=(text, text), device=text,
        torch=text, overhead={text: 1.0}, regime=Regime(text, 0.5),
    )  # fmt: skip
    summary = replace(summary, steps=(make_step(0, outlier=text), make_step(1)))
    gpu = replace(summary.gpu[0], idle_by_cause_ns={text: 10})
    manifest = analyses.make_manifest(
        argv=(text, text), run_id=text, versions={text: text}, notes=(text,),
        collectors=(CollectorStatus(text, text, text, 3),), threads=(Thread(0, text),),
        exit=Exit(1, text), overhead={text: 1.0},
    )  # fmt: skip
    return analyses.make_analysis(
        replace(summary, gpu=(gpu,)),
        manifest,
        # Arrow strings, unlike those of manifests and arguments, are always valid Unicode.
        calls=[(0, 5, 10, "", text.replace("\udcff", ""), "sync", "", 4, True, False)],
        activity=[(0, 7, 5, 10, "kernel", text.replace("\udcff", ""), "", "", -1, 1)],
        gaps=[(0, 10, 20, "sync", "")],
        sources={text: text},
    )


@pytest.fixture(scope="module")
def report(analyses):
    return render_html(analyses.plausible_analysis(steps=8))


def test_the_same_analysis_gives_the_same_bytes(analyses, report):
    assert render_html(analyses.plausible_analysis(steps=8)) == report


def test_another_process_gives_the_same_bytes(analyses, report):
    """Nothing may depend on the order of sets, which differs between processes."""
    program = (
        "import hashlib, importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('a', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "sys.modules['a'] = module\n"
        "spec.loader.exec_module(module)\n"
        "from syncscope.reports.html_report import render_html\n"
        "sys.stdout.buffer.write(render_html(module.plausible_analysis(steps=8)).encode())\n"
    )
    command = [sys.executable, "-c", program, analyses.__file__]
    assert subprocess.run(command, capture_output=True, check=True).stdout == report.encode()


def test_plotly_is_embedded_exactly_once(report):
    assert len(re.findall(r"\* plotly\.js v\d", report)) == 1


def test_plotly_is_left_out_when_there_is_nothing_to_draw(analyses):
    html = render_html(analyses.make_analysis())
    assert len(html) < 200_000
    assert "No events were recorded that could be drawn." in html


def test_nothing_is_fetched_from_anywhere(report):
    own = without_plotly(report)
    for tag, attributes in parsed(own).tags:
        assert not {"src", "srcset", "action", "formaction", "poster"} & set(attributes), tag
        assert tag not in ("link", "iframe", "object", "embed", "base", "form"), tag
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"@import|url\(|https?:", own)


def test_the_policy_allows_only_the_scripts_that_are_there(report):
    metas = [a for tag, a in parsed(without_plotly(report)).tags if tag == "meta"]
    policy = next(a["content"] for a in metas if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("'sha256-") == report.count("<script>") == 7
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_there_are_no_inline_handlers(report):
    for _, attributes in parsed(without_plotly(report)).tags:
        assert not [name for name in attributes if name.startswith("on")]


def test_what_the_report_has_to_show_is_there(report):
    text = " ".join("".join(parsed(without_plotly(report)).text).split())
    for expected in (
        "GPU idle 31 % of a 24.1 ms step; 3 lines can give back up to 6.2 ms",
        "upper bound: at most 26 % less",
        "206 of 212 blocking calls, 0 lost",
        "scalar readback",
        "running += loss.detach()",
        "the host waits for the GPU",
        "libnvidia-ml.so.1 was not found",
        "syncscope run train.py --epochs 1",
        "Call stack, innermost first",
        "1 more line waits or copies as it should; not flagged",
        "2025-12-02 00:00:00 UTC",
        "before the first step12 ms stopping them, after the last41 ms windows recorded1",
        "upper bounds",
        "Moved most between host and GPU",
        "1.44 GiB",
    ):
        assert expected in text
    assert "<mark>loss.item()</mark>" in report
    assert '<details class="site" id="site-1"' in report


def test_a_simulated_report_says_estimated_at_every_part(analyses):
    site = analyses.make_site()
    summary = analyses.make_summary(site, simulated=True, device="NVIDIA H200 (shadow)")
    html = render_html(analyses.make_analysis(summary, gaps=[(0, 1, 9, "sync", "s1")]))
    text = " ".join("".join(parsed(without_plotly(html)).text).split())
    for expected in (
        "Estimated on a shadow GPU: GPU idle", "Step time (estimated)", "step, estimated",
        "Gaina step, est.", "Timeline (estimated)", "shadow GPU, modelled on NVIDIA H200 ·",
        "--device shadow",
    ):  # fmt: skip
        assert expected in text
    assert timeline_data(html)["simulated"] is True


@pytest.mark.parametrize("text", [HOSTILE, "x" * 10_000, "", " ", "🎉" * 3_000, "%{x}<b>$&"])
def test_hostile_texts_become_no_elements(analyses, text):
    html = render_html(hostile_analysis(analyses, text))
    html.encode("utf-8")
    harmless = render_html(hostile_analysis(analyses, "plain text"))
    found, expected = ({tag for tag, _ in parsed(without_plotly(h)).tags} for h in (html, harmless))
    assert found <= expected
    assert html.count("<script") == harmless.count("<script")
    assert html.count("</script") == harmless.count("</script")
    assert len(without_plotly(html)) < 200_000
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202e]", without_plotly(html))
    assert ("{{ 7 * 7 }}" in html) == ("{{" in text)
    timeline_data(html)


def test_thousands_of_sites_stay_readable(analyses):
    sites = [analyses.make_site(id=f"s{n}", line=20) for n in range(3_000)]
    html = render_html(analyses.make_analysis(analyses.make_summary(*sites)))
    assert html.count('<details class="site"') == 400
    assert "2600 more flagged lines are in summary.json." in html
    assert len(html) < 3_000_000


def plain(html):
    return " ".join("".join(parsed(without_plotly(html)).text).split())


def test_a_rewrite_to_make_first_stands_before_the_table(analyses):
    html = without_plotly(render_html(analyses.plausible_analysis(steps=2)))
    text = plain(html)
    assert text.index("Change this first train.py:20, gives back up to 3.1 ms") < text.index(
        "running += loss.detach()"
    )
    assert text.index("running += loss.detach()") < text.index("Lines that wait or copy")
    harmless = analyses.make_summary(analyses.make_site(verdict="harmless"))
    assert "Change this first" not in render_html(analyses.make_analysis(harmless))


def test_a_site_says_where_its_wait_moves_and_where_its_tensor_was_made(analyses):
    site = analyses.make_site(
        moves_to="s2", reason="logged", origin=Origin("data.py", 7, 7, 1, 9, "f", "np.ones(9)")
    )
    other = analyses.make_site(id="s2", line=16, end_line=16, expression="norm > 100")
    text = plain(render_html(analyses.make_analysis(analyses.make_summary(site, other))))
    assert "Made on the host at data.py:7: np.ones(9)" in text
    assert "Without it the host waits at train.py:16: norm > 100" in text
    assert "Allowed by the program: logged" in text


def test_several_library_lines_of_one_call_name_each_other(analyses):
    lines = ("torch/a.py:1", "torch/b.py:2")
    sites = [analyses.make_site(id=line, library_line=line) for line in lines]
    html = render_html(analyses.make_analysis(analyses.make_summary(*sites)))
    assert 'Also in this call: <a href="#site-2">scalar readback at torch/b.py:2</a>' in html
    assert 'Also in this call: <a href="#site-1">scalar readback at torch/a.py:1</a>' in html


def test_no_time_that_was_measured_is_shown_as_zero(analyses):
    costs = {"blocked_ns": 40 * 175, "exposed_idle_ns": 40 * 2_000, "savings_ns_per_step": 0}
    site = analyses.make_site(verdict="harmless", **costs)
    analysis = analyses.make_analysis(analyses.make_summary(site))
    row = report_view(analysis).flagged[0]
    assert (row.blocked, row.idle, row.gain_time) == ("175 ns", "2 µs", "0")
    html = render_html(analysis)
    assert '<span class="number">175 ns</span>' in " ".join(html.split()).replace("> ", ">")
    assert 'data-by-blocked="175" data-by-idle="2000"' in html


@pytest.mark.parametrize(
    ("count", "steps", "shown"),
    [(38, 40, "1"), (40, 40, "1"), (440, 40, "11"), (100, 40, "2.5"), (1, 6, "1 in all"),
     (36, 40, "0.9")],
)  # fmt: skip
def test_a_step_cut_by_the_edge_makes_no_odd_rate(analyses, count, steps, shown):
    site = analyses.make_site(count=count, per_step=count / steps)
    row = report_view(analyses.make_analysis(analyses.make_summary(site, steps=steps))).flagged[0]
    assert row.per_step == shown


@pytest.mark.parametrize(
    ("argv", "command", "program", "expected"),
    [
        (("-m", "pkg.train", "--lr", "1"), (), "-m pkg.train", "syncscope run -m pkg.train --lr 1"),
        (
            ("-m", "pkg.train"),
            ("/usr/bin/python3", "/env/bin/syncscope", "run", "--warmup", "3", "-m", "pkg.train"),
            "-m pkg.train",
            "syncscope run --warmup 3 -m pkg.train",
        ),
        (
            ("/home/me/pkg/train.py",),
            ("/usr/bin/python3", "-m", "pkg.train"),
            "/home/me/pkg/train.py",
            "python3 -m pkg.train",
        ),
        (
            ("a b.py",),
            ("python", "-m", "syncscope", "run", "a b.py"),
            "a b.py",
            "syncscope run 'a b.py'",
        ),
    ],
)
def test_the_command_to_record_it_again_is_the_one_that_was_typed(
    analyses, argv, command, program, expected
):
    manifest = analyses.make_manifest(argv=argv, command=command)
    view = report_view(
        analyses.make_analysis(analyses.make_summary(analyses.make_site(), argv=argv), manifest)
    )
    assert (view.program, view.recorded.command) == (program, expected)


def test_a_shadow_gpu_lists_no_collector_that_it_does_not_need(analyses):
    manifest = analyses.make_manifest(
        simulated=True,
        collectors=(
            CollectorStatus("activity", "off", "the GPU is simulated"),
            CollectorStatus("shadow", "on"),
            CollectorStatus("steps", "off", "not wanted"),
        ),
    )
    summary = analyses.make_summary(analyses.make_site(), simulated=True)
    recorded = report_view(analyses.make_analysis(summary, manifest)).recorded
    assert [row.name for row in recorded.collectors] == ["shadow GPU", "steps"]
    assert recorded.not_needed == "GPU activity"


def test_long_steps_are_marked_and_explained(analyses):
    steps = [
        make_step(0, 500_000_000, steady=False),
        *(make_step(index) for index in range(1, 9)),
        make_step(9, 60_000_000, outlier="60 ms: the garbage collector took 30 ms"),
    ]
    summary = analyses.make_summary(analyses.make_site(), steps=10)
    html = render_html(analyses.make_analysis(replace(summary, steps=tuple(steps))))
    chart = step_chart(replace(summary, steps=tuple(steps)))
    assert chart.top == "75 ms"
    assert [column.cut for column in chart.columns] == [True] + [False] * 9
    assert all(column.busy + column.idle <= 1 for column in chart.columns)
    assert [column.steady for column in chart.columns].count(False) == 1
    assert "Step 9</button> <span>60 ms: the garbage collector took 30 ms" in html
    assert "9 steady steps: median 24.1 ms" in chart.summary


def test_thousands_of_steps_share_columns_and_no_long_one_is_lost(analyses):
    steps = [make_step(index) for index in range(5_000)]
    steps[1_234] = make_step(1_234, outlier="why")
    chart = step_chart(replace(analyses.make_summary(), steps=tuple(steps)))
    assert len(chart.columns) <= 200
    assert [column.index for column in chart.columns if column.outlier] == [1_234]


def test_ranks_are_drawn_on_one_scale(analyses):
    def rank(length_ns):
        steps = tuple(make_step(index, length_ns) for index in range(4))
        summary = analyses.make_summary(analyses.make_site(), step_ns=length_ns)
        return replace(summary, steps=steps)

    charts = rank_charts({1: rank(30_000_000), 0: rank(20_000_000)})
    assert [(chart.rank, chart.step, chart.idle, chart.slowest) for chart in charts] == [
        (0, "20 ms", "31 %", False), (1, "30 ms", "31 %", True),
    ]  # fmt: skip
    assert charts[0].chart.top == charts[1].chart.top == "37.5 ms"
    assert rank_charts({}) == ()


def test_what_moves_next_to_nothing_is_not_listed(analyses):
    large = analyses.make_site(id="large", size_bytes=40 << 20, direction="h2d", pageable=True)
    summary = analyses.make_summary(analyses.make_site(), large)
    (moved,) = report_view(analyses.make_analysis(summary)).moved
    assert (moved.bytes_, moved.each, moved.direction, moved.memory) == (
        "1 MiB", "1 MiB", "host → GPU", "pageable",
    )  # fmt: skip


def test_a_trace_offers_no_command_to_record_it_again(analyses):
    summary = analyses.make_summary(analyses.make_site(), imported=True)
    html = render_html(analyses.make_analysis(summary))
    assert "Record it again" not in html
    assert "not known: imported trace" in html


def test_the_file_on_disk_is_the_rendered_text(analyses, tmp_path):
    write_html(analyses.make_analysis(), tmp_path / "report.html")
    written = (tmp_path / "report.html").read_bytes().decode("utf-8")
    assert written == render_html(analyses.make_analysis())


def test_a_report_that_cannot_be_written_is_a_clear_error(analyses, tmp_path):
    with pytest.raises(UsageError, match=r"cannot be written to .*missing.*No such file"):
        write_html(analyses.make_analysis(), tmp_path / "missing" / "report.html")


def test_text_and_json_reports_do_not_load_plotly():
    program = (
        "import sys, syncscope.reports.text_report, syncscope.reports.json_report\n"
        "sys.exit('plotly' in sys.modules or 'jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
