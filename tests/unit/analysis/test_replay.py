"""The replay against a slow simulator that goes from event to event."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.analysis.replay import CALL_NS, Program
from syncscope.analysis.replay_waits import Waits
from syncscope.analysis.replay_work import Work

LANES, QUEUES_PER_LANE = 3, 2


@dataclass(frozen=True)
class Op:
    """What a host lane does after `own_ns` of its own: launch, wait or mark."""

    kind: str
    lane: int
    own_ns: int
    number: int
    queue: int = 0
    latency_ns: int = 0
    gap_ns: int = 0
    length_ns: int = 0
    after: int = -1
    after_gap_ns: int = 0
    targets: tuple[int, ...] = ()
    fixed_ns: int = 0
    return_ns: int = 0
    before: tuple[int, ...] = ()
    """Of a mark: what its lane launched before it."""


@dataclass
class Times:
    """What a simulation yields, by number of the launch, wait or mark."""

    launch: dict[int, int] = field(default_factory=dict)
    arrival: dict[int, int] = field(default_factory=dict)
    start: dict[int, int] = field(default_factory=dict)
    end: dict[int, int] = field(default_factory=dict)
    wait: dict[int, tuple[int, int]] = field(default_factory=dict)
    blocked: dict[int, int] = field(default_factory=dict)
    mark: dict[int, int] = field(default_factory=dict)
    passed: dict[int, int] = field(default_factory=dict)


class Simulator:
    """Runs ops one by one: a lane goes on once all that its next op needs is done."""

    def __init__(self, removed: frozenset[int] = frozenset()) -> None:
        self.removed = removed
        self.clock = [0] * LANES
        self.floor = [-(1 << 59)] * LANES
        self.free: dict[int, int] = {}
        self.times = Times()

    def can(self, op: Op) -> bool:
        needed = (*op.targets, *op.before, *([op.after] if op.after >= 0 else []))
        return all(number in self.times.end for number in needed)

    def step(self, op: Op) -> None:
        self.clock[op.lane] += op.own_ns
        getattr(self, op.kind)(op, self.clock[op.lane])

    def launch(self, op: Op, now: int) -> None:
        arrival = now + op.latency_ns
        start = max(arrival, self.free.get(op.queue, -(1 << 59)) + op.gap_ns, self.floor[op.lane])
        if op.after >= 0:
            start = max(start, self.times.end[op.after] + op.after_gap_ns)
        self.free[op.queue] = self.times.end[op.number] = start + op.length_ns
        self.times.launch[op.number], self.times.arrival[op.number] = now, arrival
        self.times.start[op.number] = start

    def wait(self, op: Op, now: int) -> None:
        over = max(self.times.end[number] for number in op.targets)
        if op.number in self.removed:
            self.floor[op.lane] = max(self.floor[op.lane], over)
            end = ready = now + min(op.fixed_ns, CALL_NS)
        else:
            ready = now + op.fixed_ns
            end = max(ready, over + op.return_ns)
        self.times.wait[op.number] = (now, end)
        self.times.blocked[op.number] = end - ready
        self.clock[op.lane] = end

    def mark(self, op: Op, now: int) -> None:
        self.times.mark[op.number] = now
        self.times.passed[op.number] = max([now, *(self.times.end[n] for n in op.before)])


def simulate(ops: list[Op], removed: frozenset[int] = frozenset()) -> Times:
    """Run lanes side by side; what shares a queue keeps its order."""
    simulator = Simulator(removed)
    lanes = [deque(op for op in ops if op.lane == lane) for lane in range(LANES)]
    while any(lanes):
        ready = [lane for lane in lanes if lane and simulator.can(lane[0])]
        assert ready, "the ops wait for each other"
        simulator.step(ready[0].popleft())
    return simulator.times


small = st.integers(0, 40)


@st.composite
def programs(draw: Any) -> list[Op]:
    """Lanes with queues of their own, which wait for, and order work behind, any queue."""
    simulator, ops, numbers = Simulator(), [], dict.fromkeys(("launch", "wait", "mark"), 0)
    for kind in draw(st.lists(st.sampled_from(["launch", "launch", "wait", "mark"]), max_size=40)):
        lane = 0 if kind == "mark" else min(range(LANES), key=lambda n: (simulator.clock[n], n))
        own = draw(st.integers(1, 50))
        now = simulator.clock[lane] + own
        known = [n for n, at in simulator.times.launch.items() if at < now]
        op = Op(kind, lane, own, numbers[kind])
        if kind == "launch":
            op = replace(
                op, queue=lane * QUEUES_PER_LANE + draw(st.integers(0, QUEUES_PER_LANE - 1)),
                latency_ns=draw(small), gap_ns=draw(small), length_ns=draw(st.integers(0, 200)),
                after=draw(st.sampled_from([-1, *known])), after_gap_ns=draw(small),
            )  # fmt: skip
        elif kind == "wait":
            if not known:
                continue
            targets = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3))
            op = replace(op, targets=tuple(targets), fixed_ns=draw(small), return_ns=draw(small))
        else:
            op = replace(op, before=tuple(known))
        numbers[kind] += 1
        simulator.step(op)
        ops.append(op)
    return settled(ops)


def settled(ops: list[Op]) -> list[Op]:
    """Marks know all that lane 0 launched before them, in whatever order the ops were drawn."""
    times = simulate(ops)
    own = [op.number for op in ops if op.kind == "launch" and op.lane == 0]
    return [
        replace(op, before=tuple(n for n in own if times.launch[n] < times.mark[op.number]))
        if op.kind == "mark"
        else op
        for op in ops
    ]


def ints(values: Any) -> Any:
    return np.array(list(values), dtype=np.int64)


def program_of(ops: list[Op], times: Times) -> Program:
    """What the analysis would know of a simulated run."""
    launches = sorted((op for op in ops if op.kind == "launch"), key=lambda op: op.queue)
    position = {op.number: index for index, op in enumerate(launches)}
    queues = [op.queue for op in launches]
    names = sorted(set(queues))
    numbers = [op.number for op in launches]
    work = Work(
        row=ints(numbers), call=ints(numbers), device=ints(0 for _ in names),
        bounds=ints([*map(queues.index, names), len(queues)]),
        lane=ints(op.lane for op in launches),
        launch_ns=ints(times.launch[n] for n in numbers),
        arrival_ns=ints(times.arrival[n] for n in numbers),
        gap_ns=ints(op.gap_ns for op in launches), length_ns=ints(op.length_ns for op in launches),
        after=ints(position.get(op.after, -1) for op in launches),
        after_gap_ns=ints(op.after_gap_ns for op in launches),
        start_ns=ints(times.start[n] for n in numbers), end_ns=ints(times.end[n] for n in numbers),
    )  # fmt: skip
    calls = sorted((op for op in ops if op.kind == "wait"), key=lambda op: times.wait[op.number])
    waits = Waits(
        call=ints(op.number for op in calls), lane=ints(op.lane for op in calls),
        start_ns=ints(times.wait[op.number][0] for op in calls),
        end_ns=ints(times.wait[op.number][1] for op in calls),
        fixed_ns=ints(op.fixed_ns for op in calls), after_ns=ints(op.return_ns for op in calls),
        first=ints(np.cumsum([0, *(len(op.targets) for op in calls)])),
        target=ints(position[target] for op in calls for target in op.targets),
    )  # fmt: skip
    return Program(None, None, work, waits, ints(sorted(times.mark.values())))


def passed(times: Times) -> list[int]:
    return [times.passed[number] for number in sorted(times.passed)]


@settings(deadline=None)
@given(programs())
def test_replaying_an_unchanged_program_reproduces_it_exactly(ops: list[Op]) -> None:
    times = simulate(ops)
    program = program_of(ops, times)
    outcome = program.replay()
    assert outcome.done_ns.tolist() == passed(times)
    assert outcome.done_ns.tolist() == program.recorded().done_ns.tolist()
    blocked = [times.blocked[number] for number in program.waits.call.tolist()]
    assert outcome.blocked_ns.tolist() == blocked


@settings(deadline=None)
@given(programs(), st.data())
def test_a_replay_with_changes_is_what_the_simulator_says(ops: list[Op], data: Any) -> None:
    waits = [op.number for op in ops if op.kind == "wait"]
    removed = frozenset(data.draw(st.sets(st.sampled_from(waits)))) if waits else frozenset()
    factor = data.draw(st.sampled_from([0, 1, 2, 5]))
    program = program_of(ops, simulate(ops))
    changed = [replace(op, length_ns=op.length_ns * factor) for op in ops]
    gone = np.isin(program.waits.call, list(removed))
    outcome = program.replay(gone, program.work.length_ns * factor)
    assert outcome.done_ns.tolist() == passed(simulate(changed, removed))


@settings(deadline=None)
@given(programs(), st.data())
def test_removing_waits_never_makes_a_run_longer(ops: list[Op], data: Any) -> None:
    program = program_of(ops, simulate(ops))
    count = len(program.waits.call)
    some = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=bool)
    more = some | np.array(
        data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), dtype=bool
    )
    unchanged, fewer, fewest = (program.replay(gone).done_ns for gone in (None, some, more))
    assert (fewer <= unchanged).all()
    assert (fewest <= fewer).all()


def test_a_wait_that_is_removed_can_move_to_the_next_one() -> None:
    ops = [
        Op("launch", 0, 1_000, 0, length_ns=100_000),
        Op("wait", 0, 1_000, 0, targets=(0,), fixed_ns=500, return_ns=500),
        Op("wait", 0, 1_000, 1, targets=(0,), fixed_ns=500, return_ns=500),
        Op("mark", 0, 1_000, 0, before=(0,)),
    ]
    program = program_of(ops, simulate(ops))
    assert program.replay().blocked_ns.tolist() == [99_000, 0]
    outcome = program.replay(np.array([True, False]))
    assert outcome.blocked_ns.tolist() == [0, 97_500]
    assert program.replay().done_ns - outcome.done_ns == [1_500]


@pytest.mark.parametrize("removed", [frozenset(), frozenset({0})])
def test_a_program_without_work_takes_its_own_time(removed: frozenset[int]) -> None:
    ops = [Op("mark", 0, 7, 0), Op("mark", 0, 5, 1)]
    assert program_of(ops, simulate(ops, removed)).replay().done_ns.tolist() == [7, 12]
