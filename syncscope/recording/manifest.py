"""manifest.json: what a recording is, where it was made, and what each collector could see."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from syncscope.errors import RecordingError

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"


@dataclass(frozen=True, slots=True)
class CollectorStatus:
    """Whether a collector ran, and if not, why. `lost` counts events it had to drop."""

    name: str
    state: str
    """on, off or failed."""
    reason: str = ""
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of the recording: real, simulated or named by an imported trace."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class Window:
    """An interval of the recording's time, such as one in which GPU activity was recorded."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Thread:
    """A host thread: `id` is what the tables call it."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How the program ended. `signal` and `exception` are "" where there was none."""

    code: int
    exception: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of a host. When it started tells it from a later one with the same pid."""

    pid: int
    host: str
    start_ticks: int
    """In the kernel's ticks since boot; -1 where that is not told."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole of manifest.json; see the fields' own types."""

    run_id: str
    argv: tuple[str, ...]
    simulated: bool
    imported: bool
    origin_unix_ns: int
    """Unix time of the recording's time 0."""
    versions: dict[str, str]
    """Of syncscope, python, torch, cuda (or hip), driver."""
    devices: tuple[Device, ...] = ()
    windows: tuple[Window, ...] = ()
    details: tuple[Window, ...] = ()
    """Detail steps, in which operators were watched: their times are not the program's own."""
    collectors: tuple[CollectorStatus, ...] = ()
    threads: tuple[Thread, ...] = ()
    rank: int = 0
    world_size: int = 1
    state: str = "recording"
    """recording while the run is alive (or after it was killed), then complete."""
    process: Process | None = None
    """What makes the recording; None if it is imported or older than this field."""
    exit: Exit | None = None
    overhead: dict[str, float] = field(default_factory=dict)
    """Self-measured: seconds spent by name of the part (`*_s`); with --calibrate `ratio_free`,
    `ratio_full` and `ratio_recovered` (step time against bare steps), each with `_low` and
    `_high`."""
    sources: dict[str, str] = field(default_factory=dict)
    """File as the frames name it -> its copy below the recording."""
    notes: tuple[str, ...] = ()
    """Things the reader of a report must know."""
    command: tuple[str, ...] = ()
    """The process's own command line, interpreter first, as `sys.orig_argv` has it."""
    format_version: int = FORMAT_VERSION


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step, so that a killed run leaves the old one whole."""
    try:
        encoded = msgspec.json.encode(manifest)
    except UnicodeEncodeError:  # arguments and file names need not be text: odd bytes become "?"
        plain = json.dumps(msgspec.to_builtins(manifest), ensure_ascii=False)
        encoded = plain.encode("utf-8", "replace")
    text = msgspec.json.format(encoded, indent=1)
    draft = folder / (MANIFEST_NAME + ".tmp")
    draft.write_bytes(text + b"\n")
    os.replace(draft, folder / MANIFEST_NAME)


def read_manifest(folder: Path) -> Manifest:
    """Read and check a manifest. Raises RecordingError with one line for the user."""
    path = folder / MANIFEST_NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        fault = f"is not a recording: it holds no {MANIFEST_NAME}"
        if not folder.exists():
            fault = "does not exist"
        raise RecordingError(
            f"{folder} {fault}. Name the folder that `syncscope run` wrote."
        ) from None
    except OSError as error:
        raise RecordingError(f"{path} cannot be read: {error.strerror}") from error
    try:
        head = msgspec.json.decode(data)
        version = head["format_version"]
    except (msgspec.DecodeError, TypeError, KeyError, RecursionError):
        raise RecordingError(f"{path} is damaged: it is not the manifest of a recording") from None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise RecordingError(
            f"{folder} has recording format {version}; this syncscope reads up to "
            f"{FORMAT_VERSION}. Update syncscope to read it."
        )
    try:
        return msgspec.convert(head, Manifest)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{path} is damaged: {error}") from None
