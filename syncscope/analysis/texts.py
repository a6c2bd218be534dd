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


def coded(column: pd.Series) -> tuple[Codes, list[str]]:
    """A number for each row, and the text that each number stands for.

    Costs nothing where the column is one of categories, as those of large tables are.
    """
    texts = pd.Categorical(column)
    return texts.codes, [str(text) for text in texts.categories]


def which(column: pd.Series, wanted: Callable[[str], bool]) -> Bools:
    """The rows whose text is wanted. One pass over the numbers of a column of categories."""
    codes, texts = coded(column)
    answers = np.array([*map(wanted, texts), False], dtype=np.bool_)
    return answers[codes]


def is_any(column: pd.Series, words: Collection[str]) -> Bools:
    """The rows whose text is one of the words."""
    return which(column, lambda text: text in words)


def matches(column: pd.Series, pattern: str) -> Bools:
    """The rows in whose text the pattern is found."""
    search = re.compile(pattern).search
    return which(column, lambda text: search(text) is not None)
