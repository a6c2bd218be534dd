"""Columns of trace events, next to the same one by one with Python's own exact numbers."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.reader import Recording
from syncscope.recording.trace_columns import ODD, Codes, intervals_ns, whole_numbers
from syncscope.recording.trace_contents import TraceContents
from syncscope.recording.trace_events import TraceEvent
from syncscope.recording.trace_import import import_trace

KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "tid": 7, "ts": 1, "dur": 1}


def raws(*texts: str) -> list[msgspec.Raw]:
    """Values as a trace has them."""
    return [msgspec.Raw(text.encode()) for text in texts]


def events(*fields: dict[str, Any]) -> list[TraceEvent]:
    """Kernels that differ from `KERNEL` in some fields."""
    listed = [{**KERNEL, "args": {"device": 0, "stream": 7}, **each} for each in fields]
    return msgspec.json.decode(json.dumps(listed), type=list[TraceEvent])


@st.composite
def microseconds(draw: st.DrawFn, digits: int, limit: int) -> str:
    """A number as a trace may write it."""
    whole = draw(st.integers(0, limit))
    fraction = draw(st.text("0123456789", max_size=digits))
    text = f"{whole}.{fraction}" if fraction else str(whole)
    return draw(st.sampled_from([text, f'"{text}"']))


@pytest.mark.parametrize("digits", [3, 9])
@given(st.data())
def test_times_are_those_of_exact_arithmetic(digits: int, data: st.DataObject) -> None:
    pairs = st.tuples(microseconds(digits, 9 * 10**15), microseconds(digits, 10**14))
    starts, lengths = zip(*data.draw(st.lists(pairs, min_size=1, max_size=20)), strict=True)
    start_ns, end_ns = intervals_ns(raws(*starts), raws(*lengths))
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        first, span = Decimal(start.strip('"')), Decimal(length.strip('"'))
        assert start_ns[i] == round(first * 1000)
        assert end_ns[i] == round((first + span) * 1000)


@pytest.mark.parametrize(
    "odd",
    ["", "null", "true", '"soon"', "[1,\n2]", "[1]", "{}", "-1", "-9500000000000000", "1e300",
     "9300000000000000", '"NaN"', "9e15000000"],
)  # fmt: skip
@pytest.mark.parametrize("digits", ["1.25", "1.2345"])
def test_a_time_that_is_none_is_refused(odd: str, digits: str) -> None:
    with pytest.raises(ODD):
        intervals_ns(raws(digits, odd), raws("1", "1"))
    if odd != "-9500000000000000":
        with pytest.raises(ODD):
            intervals_ns(raws("1", digits), raws("1", odd))


def test_numbers_may_be_texts_and_none() -> None:
    assert whole_numbers([1, "2", "0x1F", None, 2**62]).tolist() == [1, 2, 31, -1, 2**62]
    assert whole_numbers([]).tolist() == []
    for odd in ("seven", 2**63, [1], {}, float("nan")):
        with pytest.raises(ODD):
            whole_numbers([1, odd])
    with pytest.raises(OverflowError):
        whole_numbers([2**31], np.int32)


def test_codes_count_what_is_new() -> None:
    codes: Codes[str] = Codes()
    assert codes.of(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert codes.of(["c", "a"]).tolist() == [2, 1]
    assert list(codes) == ["b", "a", "c"]


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_odd_events_take_no_sound_ones_with_them(sound: list[bool]) -> None:
    contents = TraceContents()
    contents.add(events(*({"ts": i} if good else {"ts": None} for i, good in enumerate(sound))))
    assert contents.lost == sound.count(False)
    kept = [1000 * i for i, good in enumerate(sound) if good]
    assert contents.activity.take().start_ns.tolist() == kept
    assert len(contents.activity) == 0


def test_without_correlation_ids_nothing_is_matched(tmp_path: Path) -> None:
    copy = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0}
    listed = [
        {**KERNEL, **copy, "args": {"device": 0, "bytes": 4}},
        {**KERNEL, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 5},
    ]
    (tmp_path / "t.json").write_text(json.dumps(listed))
    import_trace(tmp_path / "t.json", tmp_path / "run")
    transfers = Recording(tmp_path / "run").table("transfers")
    assert transfers[["thread_id", "start_ns", "op"]].to_numpy().tolist() == [[-1, 0, ""]]
