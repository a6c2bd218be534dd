"""The exact expression, found in lines of every shape."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from syncscope.reports.source_excerpt import SourceLine, cropped, excerpt


def marked(source, site):
    return [(line.number, line.marked) for line in excerpt(source, site, 0) if line.hit]


def test_columns_count_characters_not_bytes_or_cells(analyses):
    site = analyses.make_site(line=1, end_line=1, column=12, end_column=23)
    assert marked('名 = "é🎉" + loss.item()', site) == [(1, "loss.item()")]


def test_an_expression_of_several_lines_is_marked_without_its_indentation(analyses):
    source = "x = f(\n    a,\n    b)[m]\n"
    site = analyses.make_site(line=1, end_line=3, column=5, end_column=10)
    assert marked(source, site) == [(1, "f("), (2, "a,"), (3, "b)[m]")]


def test_unknown_columns_mark_the_expression_only_where_it_is_unique(analyses):
    site = analyses.make_site(line=1, end_line=1, column=-1, end_column=-1)
    assert marked("a = loss.item()", site) == [(1, "loss.item()")]
    assert marked("a = loss.item(), loss.item()", site) == [(1, "")]


def test_columns_beyond_a_changed_line_mark_nothing(analyses):
    site = analyses.make_site(line=1, end_line=1, column=50, end_column=60)
    assert marked("short", site) == [(1, "")]


def test_a_line_that_is_not_there_gives_no_excerpt(analyses):
    assert excerpt("one line", analyses.make_site(line=9)) == ()
    assert excerpt("one line", analyses.make_site(line=-1)) == ()


def test_form_feeds_and_separators_do_not_shift_lines(analyses):
    site = analyses.make_site(line=2, end_line=2, column=1, end_column=12)
    assert marked("a\x0c\x1c\u2028b\nloss.item()", site) == [(2, "loss.item()")]


def test_control_characters_of_the_source_are_shown_not_sent(analyses):
    site = analyses.make_site(line=1, end_line=1, column=1, end_column=6)
    line = excerpt("a\x1b[2J \u202eb", site)[0]
    assert "\x1b" not in line.marked + line.after
    assert line.marked == r"a\x1b[2J"


def test_long_lines_are_cut_around_the_expression(analyses):
    source = "x = [" + "1, " * 5_000 + "loss.item()" + ", 2" * 5_000
    column = source.index("loss") + 1
    site = analyses.make_site(line=1, end_line=1, column=column, end_column=column + 11)
    line = excerpt(source, site)[0]
    assert line.marked == "loss.item()"
    assert len(line.before + line.marked + line.after) <= 240
    assert line.before.startswith("…")
    assert line.after.endswith("…")


@given(*(st.text("ab中🎉", max_size=60) for _ in range(3)), st.integers(10, 80))
def test_a_cropped_line_fits_its_cells(before, middle, after, limit):
    line = cropped(SourceLine(1, before, middle, after, True), limit, cell_len)
    assert cell_len(line.before + line.marked + line.after) <= limit
    if middle:
        assert line.marked
