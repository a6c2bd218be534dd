"""What a report says of a GPU that waits for launches, and how sure it is of its times."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from syncscope.analysis.replay_forecast import ERROR_MARGIN, FIX_FRACTION
from syncscope.records import LaunchPace, Regime
from syncscope.reports.accuracy import SHADOW_STEPS, WHAT_IF_ERRORS, WHAT_IF_PAIRS
from syncscope.reports.figures import figures_of
from syncscope.reports.glossary import WORTH_FIXING
from syncscope.reports.verdict import verdict_of
from syncscope.reports.view import report_view

ROOT = Path(__file__).resolve().parents[3]


def bound_by_launching(analyses, other_work=0.0, **changes):
    """Idle for 80 % of its steps, of which `other_work` is not launching."""
    site = analyses.make_site(verdict="harmless", savings_ns_per_step=0)
    summary = analyses.with_idle(analyses.make_summary(site, **changes), 0.8, "launch")
    pace = LaunchPace(840, 2_400, 23_000, other_work * 0.8 * 24_100_000)
    return replace(summary, launches=pace, regime=Regime("launch", 0.8))


def explanation(summary):
    return verdict_of(summary, figures_of(summary)).explanation


def tiles(analyses, summary):
    return {tile.label: tile for tile in report_view(analyses.make_analysis(summary)).tiles}


def test_many_small_kernels_are_named_as_the_reason(analyses):
    summary = bound_by_launching(analyses)
    text = explanation(summary)
    assert text.startswith("For 100 % of the idle time the host launches kernels too slowly")
    assert "840 a step, 2.4 µs each, one every 23 µs" in text
    assert "A rewrite that also launches less can gain more" in text
    assert "other work" not in text
    shown = tiles(analyses, summary)
    assert shown["Kernels a step"].value == "840"
    assert shown["Bound by"].note == "it launches too slowly"


def test_lines_that_wait_many_times_a_step_are_told_to_do_it_at_once(analyses):
    summary = bound_by_launching(analyses)
    often = replace(summary, sites=tuple(replace(s, per_step=24.7) for s in summary.sites))
    text = explanation(often)
    assert "The flagged lines wait or copy 25 times a step: a rewrite" in text
    assert "than is said here" not in text


def test_what_is_not_launching_is_not_told_to_launch_less(analyses):
    summary = bound_by_launching(analyses, other_work=0.9)
    text = explanation(summary)
    assert "For 90 % of the idle time the host was busy with other work between launches" in text
    assert "torch.compile" not in text
    assert tiles(analyses, summary)["Bound by"].note == "it does other work between launches"
    shares = {share.cause: share.fraction for share in figures_of(summary).idle_shares}
    assert shares == pytest.approx({"host_work": 0.9, "launch": 0.1})


def test_both_are_told_apart_where_both_matter(analyses):
    text = explanation(bound_by_launching(analyses, other_work=0.5))
    assert text.index("For 50 % of the idle time the host was busy") < text.index("too slowly")


def test_what_recording_costs_is_measured_or_said_to_be_typical(analyses):
    assert "by x1.2 to x1.6 on an H200" in explanation(bound_by_launching(analyses))
    calibrated = bound_by_launching(analyses, overhead={"ratio_full": 1.184})
    assert "slowed the host by about x1.18" in explanation(calibrated)
    assert "slow" not in explanation(bound_by_launching(analyses, simulated=True)).replace(
        "slowly", ""
    )


def test_what_is_said_of_the_accuracy_is_what_was_measured():
    results = json.loads((ROOT / "tests/data/what_if/results.json").read_text(encoding="utf-8"))
    bare = results["totals"]["bare"]
    measured = (bare["median_error"], bare["largest_error"])
    assert measured == pytest.approx(WHAT_IF_ERRORS, abs=5e-4)
    assert results["totals"]["pairs"] == WHAT_IF_PAIRS
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| example | H200, ms |")[2]
    ratios = [float(found) for found in re.findall(r"\| (\d\.\d\d) \|\n", table)]
    assert (min(ratios), max(ratios)) == SHADOW_STEPS


def test_the_threshold_in_words_is_the_one_of_the_analysis():
    assert (FIX_FRACTION, ERROR_MARGIN) == (0.01, 3.0)
    assert WORTH_FIXING == "more than 1 % of a step and three times the replay's error"
