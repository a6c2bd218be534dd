"""Numbers and foreign texts as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.reports.plain_text import printable
from syncscope.reports.visible_text import one_line, visible, visible_block, visible_path
from syncscope.units import byte_size, duration, percent, rate, with_article


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ms"), (7, "7 ns"), (999.7, "1 µs"), (850_000, "850 µs"), (999_600, "1 ms"),
        (24_100_000, "24.1 ms"), (6_200_000, "6.2 ms"), (2_100_000_000, "2.1 s"),
        (7_200_000_000_000, "7,200 s"),
    ],
)  # fmt: skip
def test_durations_have_three_digits(time_ns, text):
    assert duration(time_ns) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0, "0 %"), (0.004, "<1 %"), (0.31, "31 %"), (0.996, ">99 %"), (1, "100 %")],
)
def test_shares_are_never_rounded_to_nothing_or_everything(fraction, text):
    assert percent(fraction) == text


def test_durations_get_the_article_that_is_spoken():
    texts = ("8.1 ms", "86.1 µs", "11 ms", "18.2 ms", "24.1 ms", "1.8 s", "110 ms", "1,100 s")
    assert [with_article(text).split(" ")[0] for text in texts] == ["an"] * 4 + ["a"] * 4


def test_table_numbers_never_hide_something_small():
    assert [rate(n) for n in (0, 0.001, 0.025, 1.0, 2.5, 12_000)] == [
        "0", "<0.01", "0.03", "1", "2.5", "12,000",
    ]  # fmt: skip
    assert [byte_size(n) for n in (4, 1536, 38_535_168, 1 << 30)] == [
        "4 B", "1.5 KiB", "36.8 MiB", "1 GiB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "7 µs × 3 → ½"), ("latin-1", "7 µs × 3 -> ½"), ("cp437", r"7 µs x 3 -> ½"),
        ("ascii", r"7 us x 3 -> \xbd"), ("", "7 µs × 3 → ½"),
    ],
)  # fmt: skip
def test_a_character_is_replaced_only_where_the_encoding_lacks_it(encoding, text):
    assert printable("7 µs × 3 → ½", encoding) == text


@given(st.text(max_size=80))
def test_no_text_is_shown_with_anything_hidden_in_it(text):
    for shown in (visible(text), visible_path(text), one_line(text), visible_block(text, 50)):
        shown.encode("utf-8")
        assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in shown)
        assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u2069\u2028")
    assert "\n" not in visible(text) + one_line(text) + visible_path(text)


def test_what_is_hidden_becomes_an_escape():
    assert visible("a\x1b]0;x\x07\n\udce9\u202eb") == r"a\x1b]0;x\x07\n\udce9\u202eb"
    assert visible_path("/very/" + "long/" * 40 + "train.py").endswith("/train.py")
    assert one_line("f(\n    a,\n    b)") == "f( a, b)"
    assert len(one_line("x" * 10_000_000)) == 200
