"""Questions about columns of few different texts."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.texts import coded, is_any, matches

WORDS = [f"cuda{name}" for name in ("Launch", "Memcpy", "Free", "Malloc", "Event", "Stream")]
WORDS += [f"kernel_{number}" for number in range(8)]
texts = st.lists(st.sampled_from(WORDS), max_size=12)


@pytest.mark.parametrize("dtype", ["category", "str", object])
@given(texts, st.sets(st.sampled_from(WORDS)))
def test_rows_with_one_of_some_words_are_found(
    dtype: str | type, rows: list[str], words: set[str]
) -> None:
    column = pd.Series(rows, dtype=dtype)
    assert is_any(column, words).tolist() == [text in words for text in rows]


@pytest.mark.parametrize("dtype", ["category", "str", object])
@pytest.mark.parametrize("pattern", ["kernel", "Mem|Free", "^cuda", "nothing"])
def test_rows_that_a_pattern_is_found_in(dtype: str | type, pattern: str) -> None:
    found = matches(pd.Series(WORDS, dtype=dtype), pattern)
    assert found.tolist() == [bool(re.search(pattern, text)) for text in WORDS]


def test_a_missing_text_is_none_of_the_words() -> None:
    column = pd.Series(pd.Categorical.from_codes([-1, *range(len(WORDS))], WORDS))
    assert is_any(column, WORDS).tolist() == [False] + [True] * len(WORDS)
    assert is_any(column, WORDS[:2]).tolist() == [False, True, True] + [False] * (len(WORDS) - 2)


def test_the_numbers_of_categories_are_not_copied() -> None:
    column = pd.Series(WORDS, dtype="category")
    codes, names = coded(column)
    assert [names[code] for code in codes] == WORDS
    assert np.shares_memory(codes, column.array.codes)
