"""Fields of many trace events at once: exact times, whole numbers, codes for texts, tables.

What is odd raises one of `ODD` for the whole list; the caller sorts out whose fault it was.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Bools: TypeAlias = npt.NDArray[np.bool_]

ODD = (ValueError, TypeError, ArithmeticError)

_MICROSECONDS = pa.decimal128(19, 3)
_END_NS = 1 << 63


def intervals_ns(
    starts: Sequence[msgspec.Raw], lengths: Sequence[msgspec.Raw]
) -> tuple[Ints, Ints]:
    """Start and end in ns of intervals whose start and length are decimal microseconds.

    The numbers are those of the file, not rounded through a float: times since 1970 in ns do
    not fit one. Digits beyond a nanosecond are rounded, the end after the sum. Raises
    ValueError or ArithmeticError for what is no number, negative or beyond int64. Costs about
    0.3 us an interval, ten times as much where there are digits beyond a nanosecond.
    """
    try:
        start, length = _nanoseconds([*starts, *lengths]).reshape(2, -1)
        end = start + length
    except ValueError:
        start, end = _rounded(starts, lengths)
    if (start < 0).any() or (end < start).any():
        raise ValueError("negative time")
    return start, end


def _nanoseconds(numbers: Sequence[msgspec.Raw]) -> Ints:
    """Decimal numbers times 1000. Raises ValueError if that is not exact, or no int64."""
    lines = b"\n".join(numbers).replace(b'"', b"")
    limits = np.array([0, len(lines)], np.int32)
    text = pa.StringArray.from_buffers(1, pa.py_buffer(limits), pa.py_buffer(lines))
    decimals = pc.split_pattern(text, "\n").values.cast(_MICROSECONDS)
    # an Arrow decimal is the integer itself, in two words; the low one comes first
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)[: len(decimals)]
    if len(words) != len(numbers) or words[:, 1].any():
        raise ValueError("no list of times")
    return words[:, 0]


def _rounded(starts: Sequence[msgspec.Raw], lengths: Sequence[msgspec.Raw]) -> tuple[Ints, Ints]:
    pairs = []
    for start, length in zip(map(_decimal, starts), map(_decimal, lengths), strict=True):
        if not 0 <= start <= start + length < _END_NS // 1000:
            raise ValueError("a time beyond any clock")
        pairs.append((round(start * 1000), round((start + length) * 1000)))
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _decimal(number: msgspec.Raw) -> Decimal:
    return Decimal(bytes(number).decode().strip('"'))


def whole_numbers(values: Sequence[Any], kind: type[np.signedinteger[Any]] = np.int64) -> Ints:
    """Whole numbers that may be written as texts, decimal or 0x; None is -1.

    Raises TypeError, ValueError or OverflowError.
    """
    try:
        return np.fromiter(values, kind, len(values))
    except (TypeError, ValueError):
        return np.fromiter(map(_number, values), kind, len(values))


def _number(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 16 if value[:2].lower() == "0x" else 10)
    return -1 if value is None else int(value)


Key = TypeVar("Key", bound=Hashable)


class Codes(dict[Key, int]):
    """Numbers for different keys, from 0 in the order in which they come."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code

    def of(self, keys: Sequence[Key]) -> Ints:
        """The codes of keys; about 0.1 us each."""
        return np.fromiter(map(self.__getitem__, keys), np.int32, len(keys))


Columns = TypeVar("Columns", bound=NamedTuple)


class Table(Generic[Columns]):
    """Rows that arrive in parts, as a tuple of arrays each."""

    def __init__(self, columns: type[Columns]) -> None:
        self._columns = columns
        self._parts: list[Columns] = []

    def __len__(self) -> int:
        return sum(len(part[0]) for part in self._parts)

    def add(self, part: Columns) -> None:
        """Append rows."""
        self._parts.append(part)

    def take(self) -> Columns:
        """All rows, as one; the table is empty then."""
        parts, self._parts = self._parts, []
        if not parts:
            empty: Any = [np.empty(0, np.int64)] * len(self._columns._fields)
            return self._columns(*empty)
        return joined(parts)


def joined(parts: Sequence[Columns]) -> Columns:
    """Rows of tables, one after the other."""
    columns: Any = map(np.concatenate, zip(*parts, strict=True))
    return type(parts[0])(*columns)


def picked(rows: Columns, index: Ints | Bools | slice) -> Columns:
    """Some rows of a table, in the order of the index."""
    return type(rows)(*(column[index] for column in rows))
