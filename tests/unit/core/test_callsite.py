"""Call stacks become exact expressions, owners and stable ids."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope import program
from syncscope.callsite import Burst, StackTable, display_name, owner_of
from syncscope.recording.tables import FrameRow, StackRow


class Probe:
    """Captures the stack of whoever touches it."""

    def __init__(self, table: StackTable) -> None:
        self.table = table

    def item(self) -> int:
        return self.table.capture(skip=2)

    def __bool__(self) -> bool:
        self.table.capture(skip=2)
        return True

    def __getitem__(self, key: object) -> int:
        return self.table.capture(skip=2)


def innermost(table: StackTable) -> FrameRow:
    frames: dict[int, FrameRow] = {}
    last = None
    for row in table.resolve():
        if isinstance(row, FrameRow):
            frames[row.frame_id] = row
        else:
            last = row
    assert isinstance(last, StackRow)
    return frames[last.frame_ids[0]]


def test_the_expression_is_the_call_and_not_the_line() -> None:
    table = StackTable()
    loss = Probe(table)
    _ = 1 + loss.item() + 2
    assert innermost(table).expression == "loss.item()"


def test_columns_count_characters_and_not_bytes() -> None:
    table = StackTable()
    größe = Probe(table)
    _ = "äöü€", größe.item()
    frame = innermost(table)
    line = Path(__file__).read_text(encoding="utf-8").splitlines()[frame.line - 1]
    assert line[frame.column - 1 : frame.end_column - 1] == "größe.item()"


def test_a_subscript_and_a_condition_are_expressions() -> None:
    table = StackTable()
    mask = Probe(table)
    _ = mask["m"]
    assert innermost(table).expression == 'mask["m"]'
    if mask:
        pass
    assert innermost(table).expression == "mask"


def test_an_expression_over_several_lines_keeps_its_lines() -> None:
    table = StackTable()
    probe = Probe(table)
    _ = [
        probe["a",
              "b"],
    ]  # fmt: skip
    frame = innermost(table)
    assert frame.end_line == frame.line + 1
    assert frame.expression.startswith('probe["a",\n')


def test_equal_stacks_share_an_id_and_ids_count_up() -> None:
    table = StackTable()
    probe = Probe(table)
    ids = [probe.item() for _ in range(3)]
    assert ids == [0, 0, 0]
    assert probe.item() == 1
    assert sum(isinstance(row, StackRow) for row in table.resolve()) == 2
    assert list(table.resolve()) == []


def numbers(probe: Probe) -> Iterator[int]:
    while True:
        yield probe.item()


def test_a_place_that_is_reached_in_two_ways_has_two_stacks() -> None:
    table = StackTable()
    probe = Probe(table)

    def place() -> int:
        return probe.item()

    assert [(place(), place()) for _ in range(3)] == [(0, 1)] * 3
    resumed = numbers(probe)
    assert [(next(resumed), next(resumed)) for _ in range(3)] == [(2, 3)] * 3
    assert table.id_of(None) == 4
    assert table.id_of(None) == 4


def test_of_a_deep_recursion_only_the_innermost_frames_count() -> None:
    table = StackTable()
    probe = Probe(table)

    def dive(depth: int) -> int:
        return dive(depth - 1) if depth else probe.item()

    assert [dive(depth) for depth in (3, 4, 3, 100, 200)] == [0, 1, 0, 2, 2]


def test_who_runs_the_program_does_not_count() -> None:
    table = StackTable()
    code = compile("def run(program): return program()", program.__file__, "exec")
    runner: dict[str, Any] = {}
    exec(code, runner)
    probe = Probe(table)
    first = runner["run"](probe.item)
    assert [runner["run"](probe.item) for _ in range(2)] == [first, first]
    assert [len(row.frame_ids) for row in table.resolve() if isinstance(row, StackRow)] == [0]


def test_own_frames_are_left_out() -> None:
    table = StackTable()
    frame: FrameType = sys._getframe()
    table.capture(frame)
    rows = [row for row in table.resolve() if isinstance(row, FrameRow)]
    assert all(owner_of(row.file) != "syncscope" for row in rows)
    assert rows[0].function == "test_own_frames_are_left_out"


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/venv/lib/python3.11/site-packages/torch/optim/adam.py", "torch"),
        ("/venv/lib/python3.11/site-packages/torchvision/ops/boxes.py", "library"),
        ("/usr/lib/python3/dist-packages/yaml/reader.py", "library"),
        (os.__file__, "library"),
        ("/home/me/train.py", "user"),
        ("<stdin>", "user"),
    ],
)
def test_the_owner_follows_from_the_path(path: str, owner: str) -> None:
    assert owner_of(path) == owner


def test_names_are_relative_to_the_working_folder_or_to_site_packages(tmp_path: Path) -> None:
    work = str(tmp_path)
    assert display_name(f"{work}/pkg/train.py", work) == "pkg/train.py"
    assert display_name("/v/site-packages/torch/nn/f.py", work) == "torch/nn/f.py"
    assert display_name("<string>", work) == "<string>"


def test_code_without_a_source_file_still_gives_a_line() -> None:
    table = StackTable()
    exec("probe.item()", {"probe": Probe(table)})
    frame = innermost(table)
    assert (frame.file, frame.line) == ("<string>", 1)


class Walk:
    """Calls as a tree says, with a burst asked about the stack at each leaf.

    A tree is a list of what is done in turn: a leaf, an inner tree in one of two ways, or a
    generator is run further from one of two lines.
    """

    def __init__(self) -> None:
        self.table = StackTable()
        self.burst = Burst(self.table)
        self.pairs: list[tuple[int, int]] = []

    def leaf(self) -> None:
        frame = sys._getframe(1)
        self.pairs.append((self.burst.id_of(frame), self.table.id_of(frame)))

    def run(self, tree: list[Any]) -> None:
        generator = self.steps()
        for kind, part in tree:
            if kind == "leaf":
                self.leaf()
            elif kind == "first":
                self.run(part)
            elif kind == "second":
                self.around(part)
            elif part:
                next(generator, None)
            else:
                self.resume(generator)

    def around(self, tree: list[Any]) -> None:
        self.run(tree)

    def steps(self) -> Iterator[None]:
        while True:
            self.inner()
            yield

    def inner(self) -> None:
        self.leaf()

    def resume(self, generator: Iterator[None]) -> None:
        next(generator, None)


TREES = st.recursive(
    st.lists(st.tuples(st.just("leaf"), st.just(0)), max_size=3),
    lambda inner: st.lists(
        st.tuples(st.sampled_from(("first", "second")), inner)
        | st.tuples(st.just("leaf"), st.just(0))
        | st.tuples(st.just("generator"), st.booleans()),
        max_size=6,
    ),
    max_leaves=12,
)


@given(TREES)
def test_a_burst_names_the_same_stacks_as_a_whole_look(tree: list[Any]) -> None:
    walk = Walk()
    for _ in range(2):
        walk.run(tree)
    assert all(short == whole for short, whole in walk.pairs)


def test_a_burst_is_not_misled_by_a_generator_that_another_line_runs_further() -> None:
    walk = Walk()
    walk.run([("generator", True), ("generator", False), ("generator", True)])
    first, second, third = (short for short, _ in walk.pairs)
    assert first == third != second
