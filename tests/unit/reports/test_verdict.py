"""The sentence that a report opens with, in every situation that it can meet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from syncscope.recording.manifest import CollectorStatus, Exit, Process
from syncscope.records import Replay
from syncscope.reports.caveats import caveats_of
from syncscope.reports.figures import figures_of
from syncscope.reports.verdict import verdict_of
from syncscope.reports.view import report_view


def sentence(summary):
    return verdict_of(summary, figures_of(summary)).sentence


def texts(analysis, level=None):
    return [c.text for c in caveats_of(analysis) if level in (None, c.level)]


@pytest.fixture
def three_fixes(analyses):
    """Three lines worth fixing and eleven that are not."""
    costly = [
        analyses.make_site(id=f"fix{n}", savings_ns_per_step=ns)
        for n, ns in enumerate((3_100_000, 1_650_000, 1_450_000))
    ]
    cheap = [
        analyses.make_site(id=f"ok{n}", verdict="harmless", savings_ns_per_step=0)
        for n in range(11)
    ]
    return analyses.make_summary(*costly, *cheap)


def test_gains_are_bounds_unless_they_were_replayed(three_fixes):
    assert sentence(three_fixes) == (
        "GPU idle 31 % of a 24.1 ms step; 3 lines can give back up to 6.2 ms; "
        "11 more syncs are harmless."
    )
    replayed = replace(
        three_fixes, replay=Replay(0.012, 17_500_000, used=True, fixed_ns_per_step=18_000_000)
    )
    assert "3 lines can give back about 6.1 ms" in sentence(replayed)
    certainty = verdict_of(replayed, figures_of(replayed)).certainty
    assert "off by 3.6 % of a step in the median, 9.9 % at most (16 pairs" in certainty
    far_off = replace(three_fixes, replay=Replay(0.3, used=False))
    assert "3 lines can give back up to 6.2 ms" in sentence(far_off)
    assert "upper bounds" in verdict_of(far_off, figures_of(far_off)).certainty


def test_no_bound_exceeds_the_step(analyses):
    sites = [analyses.make_site(id=f"s{n}", savings_ns_per_step=20_000_000) for n in range(3)]
    assert "give back up to 24.1 ms" in sentence(analyses.make_summary(*sites))


def test_a_copy_bound_gpu_is_busy_and_still_has_something_to_give_back(analyses):
    """The time in which a copy runs alone counts as busy, and as something to gain."""
    copy = analyses.make_site(kind="transfer", savings_ns_per_step=18_000_000)
    summary = analyses.with_idle(analyses.make_summary(copy), 0.03, "transfer")
    assert "1 line can give back up to 18 ms" in sentence(summary)
    explanation = verdict_of(summary, figures_of(summary)).explanation
    assert "a GPU that only copies counts as busy" in explanation


def test_a_gain_beside_a_greater_cause_names_that_too(analyses):
    summary = analyses.with_idle(analyses.make_summary(analyses.make_site()), 0.8, "launch")
    assert "CUDA graphs" in verdict_of(summary, figures_of(summary)).explanation
    summary = analyses.with_idle(summary, 0.8, "sync")
    assert "CUDA graphs" not in verdict_of(summary, figures_of(summary)).explanation


def test_several_gpus_are_counted(analyses):
    summary = analyses.make_summary(analyses.make_site())
    gpu = summary.gpu[0]
    two = replace(summary, gpu=(gpu, replace(gpu, device=1)))
    assert sentence(two).startswith("2 GPUs idle 31 % of a 24.1 ms step; 1 line can give back")


def test_one_line_alone_gets_the_singular(analyses):
    harmless = analyses.make_site(id="h", verdict="harmless")
    assert "1 line can give back" in sentence(analyses.make_summary(analyses.make_site(), harmless))
    assert "1 more sync is harmless" in sentence(
        analyses.make_summary(analyses.make_site(), harmless)
    )


def test_copies_are_not_called_syncs(analyses):
    copy = analyses.make_site(id="c", kind="transfer", verdict="harmless")
    assert "1 more flagged line is harmless" in sentence(
        analyses.make_summary(analyses.make_site(), copy)
    )


def test_a_busy_gpu_means_nothing_is_worth_fixing(analyses):
    site = analyses.make_site(verdict="harmless", savings_ns_per_step=0)
    summary = analyses.with_idle(analyses.make_summary(site), 0.02, "sync")
    assert sentence(summary) == (
        "GPU busy 98 % of a 24.1 ms step: nothing worth fixing; the sync is harmless."
    )
    assert "bound by the GPU" in verdict_of(summary, figures_of(summary)).explanation


def test_a_clean_program_is_told_so(analyses):
    summary = analyses.with_idle(analyses.make_summary(), 0.02, "launch")
    assert sentence(summary) == (
        "GPU busy 98 % of a 24.1 ms step: nothing worth fixing; no wait or copy was flagged."
    )


def test_idle_time_that_no_line_causes_names_its_cause(analyses):
    site = analyses.make_site(verdict="harmless", savings_ns_per_step=0)
    summary = analyses.with_idle(analyses.make_summary(site, site), 0.83, "launch")
    assert sentence(summary) == (
        "GPU idle 83 % of a 24.1 ms step, mostly because the host launches kernels too slowly; "
        "taking away the waits of the 2 flagged lines alone gains nothing measurable."
    )
    explanation = verdict_of(summary, figures_of(summary)).explanation
    assert "launches kernels too slowly" in explanation
    assert "CUDA graphs" in explanation


def test_idle_time_of_another_cause_is_charged_to_no_line(analyses):
    site = analyses.make_site(verdict="harmless", savings_ns_per_step=0)
    summary = analyses.with_idle(analyses.make_summary(site), 0.83, "dataloader")
    assert sentence(summary) == (
        "GPU idle 83 % of a 24.1 ms step, but not because of a line that is worth fixing; "
        "taking away the wait of the flagged line alone gains nothing measurable."
    )


def test_a_missing_wait_leads_whatever_else_there_is(analyses):
    race = analyses.make_site(id="r", kind="race", verdict="unsafe", savings_ns_per_step=0)
    summary = analyses.make_summary(analyses.make_site(), race)
    assert sentence(summary).startswith("1 line reads memory that is still being copied; GPU idle")
    assert verdict_of(summary, figures_of(summary)).tone == "unsafe"


def test_without_gpu_activity_nothing_is_claimed(analyses):
    summary = replace(analyses.make_summary(analyses.make_site()), gpu=())
    assert sentence(summary) == (
        "No GPU activity was recorded, so idle time is unknown; "
        "1 flagged line blocks the host for 2.2 ms a step."
    )
    view = report_view(analyses.make_analysis(summary))
    assert [tile.value for tile in view.tiles] == ["24.1 ms", "unknown", "unknown", "100 %"]


def test_without_steps_figures_are_totals(analyses):
    summary = analyses.make_summary(analyses.make_site(), steps=0)
    assert "idle 31 % of the 964 ms recorded" in sentence(summary)
    assert any("totals" in text for text in texts(analyses.make_analysis(summary)))


def test_a_shadow_gpu_is_named_wherever_a_time_is(analyses):
    analysis = analyses.make_analysis(analyses.make_summary(analyses.make_site(), simulated=True))
    view = report_view(analysis)
    assert view.verdict.sentence.startswith("Estimated on a shadow GPU: GPU idle 31 %")
    assert "up to an estimated 3.1 ms" in view.verdict.sentence
    assert view.flagged[0].gain == "up to est. 3.1 ms"
    assert all("estimated" in tile.label for tile in view.tiles[:-1])
    assert "within x0.70 to x1.25 of an H200's" in view.verdict.certainty
    assert "shadow GPU" in view.subtitle
    assert any("no real GPU was used" in text for text in texts(analysis))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"truncated": True}, "The run was cut short"),
        ({"imported": True}, "Imported from a trace"),
    ],
)
def test_kinds_of_recordings_have_their_own_words(analyses, change, expected):
    analysis = analyses.make_analysis(analyses.make_summary(analyses.make_site(), **change))
    assert any(text.startswith(expected) for text in texts(analysis))


@pytest.mark.parametrize(
    ("live", "simulated", "warning", "ended"),
    [
        (
            True,
            False,
            "Still being recorded: these are the figures so far. GPU activity of a window is "
            "added when it ends.",
            "not yet: still being recorded",
        ),
        (
            True,
            True,
            "Still being recorded: these are the figures so far.",
            "not yet: still being recorded",
        ),
        (
            None,
            False,
            "The recording has no end: the run was cut short, or still goes on at node7. What was "
            "written so far is in this report.",
            "not seen",
        ),
        (
            False,
            False,
            "The run was cut short: all that was written before is in this report, what came "
            "after is missing.",
            "not seen: the run was cut short",
        ),
    ],
)
def test_a_recording_without_an_end_is_cut_short_only_if_its_process_is_gone(
    analyses, live, simulated, warning, ended
):
    summary = analyses.make_summary(
        analyses.make_site(), truncated=True, live=live, simulated=simulated
    )
    manifest = analyses.make_manifest(state="recording", exit=None, process=Process(7, "node7", 1))
    analysis = analyses.make_analysis(summary, manifest)
    assert texts(analysis, "warning") == [warning]
    assert dict(report_view(analysis).recorded.facts)["Program ended"] == ended


def test_failures_and_losses_are_warnings(analyses):
    manifest = analyses.make_manifest(
        collectors=(
            CollectorStatus("GPU activity", "failed", "another profiler holds CUPTI"),
            CollectorStatus("transfers", "on", "", 12),
        ),
        exit=Exit(1, "ValueError: nan"),
        notes=("The clock was set back.",),
    )
    coverage = replace(
        analyses.make_summary().coverage, attributed=300, unattributed=100, blocking_calls=400
    )
    summary = analyses.make_summary(analyses.make_site(), coverage=coverage)
    analysis = analyses.make_analysis(summary, manifest)
    assert texts(analysis, "warning") == [
        "The program ended with exit code 1 (ValueError: nan).",
        "Not recorded: GPU activity failed (another profiler holds CUPTI).",
        "transfers lost 12 events: counts are too low.",
        "100 of 400 blocking calls (25 %) could not be charged to a line.",
    ]
    assert texts(analysis, "note") == ["The clock was set back."]


def test_a_replay_that_is_far_off_is_a_warning(analyses):
    summary = analyses.make_summary(analyses.make_site(), replay=Replay(-0.12))
    assert any("off by 12 %" in t for t in texts(analyses.make_analysis(summary), "warning"))


def test_nothing_at_all_recorded_still_gives_a_sentence(analyses):
    summary = replace(analyses.make_summary(steps=0, step_ns=0, window_ns=0), gpu=())
    assert sentence(summary) == "Nothing was recorded: the program ended before the first window."
    summary = replace(analyses.make_summary(), gpu=())
    assert sentence(summary) == (
        "No GPU activity was recorded, so idle time is unknown; no wait or copy was flagged."
    )
    idle = replace(analyses.make_summary().gpu[0], busy_ns=0)
    summary = replace(analyses.make_summary(), gpu=(idle,))
    assert sentence(summary).startswith("The program never used the GPU")
    assert report_view(analyses.make_analysis(summary)).flagged == ()
