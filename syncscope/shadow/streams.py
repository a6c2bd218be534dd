"""Streams and events of a shadow GPU, and what the host knows of their progress.

A stream is FIFO: `free_ns` is when its last piece of work ends. Work is numbered; `known`
is the highest number that the host has waited for. Whether a read is safe is a question of
what was waited for, not of the simulated time: a race that happens to be won is a race.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DEFAULT_STREAM = 7
"""CUPTI's number of the default stream."""


@dataclass(eq=False, slots=True)
class StreamState:
    """One stream of one device."""

    device: int
    number: int
    free_ns: int = 0
    count: int = 0
    known: int = 0
    after: dict[StreamState, int] = field(default_factory=dict)
    """Work of other streams that this stream has waited for."""

    def wait_for(self, snapshot: Snapshot) -> None:
        """Work enqueued from now on starts after what the snapshot covers."""
        self.free_ns = max(self.free_ns, snapshot.end_ns)
        for stream, count in snapshot.covers.items():
            if stream is not self:
                self.after[stream] = max(self.after.get(stream, 0), count)

    def snapshot(self) -> Snapshot:
        """Everything enqueued so far, as an event would record it."""
        return Snapshot(self.free_ns, {**self.after, self: self.count})

    def host_waited(self) -> None:
        """The host has seen everything enqueued so far complete."""
        self.known = self.count
        if self.after:
            for stream, count in self.after.items():
                stream.known = max(stream.known, count)
            self.after.clear()


@dataclass(slots=True)
class Snapshot:
    """What an event has recorded: when it completes, and which work it covers."""

    end_ns: int
    covers: dict[StreamState, int]

    def host_waited(self) -> None:
        """The host has seen the event complete."""
        for stream, count in self.covers.items():
            stream.known = max(stream.known, count)
