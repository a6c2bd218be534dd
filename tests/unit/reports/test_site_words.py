"""What a report says of one line: what to leave, what needs no change, what happened once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncscope.recording.manifest import Exit
from syncscope.records import Advice, Edit, Replay, StepRecord
from syncscope.reports.figures import figures_of
from syncscope.reports.html_report import render_html
from syncscope.reports.pages import codes
from syncscope.reports.text_report import render_text
from syncscope.reports.view import report_view

MS = 1_000_000


def view_of(analyses, *sites, **changes):
    return report_view(analyses.make_analysis(analyses.make_summary(*sites, **changes)))


def test_a_harmless_line_is_to_be_left_before_it_is_rewritten(analyses):
    first = analyses.make_site(advice=Advice("Decide on the GPU", "Use torch.where.", ""))
    harmless = analyses.make_site(id="h", verdict="harmless", savings_ns_per_step=0)
    analysis = analyses.make_analysis(analyses.make_summary(first, harmless))
    first, second = report_view(analysis).flagged
    assert (first.rewrite_note, second.rewrite_note[:24]) == ("", "Gains nothing measurable")
    for text in (render_html(analysis), render_text(analysis)):
        found = text.split("Gains nothing measurable; leave it unless")
        assert len(found) == 2
        assert "running += loss.detach()" in found[1]


def test_where_launching_sets_the_pace_a_rewrite_may_still_gain(analyses):
    harmless = analyses.make_site(verdict="harmless", savings_ns_per_step=0)
    summary = analyses.with_idle(analyses.make_summary(harmless), 0.8, "launch")
    (row,) = report_view(analyses.make_analysis(summary)).flagged
    assert "launching sets the pace" in row.rewrite_note
    assert "leave it" not in row.rewrite_note


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "allocator", "cause": "allocator_churn"}, "while it fills up"),
        ({"explicit": True, "cause": "explicit_wait"}, "outside the step loop"),
        ({"cause": "pageable_batch", "kind": "transfer"}, "happens once"),
    ],
)
def test_what_is_as_it_should_be_is_not_told_to_change(analyses, changes, reason):
    site = analyses.make_site(flagged=False, verdict="harmless", **changes)
    (row,) = view_of(analyses, site).unflagged
    assert (row.advice_title, row.rewrite) == ("Nothing to change", "")
    assert reason in row.advice_text
    assert "churn" not in row.cause


def test_a_copy_that_nobody_waits_for_keeps_its_own_advice(analyses):
    advice = Advice("Nothing to change: this copy does not wait", "An event tells.", "")
    site = analyses.make_site(flagged=False, cause="asynchronous_copy", advice=advice)
    assert view_of(analyses, site).unflagged[0].advice_text == "An event tells."


@pytest.mark.parametrize(
    ("count", "shown"), [(1, "once"), (3, "3 times in all"), (40, "10.8 MiB"), (80, "21.6 MiB")]
)
def test_what_happens_less_than_once_in_two_steps_has_no_figure_a_step(analyses, count, shown):
    site = analyses.make_site(
        kind="transfer", count=count, per_step=count / 40, size_bytes=count * int(10.8 * 2**20)
    )
    (moved,) = view_of(analyses, site).moved
    assert (moved.each, moved.bytes_) == ("10.8 MiB", shown)


def site_called_at(analyses, *moments_ms, **changes):
    """The view of a site in forty steps of 24.1 ms, called at these times and in no steady step."""
    calls = [
        (0, ms * MS, ms * MS + 7_000, "s1", "item", "sync", "d2h", 4, True, False)
        for ms in moments_ms
    ]
    marks = [(n, n * 24_100_000, (n + 1) * 24_100_000) for n in range(40)]
    count = len(moments_ms)
    site = analyses.make_site(
        count=count,
        per_step=0.0,
        blocked_ns=count * 7_000,
        exposed_idle_ns=count * 6_000,
        **changes,
    )
    return analyses.make_analysis(analyses.make_summary(site), calls=calls, steps=marks)


@pytest.mark.parametrize(
    ("moments_ms", "words"),
    [
        ((3,), "once, before the first step ended; the host waits 7 µs, the GPU idles 6 µs for it"),
        ((3, 20), "2 waits, before the first step ended; in all the host waits 14 µs, "),
        ((970,), "once, after the last step; the host waits 7 µs"),
        ((3, 970), "2 waits, outside the steady steps; in all the host waits 14 µs"),
    ],
)
def test_what_no_step_repeats_is_told_in_all_and_when(analyses, moments_ms, words):
    analysis = site_called_at(analyses, *moments_ms)
    assert words in render_text(analysis, width=200)
    (row,) = report_view(analysis).flagged
    when = words.split(";")[0].split(", ")[1]
    assert dict(row.details)["Occurrences"] == f"{len(moments_ms)}, {when}"
    total = f"{7 * len(moments_ms)} µs<small>in all</small>"
    assert total in render_html(analysis)
    assert dict(row.sort_keys)["blocked"] == 7_000 * len(moments_ms)
    assert row.idle_share == 0


def test_what_a_step_repeats_costs_there_what_a_step_has_of_it(analyses):
    generated = analyses.make_site(
        count=100, per_step=1.0, blocked_ns=100 * 7_000, size_bytes=6 << 20
    )
    (row,) = view_of(analyses, generated).flagged
    assert (row.blocked, row.in_all) == ("7 µs", False)
    assert view_of(analyses, generated).moved[0].bytes_ == "61.4 KiB"


def test_a_cure_is_told_once_and_then_by_its_number(analyses):
    first = analyses.make_site()
    first = replace(first, advice=replace(first.advice, edits=(Edit("a.py", 1, 1, 1, 9, "b"),)))
    shown_elsewhere = replace(first.advice, rewrite="# line 20:\nrunning += loss.detach()")
    again = analyses.make_site(id="s2", column=40, end_column=51, advice=shown_elsewhere)
    other = analyses.make_site(id="s3", advice=Advice("Another", "Do that.", "that()"))
    analysis = analyses.make_analysis(analyses.make_summary(first, again, other))
    text = render_text(analysis)
    assert text.count("running += loss.detach()\n") == 1
    assert text.count("Each readback waits until") == 1
    assert "→ Accumulate on the GPU, read once\n      The same cure as 1.\n" in text
    first, second, third = report_view(analysis).flagged
    assert (first.same_cure, third.same_cure) == (None, None)
    assert second.same_cure.anchor == "site-1"
    html = render_html(analysis)
    assert 'The same cure as for <a href="#site-1">train.py:20: loss.item()</a>' in html
    assert html.count("The same cure as for") == 1


def test_code_in_advice_is_code_and_nothing_else_is(analyses):
    advice = Advice("Accumulate", "Write `a < b`, not <b>.", "")
    html = render_html(analyses.make_analysis(analyses.make_summary(
        analyses.make_site(advice=advice)
    )))  # fmt: skip
    assert "Write <code>a &lt; b</code>, not &lt;b&gt;." in html
    assert codes("a ` b") == "a ` b"


def test_steps_are_counted_the_same_way_everywhere(analyses):
    steps = tuple(
        StepRecord(n, n * 9 * MS, (n + 1) * 9 * MS, 9 * MS, (n + 1) * MS, 0, 0, 0, n > 0, "")
        for n in range(12)
    )
    summary = replace(analyses.make_summary(analyses.make_site(), steps=12, step_ns=9 * MS))
    summary = replace(summary, steps=steps)
    view = report_view(analyses.make_analysis(summary))
    words = "11 steady steps (12 recorded)"
    assert view.tiles[0].note == f"median of {words}"
    assert words in view.subtitle
    assert dict(view.recorded.facts)["Steps"] == words
    assert figures_of(summary).idle_ns == 7 * MS  # the median step, as in a diff
    assert view.steps.summary.startswith("11 steady steps")


def test_the_error_of_the_replay_has_no_sign(analyses):
    summary = analyses.make_summary(
        analyses.make_site(), replay=Replay(-1e-7, 9 * MS, used=True, fixed_ns_per_step=9 * MS)
    )
    facts = dict(report_view(analyses.make_analysis(summary)).recorded.facts)
    assert facts["Replay"] == "reproduces the recording within 0.0 %"


def test_arguments_stand_under_the_title(analyses):
    assert view_of(analyses, argv=("train.py", "--name", "a b")).command == "train.py --name 'a b'"
    assert view_of(analyses, argv=("train.py",)).command == "train.py"


def test_a_real_gpu_is_named_as_plainly_as_a_shadow(analyses):
    assert view_of(analyses).subtitle.startswith("recorded on NVIDIA H200 · ")
    simulated = view_of(analyses, simulated=True)
    assert simulated.subtitle.startswith("simulated on a shadow GPU, modelled on NVIDIA H200 · ")
    assert "numpy work outside of torch is not counted" in simulated.caveats[0].text


@pytest.mark.parametrize("code", [-2, 130])
def test_a_program_that_was_stopped_by_hand_did_not_fail(analyses, code):
    manifest = analyses.make_manifest(exit=Exit(code, "KeyboardInterrupt"))
    view = report_view(analyses.make_analysis(manifest=manifest))
    assert "The program was interrupted (Ctrl-C)." in [caveat.text for caveat in view.caveats]
    assert dict(view.recorded.facts)["Program ended"] == "interrupted (Ctrl-C)"
