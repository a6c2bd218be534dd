"""The Python stack of each thread, up to 1000 times a second, for calls that no hook saw.

A sample that was taken while a call of the runtime ran names the line that made the call,
because a thread's Python frames stand still while it is in C. A call shorter than INTERVAL_S
may be missed: on an H200, of 90 waits in cudaFree, of which half took longer than 1.3 to 1.5 ms,
85 were hit; at half the rate 42, of which half took longer than 1.0 to 1.2 ms. Cost: not to be
told from that at half the rate on its launch-bound loop (x1.00, quartiles 0.92 and 1.10); x1.05
to x1.09 of a loop of short operators on two CPU cores (x1.03 to x1.05 at half the rate).

A function that ended while it is looked at would leave its variables to this thread. Of 215,000
prints of a tensor none did, some of them beside more busy threads and processes than CPU cores.
"""

from __future__ import annotations

import sys
import threading
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from types import FrameType

from syncscope.callsite import Stack, key_of, stack_at
from syncscope.context import CaptureContext
from syncscope.own_threads import start_own
from syncscope.recording.tables import BlockingRow, RuntimeRow

INTERVAL_S = 0.001
CLOCK_TOLERANCE_NS = 20_000
"""How far the clocks of Python and CUPTI may disagree; a slower sample is thrown away."""

UNDISTURBED_NS = 1_000_000
"""Longer looking at stacks may have been interrupted: Python switches threads after 5 ms."""

RETRY_NS = 50_000
"""So soon after freeing memory an allocator asks for it again (7 to 28 us on an H200)."""


class Sampler:
    """Samples between `begin` and `end`. Rows name their source as "sampled"."""

    name = "sampler"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("blocking")
        self._threads: dict[int, _Samples] = {}
        self._stacks: list[Stack] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._last: dict[int, tuple[Stack, int]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the sampling thread."""
        self._stopped.clear()
        self._thread = start_own(self._loop, "sampler")

    def end(self, calls: Iterable[RuntimeRow]) -> None:
        """Stop sampling; append a row for each of the calls, which may wait, that a sample hit."""
        if self._thread is None:
            return
        self._stopped.set()
        self._thread.join()
        self._thread = None
        for call, number in self._hit(calls):
            stack_id = self._context.stacks.intern(self._stacks[number])
            self._rows.append(
                BlockingRow(
                    call.thread_id, call.start_ns, call.end_ns, stack_id,
                    "sampled", "", _kind(call), False, "",
                )
            )  # fmt: skip
        for seen in (self._threads, self._stacks, self._numbers, self._last):
            seen.clear()

    def _hit(self, calls: Iterable[RuntimeRow]) -> Iterator[tuple[RuntimeRow, int]]:
        """Calls that were hit by a sample, with the number of its stack; the last one first.

        An allocator that frees memory to get memory is one call of the program: what frees
        has the line of the allocation right behind it.
        """
        later: dict[int, tuple[RuntimeRow, int]] = {}
        for call in sorted(calls, key=lambda call: -call.start_ns):
            samples = self._threads.get(call.thread_id)
            number = samples.within(call.start_ns, call.end_ns) if samples is not None else -1
            if number < 0 and call.kind == "free" and call.thread_id in later:
                behind, of_behind = later[call.thread_id]
                close = 0 <= behind.start_ns - call.end_ns <= RETRY_NS
                number = of_behind if close and behind.kind in ("malloc", "free") else -1
            later[call.thread_id] = call, number
            if number >= 0:
                yield call, number

    def _loop(self) -> None:
        own = {t.ident for t in threading.enumerate() if t.name.startswith("syncscope-")}
        while not self._stopped.wait(INTERVAL_S):
            self._sample(own)

    def _sample(self, own: set[int | None]) -> None:
        context = self._context
        before_ns = context.now()
        frames = sys._current_frames()
        now_ns = context.now()
        found = [(i, self._number(i, frame)) for i, frame in frames.items() if i not in own]
        frames.clear()  # this function's own is among them and holds them all
        if now_ns - before_ns <= CLOCK_TOLERANCE_NS and context.now() - now_ns <= UNDISTURBED_NS:
            for ident, number in found:
                self._samples(context.threads.of(ident)).add(now_ns, number)

    def _number(self, ident: int, frame: FrameType) -> int:
        last = self._last.get(ident)
        if last is not None and last[0].is_at(frame):
            return last[1]
        number = self._numbers.get(key_of(frame))
        if number is None:
            stack = stack_at(frame)  # not always of that key: the thread may have gone on
            number = self._numbers.setdefault(stack.key, len(self._stacks))
            if number == len(self._stacks):
                self._stacks.append(stack)
        self._last[ident] = self._stacks[number], number
        return number

    def _samples(self, thread_id: int) -> _Samples:
        samples = self._threads.get(thread_id)
        if samples is None:
            samples = self._threads[thread_id] = _Samples()
        return samples


class _Samples:
    """Moments and stacks of one thread, 16 bytes each."""

    def __init__(self) -> None:
        self._times = array("q")
        self._numbers = array("q")

    def add(self, time_ns: int, number: int) -> None:
        self._times.append(time_ns)
        self._numbers.append(number)

    def within(self, start_ns: int, end_ns: int) -> int:
        """The first stack sampled well inside an interval, or -1."""
        index = bisect_left(self._times, start_ns + CLOCK_TOLERANCE_NS)
        inside = index < len(self._times) and self._times[index] <= end_ns - CLOCK_TOLERANCE_NS
        return self._numbers[index] if inside else -1


def _kind(call: RuntimeRow) -> str:
    return "allocator" if call.kind in ("malloc", "free") else "sync"
