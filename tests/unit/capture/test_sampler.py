"""A sample names the line of a runtime call that no hook saw; nothing else is kept."""

from __future__ import annotations

import threading
import time
import weakref

import pytest

from syncscope.capture.sampler import Sampler
from syncscope.context import CaptureContext
from syncscope.recording.tables import BlockingRow, FrameRow, RuntimeRow


def sleeping(context: CaptureContext, spans: list[tuple[int, int, int]]) -> None:
    start_ns = context.now()
    time.sleep(0.1)  # stands for a call that waits in C
    spans.append((context.threads.current(), start_ns, context.now()))


def sampled_sleep(context: CaptureContext, sampler: Sampler) -> tuple[int, int, int]:
    """A thread that waits while it is sampled: its number, and when it began and ended to."""
    spans: list[tuple[int, int, int]] = []
    sampler.begin()
    thread = threading.Thread(target=sleeping, args=(context, spans))
    thread.start()
    thread.join()
    return spans[0]


def test_a_call_that_waits_in_c_gets_the_line_that_made_it(context: CaptureContext) -> None:
    sampler = Sampler(context)
    number, start_ns, end_ns = sampled_sleep(context, sampler)
    calls = [
        RuntimeRow(number, start_ns, end_ns, "cudaFree", "free", 1),
        RuntimeRow(number, start_ns, start_ns + 1000, "cudaFree", "free", 3),
        RuntimeRow(99, start_ns, end_ns, "cudaFree", "free", 4),
    ]
    sampler.end(calls)
    (row,) = context.writer.rows("blocking")
    assert isinstance(row, BlockingRow)
    assert (row.source, row.kind, row.start_ns, row.end_ns) == (
        "sampled",
        "allocator",
        start_ns,
        end_ns,
    )
    frames = [found for found in context.stacks.resolve() if isinstance(found, FrameRow)]
    assert frames[0].function == "sleeping"
    assert frames[0].expression == "time.sleep(0.1)"


def test_what_frees_memory_for_a_sampled_allocation_has_its_line(context: CaptureContext) -> None:
    sampler = Sampler(context)
    number, start_ns, end_ns = sampled_sleep(context, sampler)
    calls = [
        RuntimeRow(number, start_ns - 9_000_000, start_ns - 8_000_000, "cudaFree", "free", 1),
        RuntimeRow(number, start_ns - 3_000_000, start_ns - 1_000_000, "cudaFree", "free", 2),
        RuntimeRow(number, start_ns - 950_000, start_ns - 20_000, "cudaFree", "free", 3),
        RuntimeRow(number, start_ns, end_ns, "cudaMalloc", "malloc", 5),
        RuntimeRow(number, end_ns + 10_000, end_ns + 2_000_000, "cudaFree", "free", 6),
    ]
    sampler.end(calls)
    rows = [row for row in context.writer.rows("blocking") if isinstance(row, BlockingRow)]
    assert sorted(row.start_ns for row in rows) == [call.start_ns for call in calls[1:4]]
    assert len({row.stack_id for row in rows}) == 1


def test_windows_follow_each_other_and_no_thread_stays(context: CaptureContext) -> None:
    sampler = Sampler(context)
    for _ in range(3):
        sampler.begin()
        sampler.end(())
    sampler.end(())
    assert not [t for t in threading.enumerate() if t.name == "syncscope-sampler"]
    assert context.writer.rows("blocking") == []


@pytest.mark.usefixtures("uncollected")
def test_samples_keep_no_variable_of_the_program(context: CaptureContext) -> None:
    class Variable:
        pass

    def sampled() -> weakref.ref[Variable]:
        variable = Variable()
        time.sleep(0.05)
        return weakref.ref(variable)

    sampler = Sampler(context)
    sampler.begin()
    kept = [sampled() for _ in range(3)]
    sampler.end(())
    assert [variable() for variable in kept] == [None] * 3
