"""The terminal report: carets, widths, encodings, hostile names."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from syncscope.recording.manifest import CollectorStatus
from syncscope.records import Coverage, Origin
from syncscope.reports.site_filter import SiteFilter
from syncscope.reports.text_report import print_short_summary, print_text, render_text


def carets_of(text):
    """(code line, caret line) of each marked line, without gutters."""
    lines = text.split("\n")
    return [
        (lines[i].split("│ ", 1)[1], line.split("│ ", 1)[1])
        for i, line in enumerate(lines[1:])
        if line.strip(" │^") == "" and "^" in line
    ]


def short(analysis, **options):
    console = Console(file=io.StringIO(), **options)
    print_short_summary(analysis, console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_carets_stand_under_the_expression_at_any_width(analyses, width):
    source = "\n" * 19 + "\t\ttotal = " + "名前 + " * 20 + "loss.item() + " + "x + " * 20
    column = source.split("\n")[19].index("loss") + 1
    site = analyses.make_site(column=column, end_column=column + 11)
    text = render_text(
        analyses.make_analysis(analyses.make_summary(site), sources={"train.py": source}),
        width=width,
    )
    [(code, carets)] = carets_of(text)
    before = code[: code.index("loss.item()")]
    assert cell_len(before) == carets.index("^")
    assert carets.count("^") == len("loss.item()")
    assert cell_len(code) <= width


def test_every_line_of_an_expression_is_underlined_up_to_three(analyses):
    source = "f(\n  a,\n  b,\n  c,\n)"
    site = analyses.make_site(line=1, end_line=5, column=1, end_column=2)
    text = render_text(
        analyses.make_analysis(analyses.make_summary(site), sources={"train.py": source})
    )
    assert [carets.strip() for _, carets in carets_of(text)] == ["^^", "^^", "^^"]
    assert "│ …" in text


def test_without_source_the_expression_stands_alone(analyses):
    text = render_text(analyses.make_analysis(sources={}))
    assert "loss.item()" in text
    assert "^" not in text


def test_the_report_says_what_where_how_much_and_what_to_do(analyses):
    text = render_text(analyses.plausible_analysis())
    for expected in (
        "3 lines can give back up to 6.2 ms",
        "train.py:20 in train  fix, up to 3.1 ms a step",
        "once a step; per step the host waits 2.2 ms, the GPU idles 3.1 ms for it",
        "38 waits in all; per step",
        "→ Accumulate on the GPU, read once",
        "        running += loss.detach()",
        "inside a library, at torch/amp/grad_scaler.py:512",
        "! Not recorded: NVML failed",
        "Charged to a line: 97 % (206 of 212 blocking calls, 0 lost)",
        "Not recorded by dispatcher: not asked for: --detail lines",
        "Not recorded by NVML: libnvidia-ml.so.1 was not found",
    ):
        assert expected in text


def test_only_the_top_sites_are_shown_and_the_rest_is_counted(analyses):
    sites = [analyses.make_site(id=f"s{n}", line=n + 1, end_line=n + 1) for n in range(14)]
    analysis = analyses.make_analysis(analyses.make_summary(*sites))
    text = render_text(analysis)
    assert text.count("fix, up to") == 10
    assert "4 more flagged lines not shown: --top N shows N of them." in text
    text = render_text(analysis, SiteFilter(top=14, flagged_only=True))
    assert text.count("fix, up to") == 14
    assert "not shown" not in text


def test_unsafe_sites_come_first_though_they_cost_nothing(analyses):
    race = analyses.make_site(id="r", line=3, verdict="unsafe", kind="race", exposed_idle_ns=0)
    text = render_text(analyses.make_analysis(analyses.make_summary(analyses.make_site(), race)))
    assert " 1. train.py:3" in text


def test_lines_to_fix_come_before_harmless_ones_with_more_idle_time(analyses):
    harmless = analyses.make_site(id="h", line=5, verdict="harmless", savings_ns_per_step=0)
    copy = analyses.make_site(id="c", line=9, exposed_idle_ns=0, savings_ns_per_step=500_000)
    text = short(analyses.make_analysis(analyses.make_summary(harmless, copy)), width=100)
    assert "train.py:9" in text
    text = render_text(analyses.make_analysis(analyses.make_summary(harmless, copy)))
    assert text.index("train.py:9") < text.index("train.py:5")


def test_nothing_flagged_is_said(analyses):
    text = render_text(analyses.make_analysis(analyses.make_summary()))
    assert "No line was flagged." in text


def test_names_are_neither_markup_nor_terminal_commands(analyses):
    name = "[bold red]x[/]\x1b[2J\x07\r\n:smile:.py"
    site = analyses.make_site(file=name, function=name, expression=name, op=name)
    text = render_text(
        analyses.make_analysis(analyses.make_summary(site, argv=(name,)), sources={name: name})
    )
    assert r" 1. [bold red]x[/]\x1b[2J\x07\r\n:smile:.py:20" in text
    assert not set(text) & {"\x1b", "\x07", "\r"}


def test_colours_are_only_there_when_asked_for(analyses):
    analysis = analyses.plausible_analysis(steps=2)
    assert "\x1b[" not in render_text(analysis)
    assert "\x1b[" in render_text(analysis, color=True)


def test_no_line_ends_in_spaces(analyses):
    text = render_text(analyses.plausible_analysis(steps=2))
    assert not [line for line in text.split("\n") if line.endswith(" ")]


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_any_encoding_of_the_output_will_do(analyses, encoding):
    output = io.BytesIO()
    console = Console(file=io.TextIOWrapper(output, encoding=encoding), width=80)
    site = analyses.make_site(file="名/é.py", expression="名.item()")
    print_text(analyses.make_analysis(analyses.make_summary(site)), console)
    console.file.flush()
    assert output.getvalue().decode(encoding)


def test_the_short_summary_is_the_verdict_and_three_lines(analyses):
    text = short(analyses.plausible_analysis(), width=120)
    assert text.split("\n") == [
        "GPU idle 31 % of a 24.1 ms step; 3 lines can give back up to 6.2 ms; "
        "3 more syncs are harmless.",
        "  train.py:20  loss.item()  up to 3.1 ms a step",
        "  train.py:13  scores[keep]  up to 1.65 ms a step",
        "  train.py:8  images.to(device)  up to 1.45 ms a step",
        "",
    ]


def test_the_short_summary_says_why_no_gpu_activity_was_recorded(analyses):
    failed = CollectorStatus("activity", "failed", "another tool holds it")
    manifest = analyses.make_manifest(collectors=(failed,), notes=("Recorded 10 s.",))
    seen = analyses.make_summary(analyses.make_site())
    blind = replace(seen, gpu=())
    lines = {"! Not recorded: activity failed (another tool holds it).", "· Recorded 10 s."}
    assert lines <= set(short(analyses.make_analysis(blind, manifest), width=120).split("\n"))
    told = short(analyses.make_analysis(seen, manifest), width=120)
    assert "· Recorded 10 s." in told
    assert "Not recorded" not in told


def test_the_short_summary_of_a_clean_run_is_one_line(analyses):
    summary = analyses.with_idle(analyses.make_summary(), 0.01, "sync")
    assert short(analyses.make_analysis(summary), width=120).count("\n") == 1


@pytest.mark.parametrize("width", [40, 60, 100])
def test_prose_and_bars_stay_within_the_page(analyses, width):
    """Only what is copied, code and locations, may be wider."""
    text = render_text(analyses.plausible_analysis(), width=width)
    free = ("train.py", "loop/amp.py", "        ")
    for line in text.split("\n"):
        if not any(part in line for part in free):
            assert cell_len(line) <= width, line


def test_bars_are_as_long_as_their_share(analyses):
    bars = [line.count("█") for line in render_text(analyses.plausible_analysis()).split("\n")]
    assert [bar for bar in bars if bar] == [22, 9, 6, 2, 1]


def listed(analysis, **conditions):
    """Locations of the sites in the report."""
    text = render_text(analysis, SiteFilter(**conditions))
    return [line.split()[1] for line in text.split("\n") if line[:4].strip().endswith(".")]


def test_sites_are_chosen_by_owner_cause_and_file(analyses):
    library = analyses.make_site(id="l", file="a/b/c.py", owner="library", cause="mask_read")
    other = analyses.make_site(id="o", file="d.py", flagged=False, verdict="harmless")
    analysis = analyses.make_analysis(analyses.make_summary(analyses.make_site(), library, other))
    assert listed(analysis, owner="library") == ["a/b/c.py:20"]
    assert listed(analysis, cause="scalar_readback") == ["train.py:20", "d.py:20"]
    assert listed(analysis, file="c.py") == listed(analysis, file="a/*") == ["a/b/c.py:20"]
    assert listed(analysis, file="b/*") == []
    assert "d.py:20" not in listed(analysis, flagged_only=True)
    assert len(listed(analysis, top=1)) == 1


def test_what_was_left_out_is_counted(analyses):
    analysis = analyses.plausible_analysis()
    text = render_text(analysis)
    assert "Not flagged: 1 more line recorded; --all shows them." in text
    nothing = render_text(analysis, SiteFilter(owner="torch", flagged_only=True))
    assert "No flagged line for --owner torch." in nothing


def test_it_is_said_where_a_value_was_made_and_where_the_wait_moves(analyses):
    origin = Origin("data.py", 7, 7, 5, 19, "make", "torch.zeros(4)")
    site = analyses.make_site(origin=origin, moves_to="b", reason="once an epoch")
    other = analyses.make_site(id="b", file="late.py", line=3, end_line=3)
    text = render_text(analyses.make_analysis(analyses.make_summary(site, other)))
    assert "moves what was made at data.py:7: torch.zeros(4)" in text
    assert "without it, the host waits at late.py:3 instead" in text
    assert "allowed: once an epoch" in text


def test_a_program_that_never_used_the_gpu_is_told_what_to_do(analyses):
    summary = analyses.make_summary(gpu=(), device="", coverage=Coverage(0, 0, 0, 0))
    for text in (
        render_text(analyses.make_analysis(summary)),
        short(analyses.make_analysis(summary), width=100),
    ):
        assert "The program never used the GPU: there was nothing to wait for." in text
        assert 'Move the model and its input to the device with .to("cuda").' in text
        assert "No line was flagged" not in text


def test_collectors_that_a_shadow_gpu_stands_for_are_not_reported_missing(analyses):
    simulated = replace(
        analyses.plausible_analysis(), summary=analyses.make_summary(analyses.make_site(),
                                                                     simulated=True)
    )  # fmt: skip
    assert "Not recorded by" not in render_text(simulated)


def test_the_short_summary_passes_on_what_the_recording_notes(analyses):
    manifest = analyses.make_manifest(notes=("20 steps were asked for; 5 were made",))
    text = short(analyses.make_analysis(manifest=manifest), width=100)
    assert "20 steps were asked for; 5 were made" in text


@pytest.mark.parametrize(
    ("changes", "run", "expected"),
    [
        ({"per_step": 11.0, "count": 440}, {}, "11 waits a step; per step the host waits"),
        (
            {"per_step": 1.0},
            {},
            "once a step; per step the host waits 2.2 ms, the GPU idles 3.1 ms",
        ),
        ({"per_step": 0.95, "count": 38}, {}, "38 waits in all; per step the host waits"),
        ({"count": 1}, {"steps": 1}, "once in all; the host waits 88 ms, the GPU idles 124 ms"),
        ({"count": 72}, {}, "once a step; per step the host waits 1.22 ms, the GPU idles 1.72 ms"),
        ({"blocking": False, "per_step": 3.0}, {}, "3 times a step"),
        ({"exposed_idle_ns": 0}, {}, "the host waits 2.2 ms, the GPU does not idle"),
        ({"blocked_ns": 0, "exposed_idle_ns": 0}, {}, "    once a step\n"),
        ({}, {"gpu": ()}, "the host waits 2.2 ms\n"),
    ],
)
def test_costs_are_told_per_step_only_where_steps_repeat_them(analyses, changes, run, expected):
    summary = analyses.make_summary(analyses.make_site(**changes), **run)
    assert expected in render_text(analyses.make_analysis(summary))
