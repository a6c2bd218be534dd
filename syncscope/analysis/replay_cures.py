"""What a run would gain if lines were written otherwise, by replaying it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, innermost
from syncscope.analysis.replay import Outcome, Program
from syncscope.analysis.replay_work import COPIES, Numbers
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64

PINNED_RATES = {"B200": 54e9, "H200": 54e9, "H100": 54e9, "T4": 12e9, "V100": 12e9}
"""Bytes/s of a pinned copy where the recording has none to measure, by part of the GPU's
name: 85 % of the raw rate of PCIe 5.0 x16 or 3.0 x16 (NVIDIA's datasheets)."""

USUAL_PINNED_RATE = 25e9
"""The same for PCIe 4.0 x16, which most other GPUs have."""

NEEDLESS = ("created_on_host",)
"""Causes of copies that the advice does without."""

MEASURABLE_BYTES = 1 << 20
"""Smaller copies take longer than their bytes."""


@dataclass(frozen=True, slots=True)
class Cure:
    """How the calls of a site change: they do not wait any more; `pins`: their copies run
    at the rate of pinned memory; `vanishes`: their copies do not run at all."""

    site: str
    pins: bool = False
    vanishes: bool = False


def cure_of(site: str, kind: str, pageable: bool | None, cause: str) -> Cure:
    """What the advice for a site comes to: pinned memory for pageable copies, and no copy
    for what can be made on the device."""
    return Cure(site, pins=kind == "transfer" and pageable is True, vanishes=cause in NEEDLESS)


@dataclass(frozen=True, slots=True)
class Gain:
    """What cures gain. `moves_to` is the site where the host waits more instead, or None."""

    ns_per_step: int
    fraction: float
    moves_to: str | None


class WhatIf:
    """A recording that can be replayed with cures, and compared with itself unchanged.

    `calls` are those of the analysis, with their sites; `steps` the steady ones, whose edges
    are marks of the program; `device` the name of the GPU. A question costs one replay.
    `sites` are the ids by number; 0 stands for what no line is charged with.
    """

    def __init__(
        self, program: Program, calls: pd.DataFrame, steps: pd.DataFrame, device: str
    ) -> None:
        self.program, self._device, self._count = program, device, max(len(steps), 1)
        self._begin, self._end = (
            np.searchsorted(program.marks, int64(steps, name)) for name in ("start_ns", "end_ns")
        )
        work, runtime = program.work, program.runtime
        named, self.sites = pd.factorize(np.append("", calls["site_id"].to_numpy(dtype=object)))
        self._moved = np.flatnonzero(is_any(program.activity["direction"], COPIES)[work.row])
        self._of_wait: Ints = named[_claimed(runtime, program.waits.call, calls) + 1]
        self._of_copy: Ints = named[_claimed(runtime, work.call[self._moved], calls) + 1]
        self._number = {str(site): place for place, site in enumerate(self.sites)}
        self._waits = np.bincount(self._of_wait, minlength=len(self.sites))
        self._copies = np.bincount(self._of_copy, minlength=len(self.sites))
        self._waits[0] = self._copies[0] = 0
        self._gains: dict[frozenset[Cure], Gain] = {}

    @cached_property
    def baseline(self) -> Outcome:
        """The run replayed without a change."""
        return self.program.replay()

    @property
    def step_ns(self) -> float:
        """Mean length of a steady step of that."""
        return self._in_steps(self.baseline) / self._count

    @property
    def baseline_error(self) -> float:
        """How far that is off, as part of the recorded time: of the steps or of the whole
        run, whichever is worse. Positive where the replay takes longer."""
        recorded, replayed = self.program.recorded(), self.baseline
        steps, whole = self._in_steps(recorded), int(recorded.done_ns[-1] - self._origin)
        errors = (
            (self._in_steps(replayed) - steps) / max(steps, 1),
            int(replayed.done_ns[-1] - recorded.done_ns[-1]) / max(whole, 1),
        )
        return max(errors, key=abs)

    def without(self, cures: Collection[Cure]) -> Gain:
        """What the steady steps gain from all of the cures together. The same set of them is
        replayed once."""
        wanted = frozenset(cures)
        if wanted not in self._gains:
            before = self._in_steps(self.baseline)
            outcome = self.program.replay(*self._changes(wanted))
            gained = before - self._in_steps(outcome)
            self._gains[wanted] = Gain(
                ns_per_step=gained // self._count,
                fraction=gained / max(before, 1),
                moves_to=self._grown(outcome, wanted),
            )
        return self._gains[wanted]

    def cost(self, cure: Cure) -> int:
        """Steps of Python that replaying it takes, about; 0 if it changes nothing."""
        number = self._number.get(cure.site, 0)
        moves = (cure.pins or cure.vanishes) and self._copies[number] > 0
        if not moves and not self._waits[number]:
            return 0
        return self.program.size + moves * len(self.program.work.row) // 50

    @cached_property
    def _origin(self) -> int:
        work, waits = self.program.work, self.program.waits
        return int(min([*work.launch_ns[:1], *waits.start_ns[:1], *self.program.marks[:1]]))

    @cached_property
    def _pinned_ns(self) -> Ints:
        """Per copy how long it takes from or to pinned memory."""
        work, activity = self.program.work, self.program.activity
        row = work.row[self._moved]
        size = int64(activity, "size_bytes")[row]
        known = is_any(activity["memory"], ["pinned"])[row] & (size >= MEASURABLE_BYTES)
        spent = work.end_ns[self._moved] - work.start_ns[self._moved]
        rates = [rate for name, rate in PINNED_RATES.items() if name in self._device]
        length = np.zeros(len(size), dtype=np.int64)
        for direction in COPIES:
            mine = is_any(activity["direction"], [direction])[row]
            seen = mine & known & (spent > 0)
            rate = max(rates, default=USUAL_PINNED_RATE) / 1e9
            if seen.any():
                rate = float(np.median(size[seen] / spent[seen]))
            length[mine] = np.maximum(size[mine], 0) / rate
        return np.minimum(length, work.length_ns[self._moved])

    def _changes(self, cures: Collection[Cure]) -> tuple[Bools, Ints | None]:
        """Which waits are gone, and how long the activities take, None for as before."""
        named = np.isin(self.sites, [cure.site for cure in cures])
        named[0] = False
        pins = np.isin(self.sites, [cure.site for cure in cures if cure.pins])
        vanishes = np.isin(self.sites, [cure.site for cure in cures if cure.vanishes])
        gone = named[self._of_wait]
        if not (pins | vanishes).any():
            return gone, None
        length = self.program.work.length_ns.copy()
        own = np.where(pins[self._of_copy], self._pinned_ns, length[self._moved])
        length[self._moved] = np.where(vanishes[self._of_copy], 0, own)
        return gone, length

    def _in_steps(self, outcome: Outcome) -> int:
        return int((outcome.done_ns[self._end] - outcome.done_ns[self._begin]).sum())

    def _grown(self, outcome: Outcome, cures: Collection[Cure]) -> str | None:
        """The site whose waits grew most, if they took over a tenth of what the cured ones
        had."""
        more = np.zeros(len(self.sites), dtype=np.int64)
        np.add.at(more, self._of_wait, outcome.blocked_ns - self.baseline.blocked_ns)
        cured = np.isin(self.sites, [cure.site for cure in cures])
        had = -int(more[cured].sum())
        more[cured] = 0
        more[0] = 0
        most = int(more.argmax())
        return str(self.sites[most]) if more[most] * 10 > max(had, 0) and more[most] > 0 else None


def _claimed(runtime: pd.DataFrame, rows: Ints | Numbers, calls: pd.DataFrame) -> Ints:
    """The call that each of these rows of the runtime is part of, by its middle, or -1."""
    found = np.full(len(rows), -1, dtype=np.int64)
    starts, ends, threads = (
        int64(runtime, name)[rows] for name in ("start_ns", "end_ns", "thread_id")
    )
    middle = (starts + ends) // 2
    own = calls[calls["end_ns"] > calls["start_ns"]]
    for thread, group in own.groupby("thread_id"):
        mine = np.flatnonzero((threads == thread) & (rows >= 0))
        inner = innermost(middle[mine], int64(group, "start_ns"), int64(group, "end_ns"))
        found[mine[inner >= 0]] = group.index.to_numpy()[inner[inner >= 0]]
    return found
