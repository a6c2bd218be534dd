"""Arrays made from bytes hold what they were made of."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.arrow_columns import array_of, numbers, repeated_texts

NUMBER = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
COLUMN = st.one_of(
    st.tuples(st.just(pa.int64()), st.lists(NUMBER)),
    st.tuples(st.just(pa.int32()), st.lists(st.integers(-(2**31), 2**31 - 1))),
    st.tuples(st.just(pa.float64()), st.lists(st.floats(allow_nan=False))),
    st.tuples(st.just(pa.bool_()), st.lists(st.booleans())),
    st.tuples(st.just(pa.string()), st.lists(TEXT)),
    st.tuples(st.just(pa.list_(pa.int64())), st.lists(st.lists(NUMBER))),
)


@given(COLUMN)
def test_an_array_holds_the_values(column: tuple[pa.DataType, list[Any]]) -> None:
    arrow_type, values = column
    made = array_of(tuple(values), arrow_type)
    made.validate(full=True)
    assert made.to_pylist() == values
    assert made.null_count == 0


@given(st.lists(TEXT, min_size=1), st.data())
def test_repeated_texts_are_written_out(texts: list[str], data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    made = repeated_texts(texts, np.array(codes, np.int64))
    assert made.to_pylist() == [texts[code] for code in codes]


def test_a_column_of_a_matrix_has_strides() -> None:
    matrix = np.arange(12).reshape(4, 3)
    assert numbers(matrix[:, 1], pa.int32()).to_pylist() == [1, 4, 7, 10]


def test_half_a_character_becomes_a_question_mark() -> None:
    assert array_of(("a\udc80", "é"), pa.string()).to_pylist() == ["a?", "é"]


@pytest.mark.parametrize("values", [(None,), (2**63,), ("a",)])
def test_what_is_no_number_is_an_error(values: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, OverflowError, ValueError)):
        array_of(values, pa.int64())


def test_pandas_stays_away() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from syncscope.recording.arrow_columns import array_of\n"
        "array_of((1, 2), pa.int64()), array_of(('a',), pa.string())\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
