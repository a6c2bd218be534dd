"""The reports of a diff: what they say, and that foreign text does no harm in them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from syncscope.analysis.diff import CodeChange, CodeCost, Diff, DiffSide
from syncscope.analysis.spread import Change, Spread
from syncscope.errors import UsageError
from syncscope.reports.diff_html import render_diff_html, write_diff_html
from syncscope.reports.diff_text import render_diff_text
from syncscope.reports.diff_view import MAX_ROWS
from syncscope.reports.json_report import record_json
from syncscope.reports.plain_text import columns, paragraph, printable

MS = 1_000_000
HOSTILE = "</script><b>\x1b[31m\u202e'\"🐍"


def side(**changes: object) -> DiffSide:
    made = DiffSide("runs/a", ("train.py",), "NVIDIA H200", False, "2.11", 1, 12, 10, False, True)
    return replace(made, **changes)  # type: ignore[arg-type]


def spread(median: float, width: float = 0.5) -> Spread:
    return Spread(median * MS, (median - width) * MS, (median + width) * MS, 10)


def cost(**changes: object) -> CodeCost:
    made = CodeCost("train.py", 7, 1, 1.0, 3.0 * MS, spread(3.0), 0.0, True, "fix")
    return replace(made, **changes)  # type: ignore[arg-type]


def change(status: str, **changes: object) -> CodeChange:
    old = None if status == "new" else cost()
    new = None if status == "gone" else cost(line=9)
    made = CodeChange(
        status, "train", f"{status}.item()", "sync", "scalar_readback", True, status == "new",
        old, new,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def diff(*code: CodeChange, step: str = "better", **changes: object) -> Diff:
    made = Diff(
        old=side(), new=side(name="runs/b"), notes=("two_runs",),
        step=Change(spread(20), spread(10), step), idle=Change(spread(5), spread(5), "noise"),
        blocked=Change(spread(3), spread(1), "better"), code=code, worse=False,
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_text_says_what_changed_by_how_much_and_where() -> None:
    text = render_diff_text(diff(change("gone"), change("new"), change("same")))
    assert "Steps are 50 % shorter (20 ms, now 10 ms); flagged lines: 1 new, 1 gone." in text
    assert re.search(r"Step time +20 ms \[19.5 ms .. 20.5 ms\] +10 ms .* −10 ms, less", text)
    assert re.search(r"GPU idle .* within noise", text)
    assert "New: 1 flagged line\n  train.py:9 in train\n      new.item()\n" in text
    assert "      old:  fix, 1×, gives back 3 ms" in text.partition("Gone: 1 flagged line")[2]
    assert text.endswith("1 flagged line as before.\n")
    assert "Repeat both in turn" in text


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("noise", "take as long as before, within noise (20 ms, now 10 ms)"),
        ("worse", "are 50 % longer"),
        ("unknown", "cannot be compared (only one is real)"),
    ],
)
def test_noise_is_not_sold_as_a_gain(outcome: str, words: str) -> None:
    assert words in render_diff_text(diff(step=outcome))


def test_times_of_too_few_steps_are_not_compared() -> None:
    few = Change(Spread(2 * MS, MS, 3 * MS, 3), spread(1), "unknown")
    text = render_diff_text(replace(diff(), step=few))
    assert "cannot be compared (fewer than 4 steady steps on a side)" in text


def test_figures_without_steps_are_not_said_to_be_per_step() -> None:
    whole, unknown = side(steps=1, steady=1), Change(spread(20), spread(10), "unknown")
    neither = replace(diff(old=whole, new=whole), step=unknown)
    text, html = render_diff_text(neither), render_diff_html(neither)
    assert "Times cannot be compared (no steps were recorded)" in text
    assert re.search(r"^in all +old +new +change$", text, re.MULTILINE)
    assert "Time recorded  20 ms" in text
    assert text.count("2.11 · no steps") == 2
    assert "Times in all" in html
    for shown in (text, html):
        assert not re.search("per step|step time|steady step", shown, re.IGNORECASE)
    one = render_diff_text(replace(diff(old=whole, notes=("steps",)), step=unknown))
    assert "in all, and per step" in one
    assert "One side has fewer than two steps: its figures are those of the whole" in one


def test_a_simulated_diff_speaks_of_estimates() -> None:
    simulated = {"simulated": True, "device": "NVIDIA H200 (shadow)"}
    text = render_diff_text(diff(old=side(**simulated), new=side(**simulated)))
    assert "Estimated steps are" in text
    assert text.count("shadow GPU, modelled on NVIDIA H200") == 2


def test_hostile_names_do_no_harm() -> None:
    odd = change("new", expression=HOSTILE * 500, function=HOSTILE, new=cost(file=HOSTILE))
    made = diff(odd, old=side(name=HOSTILE, argv=(HOSTILE,), torch=HOSTILE, device=HOSTILE))
    text, page = render_diff_text(made), render_diff_html(made)
    assert not set(text) & set("\x1b\u202e")
    assert "</script>" not in page
    assert "<script" not in page
    assert not set(page) & set("\x1b\u202e")
    json.loads(record_json(made))


def test_the_page_is_whole_stable_and_needs_no_network(tmp_path: Path) -> None:
    made = diff(change("gone"), change("new"), change("grown"), change("shrunk"))
    page = render_diff_html(made)
    assert page == render_diff_html(made)
    assert not re.search(r"(src|href)=|url\(|@import", page)
    assert page.count("<h2") == 5
    assert re.search('<tr class="better"><th[^>]*>Step time</th>', page)
    assert page.count('<span class="badge fix">worse</span>') == 1
    write_diff_html(made, tmp_path / "diff.html")
    assert (tmp_path / "diff.html").read_text(encoding="utf-8") == page
    with pytest.raises(UsageError, match="cannot be written"):
        write_diff_html(made, tmp_path / "missing" / "diff.html")


def test_a_flood_of_lines_is_cut_and_said_to_be() -> None:
    made = diff(*(change("new", expression=f"x{n}.item()") for n in range(MAX_ROWS + 5)))
    assert "5 more lines not shown; --format json has all." in render_diff_text(made)
    assert "5 more are in the JSON." in render_diff_html(made)
    assert len(json.loads(record_json(made))["code"]) == MAX_ROWS + 5


def test_the_json_begins_with_its_schema() -> None:
    content = json.loads(record_json(diff(change("new"))))
    assert next(iter(content)) == "schema"
    assert content["step"]["outcome"] == "better"
    assert content["code"][0]["old"] is None


def test_plain_text_keeps_to_width_and_encoding() -> None:
    assert all(len(line) <= 50 for line in paragraph("word " * 40, 50, indent=2, mark="· "))
    assert paragraph("a b", 50, indent=2, mark="· ") == ["  · a b"]
    assert columns([("a", "語", "x"), ("bb", "c", "y")]) == ["a   語  x", "bb  c   y"]
    assert columns([("a", "1"), ("b", "22")], right=True) == ["a   1", "b  22"]
    assert printable("−1 µs · é", "ascii") == "-1 us - \\xe9"
    assert printable("−1 µs · é", "UTF-8") == "−1 µs · é"
    assert printable("×", None) == "×"


@pytest.mark.parametrize(
    ("unused", "sentence"),
    [
        (("new",), "Nothing to compare: the new run used no GPU."),
        (("old", "new"), "Nothing to compare: both runs used no GPU."),
    ],
)
def test_a_run_that_used_no_gpu_is_not_compared(unused: tuple[str, ...], sentence: str) -> None:
    sides = {name: side(device="", torch="", has_activity=False) for name in unused}
    made = diff(*([] if "old" in unused else [change("gone")]), notes=("no_activity",), **sides)
    text = render_diff_text(made)
    assert text.endswith(f"\n\n{sentence}\n")
    assert "per step" not in text
    html = render_diff_html(made)
    assert sentence in html
    assert "Step time" not in html


def test_a_gpu_that_was_not_watched_is_compared_as_far_as_it_goes() -> None:
    blind = side(has_activity=False)
    assert "50 % shorter" in render_diff_text(diff(change("gone"), new=blind, idle=None))
