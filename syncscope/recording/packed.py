"""Runtime calls and device activity of a simulated GPU, kept as packed integers.

A launch is recorded once per operator: as tuples, its two rows would cost more than the rest
of its simulation. Here it is 72 bytes in a buffer, and becomes columns when it is flushed.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from syncscope.recording.arrow_columns import batch_of, repeated_texts
from syncscope.recording.writer import arrow_schema

NO_CALL = -1
"""In place of a thread: activity of the call before it."""
NO_ACTIVITY = -1
"""In place of a device: a call that starts nothing."""

_FIELDS = 9


class CallTexts(NamedTuple):
    """What is the same for many calls: texts of a `RuntimeRow` and of its `ActivityRow`."""

    call: str
    call_kind: str
    kind: str = ""
    name: str = ""
    direction: str = ""
    memory: str = ""


class PackedCalls:
    """A buffer of calls in the order in which they were made.

    `add(pack(...))` is safe from any thread. The nine integers are: thread (or NO_CALL), start
    and end of the call in ns, device (or NO_ACTIVITY), stream, begin and end of the activity in
    ns, its bytes, and the `code` of the texts. Correlation ids count the calls from 1.
    """

    pack = struct.Struct(f"{_FIELDS}q").pack

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.add = self._buffer.__iadd__
        self._codes: dict[CallTexts, int] = {}
        self._calls = 0

    def code(self, texts: CallTexts) -> int:
        """The number that stands for these texts."""
        return self._codes.setdefault(texts, len(self._codes))

    def take(self) -> list[tuple[str, pa.RecordBatch]]:
        """Batches of the tables "runtime" and "activity"; empties the buffer."""
        taken = bytes(self._buffer)
        if not taken:
            return []
        del self._buffer[: len(taken)]
        rows = np.frombuffer(taken, np.int64).reshape(-1, _FIELDS)
        is_call = rows[:, 0] != NO_CALL
        numbers = self._calls + np.cumsum(is_call)
        self._calls = int(numbers[-1])
        starts_something = rows[:, 3] != NO_ACTIVITY
        return [
            ("runtime", self._runtime(rows[is_call], numbers[is_call])),
            ("activity", self._activity(rows[starts_something], numbers[starts_something])),
        ]

    def _runtime(self, rows: np.ndarray, numbers: np.ndarray) -> pa.RecordBatch:
        thread, start, end, code = (rows[:, field] for field in (0, 1, 2, 8))
        texts = (self._texts(name, code) for name in ("call", "call_kind"))
        return batch_of(arrow_schema("runtime"), (thread, start, end, *texts, numbers))

    def _activity(self, rows: np.ndarray, numbers: np.ndarray) -> pa.RecordBatch:
        device, stream, begin, end, size, code = rows[:, 3:].T
        texts = (self._texts(name, code) for name in ("kind", "name", "direction", "memory"))
        columns = (device, stream, begin, end, *texts, size, numbers)
        return batch_of(arrow_schema("activity"), columns)

    def _texts(self, field: str, codes: np.ndarray) -> pa.Array:
        return repeated_texts([getattr(texts, field) for texts in list(self._codes)], codes)
