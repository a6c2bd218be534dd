"""Decode a torch.profiler trace batch by batch: the file, not what its events mean.

The format is Chrome's trace event format as kineto writes it, as an object with
`traceEvents` or as a plain list, gzipped or not. The text is read in blocks and only the
fields below are decoded, so memory stays flat whatever the size of the file; cost is about
0.6 us an event.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from syncscope.errors import RecordingError, UsageError

_BLOCK_BYTES = 1 << 19
_LONGEST_HEAD_BYTES = 64 << 20
_BOUNDARY_TRIES = 8

_LIST = re.compile(rb"\s*\[")
_OBJECT = re.compile(rb"\s*\{")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_NO_JSON_NUMBER = re.compile(rb"(?<=[:,\[\s])[+-]?(?:nan|inf|infinity)(?=\s*[,}\]])", re.I)


class TraceArgs(msgspec.Struct, gc=False):
    """The arguments of an event that tables are made of; any of them may be odd or missing."""

    device: Any = None
    stream: Any = None
    correlation: Any = -1
    bytes: Any = -1
    size: Any = -1
    name: Any = None


class TraceEvent(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are the texts of the file; the order of fields is its as well."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    tid: int | str = -1
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: TraceArgs | None = None


class TraceMetadata(msgspec.Struct, rename="camel"):
    """What a trace says about itself, unchecked."""

    base_time_nanoseconds: Any = 0
    device_properties: Any = None
    distributed_info: Any = None
    trace_id: Any = msgspec.field(name="trace_id", default="")
    with_stack: Any = msgspec.field(name="with_stack", default=0)
    cuda_runtime_version: Any = msgspec.field(name="cuda_runtime_version", default=0)
    cuda_driver_version: Any = msgspec.field(name="cuda_driver_version", default=0)
    hip_runtime_version: Any = msgspec.field(name="hip_runtime_version", default=0)
    hip_driver_version: Any = msgspec.field(name="hip_driver_version", default=0)


class _Whole(TraceMetadata):
    """A trace whose events are decoded one by one later."""

    trace_events: list[msgspec.Raw] = msgspec.field(name="traceEvents", default_factory=list)


_EVENT_LIST = msgspec.json.Decoder(list[TraceEvent])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_EVENT = msgspec.json.Decoder(TraceEvent)
_WHOLE = msgspec.json.Decoder(_Whole)


class TraceFile:
    """One pass over a trace. `metadata` is whole once `batches` is exhausted.

    `lost` counts events whose fields have types that no trace should have. `progress` is
    called with the part of the file that is read, 0 to 1.
    """

    def __init__(self, path: Path, progress: Callable[[float], None] | None = None) -> None:
        self.path = path
        self.metadata = TraceMetadata()
        self.lost = 0
        self._progress = progress

    def batches(self) -> Iterator[list[TraceEvent]]:
        """All events in the order of the file.

        Raises UsageError if there is no such file, RecordingError if it is no trace or ends
        too early (which shows only at the end).
        """
        try:
            with self.path.open("rb") as file:
                yield from self._split(self._blocks(file))
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"there is no file {self.path}") from None
        except IsADirectoryError:
            raise UsageError(f"{self.path} is a folder; name the trace file in it") from None
        except (EOFError, zlib.error):
            raise RecordingError(
                f"{self.path} is damaged or cut short: its compressed data ends too early"
            ) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise RecordingError(f"{self.path} cannot be read: {reason}") from None
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._bad_json(str(error)) from None

    def _blocks(self, file: IO[bytes]) -> Iterator[bytes]:
        size = max(self.path.stat().st_size, 1)
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        text: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
        while block := text.read(_BLOCK_BYTES):
            yield block
            if self._progress is not None:
                self._progress(min(file.tell() / size, 1.0))

    def _split(self, blocks: Iterator[bytes]) -> Iterator[list[TraceEvent]]:
        head, rest = self._head(blocks)
        wanted = _BLOCK_BYTES
        for block in blocks:
            rest += block
            if len(rest) < wanted:
                continue
            events, end = self._whole_events(rest)
            if end:
                yield events
                rest = rest[end:]
            wanted = max(_BLOCK_BYTES, 2 * len(rest))
        yield self._last_events(head, rest)

    def _head(self, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
        """Text up to the first event, and what was read beyond."""
        text = b""
        for block in blocks:
            text += block.removeprefix(b"\xef\xbb\xbf") if not text else block
            start = _LIST.match(text) or _EVENTS_KEY.search(text)
            if start is not None:
                return text[: start.end()], text[start.end() :]
            if len(text) > _LONGEST_HEAD_BYTES or not _OBJECT.match(text):
                break
        if not text.strip():
            raise RecordingError(f"{self.path} is empty")
        if _OBJECT.match(text):
            msgspec.json.decode(text)
            raise RecordingError(
                f"{self.path} is no torch.profiler trace: it holds no list of traceEvents"
            )
        raise self._bad_json("it starts with neither { nor [")

    def _whole_events(self, text: bytes) -> tuple[list[TraceEvent], int]:
        """Events up to the last boundary between two, and where the next one starts.

        A boundary inside an event or a string leaves a text that is not JSON, so a
        decoded text proves the boundary.
        """
        for match in _last_boundaries(text):
            try:
                whole = b"".join((b"[", memoryview(text)[: match.start() + 1], b"]"))
                return self._decode(whole), match.end()
            except msgspec.DecodeError:
                continue
        return [], 0

    def _decode(self, text: bytes) -> list[TraceEvent]:
        try:
            return _EVENT_LIST.decode(text)
        except msgspec.ValidationError:
            return self._one_by_one(_RAW_LIST.decode(text))
        except msgspec.DecodeError:
            return self._one_by_one(_RAW_LIST.decode(_repaired(text)))

    def _last_events(self, head: bytes, rest: bytes) -> list[TraceEvent]:
        text = head + rest
        try:
            if _LIST.match(head):
                return self._decode(text)
            whole = _WHOLE.decode(text)
        except msgspec.DecodeError:
            whole = _WHOLE.decode(_repaired(text))
        self.metadata = whole
        return self._one_by_one(whole.trace_events)

    def _one_by_one(self, events: list[msgspec.Raw]) -> list[TraceEvent]:
        decoded = []
        for event in events:
            try:
                decoded.append(_EVENT.decode(event))
            except msgspec.DecodeError:
                self.lost += 1
        return decoded

    def _bad_json(self, reason: str) -> RecordingError:
        if "truncated" in reason:
            return RecordingError(
                f"{self.path} is cut short: its JSON ends too early. Export the trace again."
            )
        reason = reason.partition(" (byte")[0].removeprefix("JSON is malformed: ")
        return RecordingError(f"{self.path} is not JSON: {reason}")


def _last_boundaries(text: bytes) -> Iterator[re.Match[bytes]]:
    """The last places that look like the end of an event and the start of the next."""
    tries, at = _BOUNDARY_TRIES, len(text)
    while tries and (at := text.rfind(b"}", 0, at)) >= 0:
        if match := _BOUNDARY.match(text, at):
            tries -= 1
            yield match


def _repaired(text: bytes) -> bytes:
    """The text with null for bare nan and inf, which kineto has written, and valid UTF-8."""
    return _NO_JSON_NUMBER.sub(b"null", text).decode("utf-8", "replace").encode()
