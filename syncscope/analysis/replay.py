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
from typing import TypeAlias

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints
from syncscope.analysis.replay_waits import Waits
from syncscope.analysis.replay_work import NEVER, Work, launched_by

CALL_NS = 10_000
"""What is left of a call that does not wait any more, at most."""

_MARK, _STRETCH, _WAIT = range(3)

_Nodes: TypeAlias = list[list[int]]
"""Columns: kind, index among its kind, lane; then of a mark its time, of a stretch queue, stretch
that it is ordered behind, slack and gap, of a wait start, end, fixed_ns, after_ns and the one
stretch that it waits for, -1 for several."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A replayed run: per mark when lane 0 had passed it and all that it launched before was
    done; per wait how long the host stood still."""

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
        self._last = np.append(self._first[1:], len(work.row))[: len(self._first)] - 1
        self._lanes = 1 + int(max(work.lane.max(initial=0), waits.lane.max(initial=0)))
        self._nodes, self._targets = self._listed()

    @property
    def size(self) -> int:
        """How many steps of Python one replay takes."""
        return len(self._nodes[0])

    def recorded(self) -> Outcome:
        """The same figures of the run as it was recorded."""
        waits = self.waits
        blocked = np.maximum(waits.end_ns - waits.start_ns - waits.fixed_ns, 0)
        return Outcome(self.done_by(self.marks), blocked)

    def done_by(self, moments: Ints) -> Ints:
        """When all that the first lane had launched until each moment was done, as recorded."""
        work, done = self.work, moments
        for own in launched_by(work.lane, work.bounds, 0):
            place = np.searchsorted(work.launch_ns[own], moments, side="left") - 1
            done = np.where(place >= 0, np.maximum(done, work.end_ns[own[place]]), done)
        return done

    def replay(self, gone: Bools | None = None, length_ns: Ints | None = None) -> Outcome:
        """Run it without the waits in `gone` and with other lengths of the activities.

        What the lane of a removed wait launches next still starts after what was waited for,
        on whichever queue: the program relied on that.
        """
        busy, late = self._recorded_maps if length_ns is None else self._maps(length_ns)
        targets = self._targets
        stays = [True] * len(self.waits.call) if gone is None else (~gone).tolist()
        shift, floor, reach = [0] * self._lanes, [NEVER] * self._lanes, NEVER
        free, done = [NEVER] * self.work.queues, [NEVER] * len(busy)
        blocked, passed = [0] * len(stays), []
        for kind, index, lane, a, b, c, d, target in zip(*self._nodes, strict=True):
            if kind == _STRETCH:
                queue, behind, slack, gap = a, b, c, d
                begin, held = free[queue], floor[lane] - gap
                if held > begin:
                    begin = held
                if behind >= 0 and done[behind] + slack > begin:
                    begin = done[behind] + slack
                end, alone = begin + busy[index], late[index] + shift[lane]
                if alone > end:
                    end = alone
                free[queue] = done[index] = end
                if lane == 0 and end > reach:
                    reach = end
            elif kind == _WAIT:
                start, end, fixed, after = a, b, c, d
                over = done[target] if target >= 0 else max([done[t] for t in targets[index]])
                if stays[index]:
                    ready = start + shift[lane] + fixed
                    back = max(ready, over + after)
                else:
                    ready = back = start + shift[lane] + min(fixed, CALL_NS)
                    floor[lane] = max(floor[lane], over + min(after, 0))
                blocked[index] = back - ready
                shift[lane] = back - end
            else:
                passed.append(max(a + shift[0], reach))
        return Outcome(np.array(passed, dtype=np.int64), np.array(blocked, dtype=np.int64))

    @cached_property
    def _recorded_maps(self) -> tuple[list[int], list[int]]:
        return self._maps(self.work.length_ns)

    def _maps(self, length: Ints) -> tuple[list[int], list[int]]:
        """Per stretch: how long it keeps its queue busy, and its end if the queue was empty."""
        work, first = self.work, self._first
        if not len(first):
            return [], []
        spent = work.gap_ns + length
        total = np.cumsum(spent)
        slack = work.arrival_ns - total
        slack += length
        late = np.maximum.reduceat(slack, first)
        end = total[self._last]
        return (end - total[first] + spent[first]).tolist(), (late + end).tolist()

    def _listed(self) -> tuple[_Nodes, dict[int, list[int]]]:
        """What does not change from replay to replay, as lists: Python's fastest access. The
        nodes, and the stretches that each wait for several waits for."""
        work, waits, first = self.work, self.waits, self._first

        def stretch(activity: Ints) -> Ints:
            return np.searchsorted(first, activity, side="right") - 1

        lane, after = (column[first].astype(np.int64) for column in (work.lane, work.after))
        gap, queue = work.gap_ns[first], work.queue_of(first)
        behind = np.where(after >= 0, stretch(after), -1)
        slack = work.after_gap_ns[first] - gap
        targets, bounds = stretch(waits.target), waits.first
        several = np.flatnonzero(np.diff(bounds) > 1)
        single = targets[bounds[:-1]]
        single[several] = -1
        table = np.concatenate(
            (
                _rows(_MARK, self.marks, 0, self.marks, 0, 0, 0, -1),
                _rows(_STRETCH, work.launch_ns[first], lane, queue, behind, slack, gap, -1),
                _rows(_WAIT, waits.start_ns, waits.lane, waits.start_ns, waits.end_ns,
                      waits.fixed_ns, waits.after_ns, single),
            )
        )  # fmt: skip
        order = np.lexsort((table[:, 2], table[:, 1], table[:, 0]))
        return [column[order].tolist() for column in table.T[1:]], {
            wait: targets[bounds[wait] : bounds[wait + 1]].tolist() for wait in several.tolist()
        }


def _rows(kind: int, time: Ints, *columns: Ints | int) -> Ints:
    """A table of the columns time, kind, index, and those given."""
    return np.column_stack(np.broadcast_arrays(time, kind, np.arange(len(time)), *columns))


def _stretches(work: Work, waits: Waits, marks: Ints) -> Ints:
    """Where in each queue a new stretch begins: of another lane, behind another wait of its
    lane or another mark, ordered behind another queue, or behind something waited for."""
    begins = work.after >= 0
    awaited = np.concatenate((waits.target, work.after[begins].astype(np.int64))) + 1
    begins[awaited[awaited < len(begins)]] = True
    begins[work.bounds[:-1]] = True
    begins[1:] |= work.lane[1:] != work.lane[:-1]
    for low, high in pairwise(work.bounds.tolist()):
        launch = work.launch_ns[low:high]
        mark = np.searchsorted(launch, marks, side="left")
        begins[low + mark[mark < len(launch)]] = True
        wait = np.searchsorted(launch, waits.start_ns, side="right")
        inside = np.flatnonzero(wait < len(launch))
        place = low + wait[inside]
        begins[place[work.lane[place] == waits.lane[inside]]] = True
    return np.flatnonzero(begins)
