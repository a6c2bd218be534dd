"""The CSV of the sites: a row each, every field, no formulas."""

from __future__ import annotations

import csv
import io

import pytest

from syncscope.records import Origin
from syncscope.reports.csv_sites import COLUMNS, sites_csv


def rows_of(*sites):
    return list(csv.DictReader(io.StringIO(sites_csv(sites), newline="")))


def test_a_row_holds_what_is_known_of_a_site(analyses):
    origin = Origin("data.py", 7, 7, 5, 19, "make", "torch.zeros(4)")
    [row] = rows_of(analyses.make_site(origin=origin))
    assert tuple(row) == COLUMNS
    assert (row["file"], row["line"], row["expression"]) == ("train.py", "20", "loss.item()")
    assert (row["flagged"], row["pageable"], row["per_step"]) == ("true", "", "1.0")
    assert row["savings_ns_per_step"] == "3100000"
    assert row["rewrite"] == "running += loss.detach()"
    assert row["origin"] == "data.py:7: torch.zeros(4)"
    assert row["stack"] == "train.py:20 train < main.py:8 <module>"


def test_unknown_places_are_empty_cells(analyses):
    [row] = rows_of(analyses.make_site(column=-1, end_column=-1))
    assert (row["column"], row["end_column"]) == ("", "")


@pytest.mark.parametrize("start", ["=", "+", "-", "@", " ="])
def test_what_a_spreadsheet_would_run_is_quoted(analyses, start):
    [row] = rows_of(analyses.make_site(expression=f"{start}1", function=f"{start}cmd()"))
    assert row["expression"].startswith("'")
    assert row["function"] == f"'{start}cmd()"


def test_every_site_is_one_line_whatever_it_holds(analyses):
    hostile = 'a,"b"\n\r\tc\x1b[2J\ud800' + "x" * 40_000
    text = sites_csv([analyses.make_site(file=hostile, expression=hostile, function=hostile)])
    assert text.count("\r\n") == 2
    assert text.count("\n") == 2
    assert "\x1b" not in text
    assert len(text.encode()) < 4 * 32_767
    [row] = rows_of(analyses.make_site(expression='f("a,b",\n  c)'))
    assert row["expression"] == 'f("a,b", c)'


def test_no_sites_give_the_header():
    assert sites_csv([]) == ",".join(COLUMNS) + "\r\n"
