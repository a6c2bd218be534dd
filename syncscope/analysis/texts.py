"""Columns of few different texts: what is asked of a text is asked once, not once a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.intervals import Bools

Codes: TypeAlias = npt.NDArray[np.signedinteger]


_FEW = 8
"""So many comparisons of small numbers cost less than to look each one up."""


def coded(column: pd.Series) -> tuple[Codes, list[str]]:
    """A number for each row, and the text that each number stands for.

    Costs nothing where the column is one of categories, as those of large tables are.
    """
    texts = column.astype("category").array
    return texts.codes, [str(text) for text in texts.categories]


def which(column: pd.Series, wanted: Callable[[str], bool]) -> Bools:
    """The rows whose text is wanted. A pass over the numbers of a column of categories."""
    codes, texts = coded(column)
    chosen = [code for code, text in enumerate(texts) if wanted(text)]
    if len(chosen) <= _FEW:
        rows = np.zeros(len(codes), dtype=np.bool_)
        for code in chosen:
            rows |= codes == code
        return rows
    answers = np.zeros(len(texts) + 1, dtype=np.bool_)  # the last one is that of a missing text
    answers[chosen] = True
    return answers[codes]


def is_any(column: pd.Series, words: Collection[str]) -> Bools:
    """The rows whose text is one of the words."""
    return which(column, lambda text: text in words)


def matches(column: pd.Series, pattern: str) -> Bools:
    """The rows in whose text the pattern is found."""
    search = re.compile(pattern).search
    return which(column, lambda text: search(text) is not None)
