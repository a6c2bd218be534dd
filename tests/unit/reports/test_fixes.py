"""Where a rewrite goes: never to a place where it would mean something else."""

from __future__ import annotations

import pytest

from syncscope.records import Advice
from syncscope.reports.fixes import rewritten_region


def applied(analyses, source, expression, rewrite, **changes):
    """The source with the rewrite in it, or None."""
    start = source.index(expression)
    before = source[:start]
    line = before.count("\n") + 1
    last = expression.split("\n")[-1]
    column = start - (before.rfind("\n") + 1) + 1
    places = {
        "line": line,
        "end_line": line + expression.count("\n"),
        "column": column,
        "end_column": (1 if "\n" in expression else column) + len(last),
    }
    site = analyses.make_site(
        expression=expression, advice=Advice("", "", rewrite), **(places | changes)
    )
    region = rewritten_region(source, site)
    if region is None:
        return None
    lines = source.split("\n")
    head = [*lines[: region.line - 1], lines[region.line - 1][: region.column - 1]]
    tail = [lines[region.end_line - 1][region.end_column - 1 :], *lines[region.end_line :]]
    return "\n".join(head) + rewrite + "\n".join(tail)


@pytest.mark.parametrize(
    ("source", "expression", "rewrite", "expected"),
    [
        ("y = x.to(d)\n", "x.to(d)", "x.to(d, c)", "y = x.to(d, c)\n"),
        ("é = f(x.item())\n", "x.item()", "x.detach()", "é = f(x.detach())\n"),
        ("y = f(\n  a,\n  b)\nz\n", "f(\n  a,\n  b)", "g(a)", "y = g(a)\nz\n"),
        ("x[5] = 0.0\n", "x[5]", "x[5].fill_(0.0)", "x[5].fill_(0.0)\n"),
        ("assert a.all(), 'no'\n", "a.all()", "check(a.all(), 'no')", "check(a.all(), 'no')\n"),
    ],
)  # fmt: skip
def test_a_rewrite_replaces_the_expression_or_its_statement(
    analyses, source, expression, rewrite, expected
):
    assert applied(analyses, source, expression, rewrite) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"column": -1, "end_column": -1},
        {"line": 40, "end_line": 40},
        {"column": 2},
    ],
)
def test_without_the_exact_place_there_is_no_fix(analyses, changes):
    assert applied(analyses, "y = x.to(d)\n", "x.to(d)", "z", **changes) is None


def test_a_rewrite_of_a_part_of_a_statement_is_no_fix(analyses):
    assert applied(analyses, "t += x.to(d)\n", "t += x.to(d)", "x.to(d, c)") is None


def test_a_change_that_does_not_parse_is_no_fix(analyses):
    assert applied(analyses, "y = x.to(d)\n", "x.to(d)", "x.to(") is None
    assert applied(analyses, "y = x.to(d)\nif:\n", "x.to(d)", "z") is None
