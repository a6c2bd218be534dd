"""From event tables to tracks: which events share a lane, a colour and a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from syncscope.analysis.launch_pace import is_other_work
from syncscope.analysis.result import Analysis
from syncscope.reports.figures import HOST_WORK
from syncscope.reports.marks import Integers, Marks, Shares, sorted_marks
from syncscope.reports.sites import DIRECTIONS
from syncscope.reports.visible_text import visible
from syncscope.units import byte_size

ENGINES = {"h2d": "copies to GPU{}", "d2h": "copies from GPU{}"}
MAX_STREAMS = 24
MAX_THREADS = 16
MAX_LABELS = 5_000
"""Distinct names in a report; a program that generates kernels may have any number."""
OTHER = "one of many more names"


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline; `group` is host, gaps, engine or stream; `device` is -1 for the host.

    `key` is the thread's or the stream's id, the place in DIRECTIONS of an engine's copies, -1 for
    gaps.
    """

    group: str
    device: int
    key: int
    label: str


@dataclass(frozen=True)
class Track:
    """All marks of one kind in one lane. `kind` chooses the colour.

    `fill` is the share of each slot of the timeline that they cover, of `marks.FULL`.
    """

    lane: Lane
    kind: str
    marks: Marks
    fill: Shares = field(default_factory=lambda: np.empty(0, dtype=np.uint16))


class Labels:
    """Small numbers for texts, in the order in which they first appear."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def of(self, texts: Iterable[str], shown: Callable[[str], str]) -> Integers:
        """A number for each text; what is shown for it is worked out once per distinct text."""
        codes, distinct = pd.factorize(np.array(list(texts), dtype=object))
        numbers = np.array([self._number(shown(text)) for text in distinct], dtype=np.int64)
        numbered: Integers = numbers[codes] if len(codes) else numbers
        return numbered

    def _number(self, text: str) -> int:
        if text not in self._numbers and len(self.texts) >= MAX_LABELS:
            text = OTHER
        known = self._numbers.setdefault(text, len(self.texts))
        if known == len(self.texts):
            self.texts.append(text)
        return known


def host_tracks(
    analysis: Analysis, labels: Labels, sites: Mapping[str, int]
) -> tuple[list[Track], str]:
    """Blocking calls, transfers, collections and DataLoader waits: one lane per thread.

    Also returns a note for the reader where threads were left out, else "".
    """
    calls = analysis.calls.assign(shown_kind=_kinds_of_calls(analysis.calls))
    threads = pd.concat([calls["thread_id"], analysis.host["thread_id"]]).value_counts()
    names = {thread.id: thread.name for thread in analysis.manifest.threads}
    tracks = []
    for thread in sorted(threads.index[:MAX_THREADS].tolist()):
        lane = Lane("host", -1, int(thread), visible(names.get(thread) or f"thread {thread}", 24))
        own = calls[calls["thread_id"] == thread]
        for kind, rows in own.groupby("shown_kind", sort=True):
            label = labels.of(_call_labels(rows), str)
            marks = _marks(rows, label, _site_numbers(rows, sites))
            tracks.append(Track(lane, str(kind), marks))
        waits = analysis.host[analysis.host["thread_id"] == thread]
        for kind, rows in waits.groupby("kind", sort=True):
            label = labels.of(rows["name"], lambda name: visible(name, 80))
            tracks.append(Track(lane, visible(str(kind), 20), _marks(rows, label)))
    return tracks, _left_out(len(threads), MAX_THREADS, "threads")


def gap_tracks(analysis: Analysis, labels: Labels, sites: Mapping[str, int]) -> list[Track]:
    """Idle time: one lane per device, a kind for each cause."""
    several = analysis.gaps["device"].nunique() > 1
    causes = analysis.gaps["cause"].astype("str").mask(is_other_work(analysis.gaps), HOST_WORK)
    tracks = []
    for (device, cause), rows in _grouped(analysis.gaps.assign(cause=causes), ["device", "cause"]):
        lane = Lane("gaps", device, -1, f"GPU {device} idle" if several else "GPU idle")
        label = labels.of([""] * len(rows), str)
        marks = _marks(rows, label, _site_numbers(rows, sites))
        tracks.append(Track(lane, f"idle_{visible(str(cause), 30)}", marks))
    return tracks


def engine_tracks(analysis: Analysis, labels: Labels) -> list[Track]:
    """Copies between host and device of all streams: one lane per direction, as a GPU has a
    copy engine for each. Copies that lie beside kernels of other streams show as overlap here."""
    several = analysis.activity["device"].nunique() > 1
    tracks = []
    for key, direction in enumerate(DIRECTIONS):
        copies = analysis.activity[analysis.activity["direction"] == direction]
        for (device, kind), rows in _grouped(copies, ["device", "kind"]):
            gpu = f" {device}" if several else ""
            lane = Lane("engine", device, key, ENGINES[direction].format(gpu))
            label = labels.of(rows["name"], lambda name: visible(name, 120))
            tracks.append(Track(lane, visible(str(kind), 20), _marks(rows, label)))
    return tracks


def stream_tracks(analysis: Analysis, labels: Labels) -> tuple[list[Track], str]:
    """Kernels, copies and memsets: one lane per stream of a device.

    Also returns a note for the reader where streams were left out, else "".
    """
    table = analysis.activity
    sizes = table.groupby(["device", "stream"]).size().sort_values(ascending=False, kind="stable")
    shown = set(sizes.index[:MAX_STREAMS])
    several = table["device"].nunique() > 1
    tracks = []
    for (device, stream, kind), rows in _grouped(table, ["device", "stream", "kind"]):
        if (device, stream) in shown:
            gpu = f"GPU {device} " if several else ""
            lane = Lane("stream", device, int(stream), f"{gpu}stream {stream}")
            label = labels.of(rows["name"], lambda name: visible(name, 120))
            tracks.append(Track(lane, visible(str(kind), 20), _marks(rows, label)))
    return tracks, _left_out(len(sizes), MAX_STREAMS, "streams")


def _grouped(table: pd.DataFrame, by: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Groups in the order of their keys, the first of which is a device number."""
    for key, rows in table.groupby(by, sort=True):
        device, *rest = key
        yield (int(device), *rest), rows  # type: ignore[call-overload]  # keys are Hashable


