"""SARIF: valid against the schema, one result a site, at the right place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from syncscope.analysis.causes import CAUSES
from syncscope.records import Advice, Edit, Origin, StackFrame
from syncscope.reports.cause_help import CAUSE_HELP, help_for
from syncscope.reports.sarif import fingerprints, sarif_json

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "sarif" / "sarif-schema-2.1.0.json").read_text()
)


def run_of(analysis):
    log = json.loads(sarif_json(analysis))
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    [run] = log["runs"]
    return run


def result_of(analyses, site, *others, **tables):
    """The result of one site among others."""
    summary = analyses.make_summary(site, *others)
    run = run_of(analyses.make_analysis(summary, **tables))
    [result] = [r for r in run["results"] if r["occurrenceCount"] == site.count]
    return result


def test_there_is_a_result_for_each_flagged_site(analyses):
    run = run_of(analyses.plausible_analysis(steps=1))
    assert len(run["results"]) == 6
    assert {result["level"] for result in run["results"]} == {"warning", "note"}
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


@pytest.mark.parametrize(
    ("verdict", "level"), [("fix", "warning"), ("unsafe", "error"), ("harmless", "note")]
)
def test_the_level_follows_the_verdict(analyses, verdict, level):
    assert result_of(analyses, analyses.make_site(verdict=verdict))["level"] == level


def test_a_region_is_the_expression(analyses):
    [location] = result_of(analyses, analyses.make_site())["locations"]
    physical = location["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT"}
    assert physical["region"] == {
        "startLine": 20, "endLine": 20, "startColumn": 20, "endColumn": 31,
        "snippet": {"text": "loss.item()"},
    }  # fmt: skip


def test_without_columns_the_region_is_the_line(analyses):
    site = analyses.make_site(column=-1, end_column=-1)
    region = result_of(analyses, site)["locations"][0]["physicalLocation"]["region"]
    assert not {"startColumn", "endColumn"} & region.keys()


def test_a_site_without_a_place_has_no_location(analyses):
    assert result_of(analyses, analyses.make_site(file="", line=-1))["locations"] == []


@pytest.mark.parametrize(
    ("file", "owner", "expected"),
    [
        ("a b/é.py", "user", {"uri": "a%20b/%C3%A9.py", "uriBaseId": "SRCROOT"}),
        ("/tmp/a b.py", "user", {"uri": "file:///tmp/a%20b.py"}),
        ("lightning/loop.py", "library", {"uri": "lightning/loop.py"}),
        ("od\ud800d.py", "user", {"uri": "od%3Fd.py", "uriBaseId": "SRCROOT"}),
        ("javascript:x", "user", {"uri": "javascript%3Ax", "uriBaseId": "SRCROOT"}),
    ],
)
def test_files_are_uris(analyses, file, owner, expected):
    site = analyses.make_site(file=file, owner=owner)
    assert (
        result_of(analyses, site)["locations"][0]["physicalLocation"]["artifactLocation"]
        == expected
    )


def test_the_message_says_what_it_costs_and_what_to_do(analyses):
    text = result_of(analyses, analyses.make_site())["message"]["text"]
    assert text.startswith(
        "`loss.item()` makes the host wait for the GPU; rewriting it gives back up to 3.1 ms a "
        "step. Accumulate on the GPU, read once: "
    )


def test_code_in_a_message_is_neither_a_placeholder_nor_a_link(analyses):
    text = result_of(analyses, analyses.make_site(expression='f"{x[0](1)}"'))["message"]["text"]
    assert '`f"{{x[0] (1)}}"`' in text


def test_the_stack_is_a_flow_from_outside_in(analyses):
    stack = (
        StackFrame("torch/optim/adam.py", 4, "step"),
        StackFrame("train.py", 20, "train"),
        StackFrame("?", -1, "unknown"),
    )
    site = analyses.make_site(stack=stack, library_line="torch/optim/adam.py:4")
    result = result_of(analyses, site)
    [flow] = result["codeFlows"][0]["threadFlows"]
    places = [step["location"]["physicalLocation"] for step in flow["locations"]]
    assert [place["artifactLocation"] for place in places] == [
        {"uri": "train.py", "uriBaseId": "SRCROOT"},
        {"uri": "torch/optim/adam.py"},
    ]
    assert "inside a library, at torch/optim/adam.py:4" in result["message"]["text"]


def test_related_places_are_where_it_was_made_and_where_the_wait_moves(analyses):
    origin = Origin("data.py", 7, 7, 5, 19, "make", "torch.zeros(4)")
    site = analyses.make_site(origin=origin, moves_to="b", count=41)
    other = analyses.make_site(id="b", line=30, end_line=30)
    made, moved = result_of(analyses, site, other)["relatedLocations"]
    assert made["physicalLocation"]["region"] == {"startLine": 7}
    assert made["message"]["text"] == "Made on the host by `torch.zeros(4)`."
    assert moved["physicalLocation"]["region"]["startLine"] == 30


def test_an_allowed_site_is_suppressed_with_its_reason(analyses):
    site = analyses.make_site(verdict="allowed", flagged=False, reason="once an epoch")
    [suppression] = result_of(analyses, site)["suppressions"]
    assert suppression == {"kind": "inSource", "justification": "once an epoch"}


def test_the_edits_of_an_advice_are_one_fix(analyses):
    edits = (
        Edit("train.py", 20, 20, 20, 31, "loss.detach()"),
        Edit("train.py", 22, 1, 22, 1, "x = 1\n"),
        Edit("data.py", 3, 1, 3, 9, "load(pin_memory=True)"),
    )
    site = analyses.make_site(advice=Advice("Read later", "", "shown only", edits))
    [fix] = result_of(analyses, site)["fixes"]
    here, there = fix["artifactChanges"]
    assert here["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT"}
    assert there["artifactLocation"]["uri"] == "data.py"
    replaced, inserted = here["replacements"]
    assert replaced["insertedContent"]["text"] == "loss.detach()"
    assert replaced["deletedRegion"] == {
        "startLine": 20, "startColumn": 20, "endLine": 20, "endColumn": 31,
    }  # fmt: skip
    assert inserted["deletedRegion"]["endColumn"] == inserted["deletedRegion"]["startColumn"]
    assert "fixes" not in result_of(analyses, analyses.make_site())


def test_fingerprints_stay_when_lines_move_and_tell_equal_lines_apart(analyses):
    first, second = analyses.make_site(id="a"), analyses.make_site(id="b", line=40, end_line=40)
    other = analyses.make_site(id="c", expression="norm.item()")
    marks = fingerprints([second, other, first])
    assert len(set(marks.values())) == 3
    moved = [replace(site, line=site.line + 5) for site in (first, other, second)]
    assert fingerprints(moved) == marks


def test_what_a_recording_lacks_is_a_notification(analyses):
    [invocation] = run_of(analyses.plausible_analysis(steps=1))["invocations"]
    texts = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert any("NVML failed" in text for text in texts)
    truncated = analyses.make_summary(analyses.make_site(), truncated=True)
    [invocation] = run_of(analyses.make_analysis(truncated))["invocations"]
    assert not invocation["executionSuccessful"]


def test_nothing_flagged_gives_a_valid_log_without_results(analyses):
    assert run_of(analyses.make_analysis(analyses.make_summary()))["results"] == []


def test_the_same_analysis_gives_the_same_bytes(analyses):
    analysis = analyses.plausible_analysis(steps=1)
    assert sarif_json(analysis) == sarif_json(analysis)


def test_every_cause_has_a_help_text():
    assert set(CAUSES) <= set(CAUSE_HELP)
    assert help_for("brand_new") == CAUSE_HELP["generic"]
