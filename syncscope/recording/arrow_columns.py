"""Arrow arrays of plain values, made from their bytes.

`pa.array` does the same, but imports pandas to see whether it was given some of its objects:
that would be 40 MB more in the program that is recorded. There are no nulls in a recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def batch_of(schema: pa.Schema, columns: Iterable[np.ndarray | pa.Array]) -> pa.RecordBatch:
    """Rows of a table, from one column for each field: numbers, or what is an Arrow array."""
    arrays = [
        numbers(column, field.type) if isinstance(column, np.ndarray) else column
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def array_of(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Numbers, flags, texts or lists of numbers. Costs about 0.1 us a value."""
    if pa.types.is_string(arrow_type):
        return _texts(values)
    if pa.types.is_list(arrow_type):
        offsets = _offsets(np.fromiter(map(len, values), np.int64, len(values)))
        items = array_of([item for value in values for item in value], arrow_type.value_type)
        return pa.Array.from_buffers(arrow_type, len(values), [None, offsets], children=[items])
    return numbers(np.array(values, str(arrow_type)), arrow_type)


def numbers(values: np.ndarray, arrow_type: pa.DataType) -> pa.Array:
    """Integers, floats or flags, whatever the array's own type and strides."""
    if pa.types.is_boolean(arrow_type):
        content = np.packbits(values, bitorder="little")
    else:
        content = np.ascontiguousarray(values, str(arrow_type))
    return pa.Array.from_buffers(arrow_type, len(values), [None, pa.py_buffer(content)])


def repeated_texts(texts: Sequence[str], codes: np.ndarray) -> pa.Array:
    """`texts[code]` for each code. Lone surrogates, as in the names of odd files, become "?"."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    content = pa.py_buffer(b"".join([encoded[code] for code in codes.tolist()]))
    buffers = [None, _offsets(lengths[codes]), content]
    return pa.Array.from_buffers(pa.string(), len(codes), buffers)


def _texts(values: Sequence[str]) -> pa.Array:
    codes = {text: code for code, text in enumerate(dict.fromkeys(values))}
    return repeated_texts(
        list(codes), np.fromiter(map(codes.__getitem__, values), np.int64, len(values))
    )


def _offsets(lengths: np.ndarray) -> pa.Buffer:
    """Where each item begins, and where the last one ends."""
    return pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