def _left_out(total: int, shown: int, what: str) -> str:
    return f"The {shown} busiest of {total} {what} are shown." if total > shown else ""


def _marks(table: pd.DataFrame, label: Integers, site: Integers | None = None) -> Marks:
    start = table["start_ns"].to_numpy(dtype=np.int64)
    end = table["end_ns"].to_numpy(dtype=np.int64)
    none = np.full(len(table), -1, dtype=np.int64)
    return sorted_marks(start, end, none if site is None else site, label)


def _site_numbers(table: pd.DataFrame, sites: Mapping[str, int]) -> Integers:
    return np.array([sites.get(site, -1) for site in table["site_id"]], dtype=np.int64)


def _kinds_of_calls(calls: pd.DataFrame) -> list[str]:
    """A transfer that did not block is another colour: it is how it should be."""
    rows = zip(calls["kind"], calls["blocking"], strict=True)
    return [
        "transfer_async" if kind == "transfer" and not blocking else visible(kind, 20)
        for kind, blocking in rows
    ]


def _call_labels(calls: pd.DataFrame) -> list[str]:
    columns = (calls["name"], calls["direction"], calls["size_bytes"])
    return [_call_label(*row) for row in zip(*columns, strict=True)]


def _call_label(name: str, direction: str, size_bytes: int) -> str:
    parts = [visible(name, 80)]
    if direction:
        parts.append(DIRECTIONS.get(direction, visible(direction, 20)))
    if size_bytes > 0:
        parts.append(byte_size(size_bytes))
    return ", ".join(part for part in parts if part)
