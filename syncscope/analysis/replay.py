"""Run a recording again, with some waits or copies changed, and see how long it takes.

Host lanes are sequences of own time and calls, queues are FIFO (`replay_work`), a blocking
call ends when what it waits for is done (`replay_waits`). Between two blocking calls of a
lane all its launches shift by the same time, so the work that they put into a queue acts on
it as one max-plus map: end = max(end before + duration, arrival + shift). These maps are
prefix sums and maxima over arrays; only the blocking calls are replayed one after the other.
Max-plus algebra: Baccelli, Cohen, Olsder, Quadrat, "Synchronization and Linearity", 1992.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints
from syncscope.analysis.replay_waits import Waits
from syncscope.analysis.replay_work import NEVER, Work

CALL_NS = 10_000
"""What is left of a call that does not wait any more, at most."""

_MARK, _STRETCH, _WAIT = range(3)

_Nodes: TypeAlias = list[tuple[int, int]]
_Places: TypeAlias = list[tuple[int, int, int, int, int]]
_Calls: TypeAlias = list[tuple[int, int, int, int, int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A replayed run: per mark when it was passed and all launched before it done; per wait
    how long the host stood still."""

    done_ns: Ints
    blocked_ns: Ints


class Program:
    """A recording made ready to be replayed, as often as wanted.

    `work` and `waits` were made of the tables `activity` and `runtime`, which they name by
    position. `marks` are moments of the host lane 0, rising. Making it costs O(n log n), a
    replay one vectorised pass over the activities and some 0.5 us per node: a stretch of
    work between blocking calls, a blocking call, a mark.
    """

    def __init__(
        self,
        activity: pd.DataFrame,
        runtime: pd.DataFrame,
        work: Work,
        waits: Waits,
        marks: Ints,
    ) -> None:
        self.activity, self.runtime = activity, runtime
        self.work, self.waits, self.marks = work, waits, marks
        self._first = _stretches(work, waits, marks)
        self._last = np.append(self._first[1:], len(work.queue))[: len(self._first)] - 1
        self._lanes = 1 + int(max(work.lane.max(initial=0), waits.lane.max(initial=0)))
        self._nodes, self._places, self._calls, self._targets = self._listed()

    @property
    def size(self) -> int:
        """How many steps of Python one replay takes."""
        return len(self._nodes)

    def recorded(self) -> Outcome:
        """The same figures of the run as it was recorded."""
        work, waits = self.work, self.waits
        order = np.argsort(work.launch_ns, kind="stable")
        reach = np.append(np.maximum.accumulate(work.end_ns[order]), NEVER)
        place = np.searchsorted(work.launch_ns[order], self.marks, side="left") - 1
        blocked = np.maximum(waits.end_ns - waits.start_ns - waits.fixed_ns, 0)
        return Outcome(np.maximum(self.marks, reach[place]), blocked)

    def replay(self, gone: Bools | None = None, length_ns: Ints | None = None) -> Outcome:
        """Run it without the waits in `gone` and with other lengths of the activities.

        What the lane of a removed wait launches next still starts after what was waited for,
        on whichever queue: the program relied on that.
        """
        busy, late = self._recorded_maps if length_ns is None else self._maps(length_ns)
        stays = [True] * len(self._calls) if gone is None else (~gone).tolist()
        shift, floor = [0] * self._lanes, [NEVER] * self._lanes
        free, done = [NEVER] * self.work.queues, [NEVER] * len(self._places)
        blocked, passed = [0] * len(self._calls), []
        places, calls, marks = self._places, self._calls, self.marks.tolist()
        for kind, index in self._nodes:
            if kind == _STRETCH:
                lane, queue, behind, slack, gap = places[index]
                begin = max(free[queue], floor[lane] - gap)
                if behind >= 0 and done[behind] + slack > begin:
                    begin = done[behind] + slack
                end, alone = begin + busy[index], late[index] + shift[lane]
                free[queue] = done[index] = alone if alone > end else end
            elif kind == _WAIT:
                lane, start, end, fixed, after = calls[index]
                over = max([done[target] for target in self._targets[index]])
                if stays[index]:
                    ready = start + shift[lane] + fixed
                    back = max(ready, over + after)
                else:
                    ready = back = start + shift[lane] + min(fixed, CALL_NS)
                    floor[lane] = max(floor[lane], over + min(after, 0))
                blocked[index] = back - ready
                shift[lane] = back - end
            else:
                passed.append(max([marks[index] + shift[0], *free]))
        return Outcome(np.array(passed, dtype=np.int64), np.array(blocked, dtype=np.int64))

    @cached_property
    def _recorded_maps(self) -> tuple[list[int], list[int]]:
        return self._maps(self.work.length_ns)

    def _maps(self, length: Ints) -> tuple[list[int], list[int]]:
        """Per stretch: how long it keeps its queue busy, and its end if the queue was empty."""
        work, first = self.work, self._first
        if not len(first):
            return [], []
        total = np.cumsum(work.gap_ns + length)
        before = total - work.gap_ns - length
        late = np.maximum.reduceat(work.arrival_ns - work.gap_ns - before, first)
        end = total[self._last]
        return (end - before[first]).tolist(), (late + end).tolist()

    def _listed(self) -> tuple[_Nodes, _Places, _Calls, list[list[int]]]:
        """What does not change from replay to replay, as lists: Python's fastest access."""
        work, waits, first = self.work, self.waits, self._first
        counts = (len(self.marks), len(first), len(waits.call))
        kind = np.repeat([_MARK, _STRETCH, _WAIT], counts)
        index = np.concatenate([np.arange(count) for count in counts])
        time = np.concatenate((self.marks, work.launch_ns[first], waits.start_ns))
        order = np.lexsort((index, kind, time))

        def stretch(activity: Ints) -> Ints:
            return np.searchsorted(first, activity, side="right") - 1

        after = work.after[first]
        behind = np.where(after >= 0, stretch(after), -1)
        gap = work.gap_ns[first]
        targets, bounds = stretch(waits.target).tolist(), waits.first.tolist()
        return (
            _rows(kind[order], index[order]),
            _rows(work.lane[first], work.queue[first], behind, work.after_gap_ns[first] - gap, gap),
            _rows(waits.lane, waits.start_ns, waits.end_ns, waits.fixed_ns, waits.after_ns),
            [targets[low:high] for low, high in pairwise(bounds)],
        )


def _rows(*columns: Ints) -> list[Any]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _stretches(work: Work, waits: Waits, marks: Ints) -> Ints:
    """Where in each queue a new stretch begins: of another lane, behind another wait of its
    lane or another mark, ordered behind another queue, or behind something waited for."""
    if not len(work.queue):
        return np.empty(0, dtype=np.int64)
    segment = np.searchsorted(marks, work.launch_ns, side="right")
    for lane in np.unique(work.lane):
        mine = work.lane == lane
        own = waits.start_ns[waits.lane == lane]
        segment[mine] += np.searchsorted(own, work.launch_ns[mine], side="left")
    begins = work.after >= 0
    awaited = np.concatenate((waits.target, work.after[begins])) + 1
    begins[awaited[awaited < len(begins)]] = True
    begins[0] = True
    for key in (work.queue, work.lane, segment):
        begins[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(begins)
