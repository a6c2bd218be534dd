"""The same code is found again when it moved, was formatted, or its file was renamed."""

from __future__ import annotations

import pytest

from syncscope.analysis.code_match import SCRIPT, common_files, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("loss.item()", "loss . item( )"),
        ("x.to(device,\n    non_blocking = True,\n)", "x.to(device, non_blocking=True)"),
        ("f('a')", 'f("a")'),
        ("(loss.item())", "loss.item()"),
        ("with f(x)", "with  f( x )"),
        ("for x in y.tolist()", "for x in  y.tolist()"),
        ("not  python ?", "not python ?"),
        ("x[ mask ]  # keeps", "x[mask]"),
    ],
)
def test_layout_does_not_count(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.item()", "b.item()"),
        ("f('a b')", "f('a  b')"),
        ("x.to(device)", "x.to(device, non_blocking=True)"),
    ],
)
def test_words_count(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize("odd", ["(" * 5000, "x" + ".a()" * 4000, "\0", "", "\ud800", "f(" * 9])
def test_odd_expressions_have_some_form(odd: str) -> None:
    assert isinstance(normalised(odd), str)


def test_scripts_correspond_whatever_their_names() -> None:
    files = common_files(
        {"train.py", "lib/a.py"}, {"train_fixed.py", "lib/a.py"},
        ("train.py", "--x"), ("/home/me/train_fixed.py",),
    )  # fmt: skip
    assert files == ({"train.py": SCRIPT}, {"train_fixed.py": SCRIPT})


def test_a_module_is_a_script_as_well() -> None:
    old, new = common_files({"pkg/train.py"}, {"train.py"}, ("-m", "pkg.train", "x"), ("train.py",))
    assert old["pkg/train.py"] == new["train.py"] == SCRIPT


def test_a_file_that_moved_is_found_if_it_is_the_only_one_of_its_name() -> None:
    old, new = common_files({"a/model.py", "run.py"}, {"b/model.py", "run.py"}, (), ())
    assert (old, new) == ({}, {"b/model.py": "a/model.py"})
    assert common_files({"a/model.py"}, {"b/model.py", "c/model.py"}, (), ()) == ({}, {})
    assert common_files({"a/model.py", "b/model.py"}, {"b/model.py", "c/x.py"}, (), ()) == ({}, {})


def test_a_script_whose_name_is_not_unique_is_left_alone() -> None:
    assert common_files({"a/t.py", "b/t.py"}, {"t.py"}, ("t.py",), ("t.py",)) == ({}, {})
