"""From tables to a replay: a machine is simulated, and its recording must replay as it ran."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.analysis.replay import Program
from syncscope.analysis.replay_program import program_of
from syncscope.analysis.windows import int64
from syncscope.recording.manifest import Manifest

US = 1_000
CALL, LATENCY, RETURN = 3 * US, 2 * US, 1 * US
MANIFEST = Manifest(
    run_id="test", argv=(), simulated=False, imported=False, origin_unix_ns=0,
    versions={}, devices=(), collectors=(), threads=(), state="complete",
)  # fmt: skip
RUNTIME = ["thread_id", "start_ns", "end_ns", "name", "kind", "correlation_id"]
ACTIVITY = [
    "device", "stream", "start_ns", "end_ns", "kind", "name", "direction", "memory",
    "size_bytes", "correlation_id",
]  # fmt: skip


class Machine:
    """One host thread and FIFO streams, at constant costs. Calls in `freed` do not wait."""

    def __init__(self, freed: frozenset[int] = frozenset()) -> None:
        self.freed = freed
        self.now = 0
        self.waits = 0
        self.free = {7: 0, 8: 0}
        self.floor = 0
        self.runtime: list[tuple[Any, ...]] = []
        self.activity: list[tuple[Any, ...]] = []

    def own(self, us: int) -> None:
        self.now += us * US

    def call(self, name: str, kind: str, end: int) -> None:
        self.runtime.append((0, self.now, end, name, kind, len(self.runtime) + 1))
        self.now = end

    def run(self, stream: int, arrival: int, us: int, *what: Any) -> int:
        start = max(arrival, self.free[stream], self.floor)
        self.free[stream] = start + us * US
        self.activity.append((0, stream, start, self.free[stream], *what, len(self.runtime) + 1))
        return self.free[stream]

    def launch(self, stream: int, us: int) -> None:
        self.run(stream, self.now + CALL + LATENCY, us, "kernel", "k", "", "", 0)
        self.call("cudaLaunchKernel", "launch", self.now + CALL)

    def wait(self, name: str, kind: str, done: int) -> None:
        if self.waits in self.freed:
            self.floor = max(self.floor, done)
            done = self.now
        self.waits += 1
        self.call(name, kind, max(self.now, done) + RETURN)

    def sync(self, stream: int, us: int) -> None:
        self.wait("cudaStreamSynchronize", "sync", self.free[stream])

    def drain(self, stream: int, us: int) -> None:
        self.wait("cudaDeviceSynchronize", "sync", max(self.free.values()))

    def free_memory(self, stream: int, us: int) -> None:
        self.wait("cudaFree", "free", max(self.free.values()))

    def readback(self, stream: int, us: int) -> None:
        what = ("memcpy", "Memcpy DtoH", "d2h", "pinned", 4)
        self.run(stream, self.now + CALL + LATENCY, 1, *what)
        self.call("cudaMemcpyAsync", "memcpy", self.now + CALL)
        self.sync(stream, 0)

    def upload(self, stream: int, us: int) -> None:
        what = ("memcpy", "Memcpy HtoD", "h2d", "pageable", 1 << 20)
        done = self.run(stream, self.now + LATENCY, us, *what)
        self.wait("cudaMemcpyAsync", "memcpy", done)

    def order(self, stream: int, us: int) -> None:
        """A kernel on the other stream, behind all that was launched on this one."""
        other = 15 - stream
        self.launch(stream, us)
        self.call("cudaEventRecord", "event", self.now + RETURN)
        self.call("cudaStreamWaitEvent", "event", self.now + RETURN)
        self.free[other] = max(self.free[other], self.free[stream])
        self.launch(other, us)

    def program(self) -> Program:
        runtime = pd.DataFrame(self.runtime, columns=RUNTIME)
        activity = pd.DataFrame(self.activity, columns=ACTIVITY)
        windows = np.array([0]), np.array([self.now])
        steps = pd.DataFrame({"index": [0], "start_ns": [0], "end_ns": [self.now]})
        program = program_of(activity, runtime, windows, steps, MANIFEST, 0)
        assert program is not None
        return program

    @property
    def end(self) -> int:
        return max(self.now, *self.free.values())


WAITS = ("sync", "drain", "free_memory", "readback", "upload")
Ops = list[tuple[str, int, int, int]]


def ops(*kinds: str, streams: tuple[int, ...]) -> st.SearchStrategy[Ops]:
    """What is done, after how long, on which stream, and for how long (us)."""
    return st.lists(
        st.tuples(
            st.sampled_from(kinds), st.integers(0, 60), st.sampled_from(streams),
            st.integers(1, 200),
        ),
        max_size=30,
    )  # fmt: skip


def run(wanted: Ops, freed: frozenset[int] = frozenset()) -> Machine:
    """One op of each kind on an idle machine first: latencies are learnt from the recording."""
    machine = Machine(freed)
    for kind in ("launch", "readback", "upload", "drain"):
        machine.own(1_000)
        getattr(machine, kind)(7, 10)
    for kind, own, stream, us in wanted:
        machine.own(own)
        getattr(machine, kind)(stream, us)
    return machine


@settings(max_examples=60, deadline=None)
@given(ops("launch", "launch", "order", *WAITS, streams=(7, 8)))
def test_a_recorded_machine_replays_exactly_as_it_ran(wanted: Ops) -> None:
    machine = run(wanted)
    program = machine.program()
    assert program.recorded().done_ns.tolist() == [0, machine.end]
    assert program.replay().done_ns.tolist() == [0, machine.end]


@settings(max_examples=60, deadline=None)
@given(ops("launch", "launch", *WAITS, streams=(7,)), st.sets(st.integers(4, 30)))
def test_without_some_waits_the_replay_is_as_long_as_the_machine_would_run(
    wanted: Ops, freed: set[int]
) -> None:
    program = run(wanted).program()
    waiting = np.arange(len(program.waits.call))
    outcome = program.replay(np.isin(waiting, list(freed)))
    assert outcome.done_ns[-1] == run(wanted, frozenset(freed)).end


@settings(max_examples=60, deadline=None)
@given(ops("launch", "launch", "order", *WAITS, streams=(7, 8)), st.data())
def test_removing_waits_never_makes_a_recorded_machine_slower(wanted: Ops, data: Any) -> None:
    program = run(wanted).program()
    count = len(program.waits.call)
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=bool)
    assert program.replay(gone).done_ns[-1] <= program.replay().done_ns[-1]


def test_a_wait_is_charged_to_the_stream_that_ended_with_it() -> None:
    machine = run([("launch", 0, 7, 500), ("launch", 0, 8, 50), ("sync", 0, 7, 0)])
    program = machine.program()
    work, waits = program.work, program.waits
    last = waits.target[waits.first[-2] :]
    assert (work.queue_of(last), work.end_ns[last]) == ([0], [machine.free[7]])


def test_what_was_still_running_afterwards_was_not_waited_for() -> None:
    machine = run([("launch", 0, 7, 500)])
    machine.call("cudaStreamSynchronize", "sync", machine.now + RETURN)
    assert int64(machine.program().runtime, "start_ns")[-1] not in machine.program().waits.start_ns


def test_kernels_without_a_launch_start_where_they_were_seen() -> None:
    machine = run([("launch", 0, 7, 50), ("launch", 0, 7, 50), ("drain", 0, 7, 0)])
    machine.runtime = [row for row in machine.runtime if row[4] != "launch"]
    program = machine.program()
    assert (program.work.call[-2:] == -1).all()
    assert program.replay().done_ns.tolist() == program.recorded().done_ns.tolist()


def test_kernels_of_one_graph_launch_and_of_no_length_replay() -> None:
    machine = run([])
    number = len(machine.runtime) + 1
    for us in (0, 20, 0):
        machine.run(7, machine.now + CALL + LATENCY, us, "kernel", "k", "", "", 0)
    machine.call("cudaGraphLaunch", "launch", machine.now + CALL)
    machine.drain(7, 0)
    program = machine.program()
    assert [row[-1] for row in machine.activity[-3:]] == [number] * 3
    assert program.replay().done_ns.tolist() == [0, machine.end]


@pytest.mark.parametrize("empty", ["runtime", "activity"])
def test_where_one_side_is_missing_there_is_nothing_to_replay(empty: str) -> None:
    machine = run([])
    tables = {
        "runtime": pd.DataFrame(machine.runtime, columns=RUNTIME),
        "activity": pd.DataFrame(machine.activity, columns=ACTIVITY),
    }
    tables[empty] = tables[empty].iloc[:0]
    windows = np.array([0]), np.array([machine.now])
    steps = pd.DataFrame({"index": [0], "start_ns": [0], "end_ns": [machine.now]})
    assert program_of(tables["activity"], tables["runtime"], windows, steps, MANIFEST, 0) is None


def test_getting_memory_waits_only_if_it_did_wait() -> None:
    machine = run([("launch", 0, 7, 500)])
    machine.call("cudaMalloc", "malloc", machine.now + 50 * US)
    machine.drain(7, 0)
    machine.call("cudaMalloc", "malloc", machine.now + 50 * US)
    machine.launch(7, 500)
    machine.wait("cudaMalloc", "malloc", machine.free[7])
    program = machine.program()
    names = program.runtime["name"].to_numpy()[program.waits.call]
    blocked = program.replay().blocked_ns[names == "cudaMalloc"]
    assert blocked.tolist() == [0, 502 * US]  # the first one did not even wait for what ran
    assert program.replay().done_ns.tolist() == [0, machine.end]
    without_drain = program.replay(names == "cudaDeviceSynchronize")
    assert without_drain.blocked_ns[names == "cudaMalloc"][0] == 0


def test_a_launch_behind_a_full_queue_goes_on_as_room_is_made() -> None:
    machine = run([("launch", 0, 7, 50)] * 300)
    room = machine.activity[-200][3]
    machine.run(7, room + LATENCY, 50, "kernel", "k", "", "", 0)
    machine.call("cudaLaunchKernel", "launch", room)
    program = machine.program()
    assert program.runtime["name"].to_numpy()[program.waits.call[-1]] == "cudaLaunchKernel"
    shorter = program.replay(length_ns=program.work.length_ns // 2)
    assert shorter.blocked_ns[-1] < program.replay().blocked_ns[-1] / 1.9
