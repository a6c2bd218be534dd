"""Call stacks of a recording, and the place in them at which an event is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pandas as pd

_PLUMBING = (
    "torch/__init__.py",
    "torch/_tensor.py",
    "torch/_tensor_str.py",
    "torch/functional.py",
    "torch/overrides.py",
    "torch/_ops.py",
    "torch/_jit_internal.py",
    "torch/_utils.py",
    "torch/utils/_contextlib.py",
    "torch/utils/_device.py",
    "torch/cuda/__init__.py",
    "torch/cuda/streams.py",
    "torch/nn/modules/module.py",
    "contextlib.py",
    "functools.py",
)
"""Files that only pass a call on: who called them owns what happens there."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A row of the table `frames`."""

    id: int
    file: str
    function: str
    line: int
    end_line: int
    column: int
    end_column: int
    expression: str
    owner: str


UNKNOWN_FRAME = Frame(-1, "(unknown)", "", -1, -1, -1, -1, "", "torch")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an event is shown: the innermost frame of the user, else of a library, else torch's.

    `inner` are the frames that it called, innermost first; `stack` the whole call stack,
    innermost first; `owner` says who wrote the call that waited.
    """

    frame: Frame
    inner: tuple[Frame, ...]
    stack: tuple[Frame, ...]
    owner: str

    @property
    def library_line(self) -> str | None:
        """The innermost line below the shown one that does more than pass a call on."""
        below = (frame for frame in self.inner if frame.file not in _PLUMBING)
        return next((f"{frame.file}:{frame.line}" for frame in below), None)

    @property
    def known(self) -> bool:
        """Whether there is a line to show."""
        return self.frame is not UNKNOWN_FRAME


_NOWHERE = Place(UNKNOWN_FRAME, (), (), "torch")


class Stacks:
    """Looks up places by stack id. Each stack is resolved once."""

    def __init__(self, frames: pd.DataFrame, stacks: pd.DataFrame) -> None:
        self._frames = {
            row[0]: _only_header(Frame(*row)) for row in frames.itertuples(index=False, name=None)
        }
        self._stacks = {
            int(number): [int(frame) for frame in frame_ids]
            for number, frame_ids in zip(stacks["stack_id"], stacks["frame_ids"], strict=True)
        }
        self._places: dict[int, Place] = {}

    def place(self, stack_id: int) -> Place:
        """The place of a stack; one with `known` false for an id without frames."""
        place = self._places.get(stack_id)
        if place is None:
            ids = self._stacks.get(stack_id, [])
            place = _place(tuple(self._frames[i] for i in ids if i in self._frames))
            self._places[stack_id] = place
        return place


_COMPOUND = re.compile(r"(?:async\s+)?(?:with|for|while|if|try|match)\b")


def _only_header(frame: Frame) -> Frame:
    """A frame whose position is a whole compound statement, cut to its first line.

    That is where Python puts the calls of a `with` statement: its body has no part in them.
    """
    if frame.end_line <= frame.line or not _COMPOUND.match(frame.expression):
        return frame
    header = frame.expression.partition("\n")[0].rstrip()
    header = header.partition(":  #")[0].removesuffix(":")
    end_column = frame.column + len(header) if frame.column > 0 else -1
    return replace(frame, end_line=frame.line, end_column=end_column, expression=header)


def _place(stack: tuple[Frame, ...]) -> Place:
    if not stack:
        return _NOWHERE
    owners = [frame.owner for frame in stack]
    shown = next(owners.index(owner) for owner in (*_ORDER, owners[0]) if owner in owners)
    inner = stack[:shown]
    writers = [frame for frame in inner if frame.file not in _PLUMBING]
    return Place(stack[shown], inner, stack, writers[0].owner if writers else stack[shown].owner)


_ORDER = ("user", "library", "torch")
