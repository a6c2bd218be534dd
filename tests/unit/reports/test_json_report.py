"""summary.json as others read it."""

from __future__ import annotations

import json

import msgspec

from syncscope.records import Summary
from syncscope.reports.json_report import summary_json


def test_the_schema_comes_first_and_the_keys_are_those_of_the_design(analyses):
    content = json.loads(summary_json(analyses.make_summary(analyses.make_site())))
    assert list(content) == [
        "schema", "run", "gpu", "sites", "coverage", "replay", "overhead", "regime", "launches",
        "steps",
    ]  # fmt: skip
    assert content["schema"] == 1
    assert content["sites"][0]["advice"]["rewrite"] == "running += loss.detach()"
    assert content["replay"] == {
        "baseline_error": None, "best_case_ns_per_step": None, "used": False, "left_out": 0,
        "fixed_ns_per_step": None,
    }  # fmt: skip


def test_equal_summaries_give_equal_bytes_whatever_the_order_of_their_mappings(analyses):
    one = analyses.make_summary(overhead={"a": 1.0, "b": 2.0})
    other = analyses.make_summary(overhead={"b": 2.0, "a": 1.0})
    assert summary_json(one) == summary_json(other)
    assert summary_json(one).endswith(b"}\n")


def test_what_was_written_can_be_read_back(analyses):
    summary = analyses.make_summary(*analyses.plausible_sites())
    assert msgspec.json.decode(summary_json(summary), type=Summary) == summary


def test_undecodable_bytes_and_hostile_names_stay_json(analyses):
    name = 'a\udcff"</script>\x1b\u2028.py'
    summary = analyses.make_summary(analyses.make_site(file=name), argv=(name,))
    content = json.loads(summary_json(summary).decode("utf-8"))
    assert content["run"]["argv"] == ['a\\udcff"</script>\x1b\u2028.py']
