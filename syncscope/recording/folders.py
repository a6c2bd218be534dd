"""Names for new recording folders, also for the ranks of one job, and the ranks found in one.

A job is a folder that holds one complete recording for each rank: `JOB/rank-0`, `JOB/rank-1`.
It has no manifest of its own; a plain recording has one beside its `rank-0`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from syncscope.errors import UsageError
from syncscope.recording.manifest import MANIFEST_NAME, read_manifest
from syncscope.recording.processes import start_ticks

RUNS_FOLDER = Path("syncscope-runs")
LONGEST_STEM = 60
"""In characters: file systems allow 255 bytes, and a character takes up to 4."""

_EVENTS = ("activity", "blocking", "runtime", "steps", "transfers")
"""Tables of what a report is about."""

_RANK_FOLDER = re.compile(r"rank-(\d{1,9})")
_NAMES_OF_A_JOB = (
    "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "SLURM_JOB_ID",
    "SLURM_STEP_ID",
)  # fmt: skip


def next_folder(stem: str, parent: Path = RUNS_FOLDER) -> Path:
    """The first of `stem-1`, `stem-2`, ... below `parent` that does not exist yet."""
    stem = stem[:LONGEST_STEM]
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"


def rank_and_size(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """RANK and WORLD_SIZE as torchrun sets them; (0, 1) where they are missing or make no sense."""
    texts = environ.get("RANK", ""), environ.get("WORLD_SIZE", "")
    if not all(text.isascii() and text.isdigit() and len(text) < 10 for text in texts):
        return 0, 1
    rank, size = int(texts[0]), int(texts[1])
    return (rank, size) if rank < size else (0, 1)


def recording_folder(
    stem: str,
    chosen: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    numbered: bool = False,
) -> Path:
    """Where this process records: `chosen`, or a new folder named after `stem`.

    If `chosen` is to be `numbered` and holds a recording, it is the first of `-2`, `-3`, ...
    that holds none.

    A rank of several records into `rank-N` of the job's folder, which is `chosen` or a name
    that all ranks find by themselves, without talking to each other: from the id that torchrun
    or SLURM gave the job; without one, from the address and port at which the ranks
    meet and, on a single host, from the process that started them all. If this rank has been
    there before (the same id again), the first of `-2`, `-3`, ... in which it has not: ranks
    that always ran together agree on that as well. A job that torchrun restarts goes on in
    a folder ending in `-restart-1`.

    Raises UsageError if a job is to be written into a recording.
    """
    rank, size = rank_and_size(environ)
    if size == 1:
        if chosen is None:
            return next_folder(stem)
        return _first_unused(chosen, _is_recording) if numbered else chosen
    job = chosen or RUNS_FOLDER / f"{stem[:LONGEST_STEM]}-job-{_job_id(environ)}"
    job = Path(f"{job}{_restart(environ)}")
    if chosen is None or numbered:
        job = _first_unused(job, lambda folder: _is_of_another_job(folder, rank, size))
    elif (chosen / MANIFEST_NAME).exists():
        raise UsageError(f"{chosen} exists and is not empty; name another folder with -o")
    return job / f"rank-{rank}"


def rank_folders(folder: Path) -> dict[int, Path]:
    """The recordings of a job's ranks by rank, rising; empty if the folder is no job."""
    if (folder / MANIFEST_NAME).exists() or not folder.is_dir():
        return {}
    found = {}
    for path in folder.iterdir():
        match = _RANK_FOLDER.fullmatch(path.name)
        if match and (path / MANIFEST_NAME).is_file():
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def recordings_in(folder: Path) -> list[Path]:
    """The folder itself if it is a recording or a job, else those in it, the latest first."""
    if _is_recording(folder):
        return [folder]
    inside = [path for path in folder.iterdir() if _is_recording(path)] if folder.is_dir() else []
    return sorted(inside, key=lambda path: (_begun_ns(path), path.name), reverse=True)


def holds_events(folder: Path) -> bool:
    """Whether a step, a call or GPU activity was recorded, in a job by any rank.

    Reads no table: one without rows has no file.
    """
    return any(
        path.stem in _EVENTS
        for recording in recordings_of(folder)
        for path in (recording / "rank-0").glob("*.*")
    )


def recordings_of(folder: Path) -> list[Path]:
    """The recordings of a job's ranks; of a recording itself."""
    return list(rank_folders(folder).values()) or [folder]


def _is_recording(folder: Path) -> bool:
    return any((path / MANIFEST_NAME).is_file() for path in recordings_of(folder))


def _begun_ns(folder: Path) -> int:
    """When a recording or a job was last begun or closed."""
    return max((path / MANIFEST_NAME).stat().st_mtime_ns for path in recordings_of(folder))


def _first_unused(folder: Path, is_used: Callable[[Path], bool]) -> Path:
    nameless = folder.name in ("", "..")
    named = Path(os.path.abspath(folder)) if nameless else folder
    number, found = 1, folder
    while is_used(found):
        number += 1
        found = named.with_name(f"{named.name}-{number}")
    return found


def _is_of_another_job(folder: Path, rank: int, size: int) -> bool:
    """Whether it is a recording, or a job in which this rank has been, or of another size."""
    if (folder / MANIFEST_NAME).exists() or (folder / f"rank-{rank}").exists():
        return True
    return any(read_manifest(path).world_size != size for path in rank_folders(folder).values())


def _restart(environ: Mapping[str, str]) -> str:
    count = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"-restart-{count}" if count.isdigit() and int(count) else ""


def _job_id(environ: Mapping[str, str]) -> str:
    parts = [environ.get(name, "") for name in _NAMES_OF_A_JOB]
    named = parts[0] not in ("", "none") or environ.get("SLURM_STEP_ID")
    size = environ.get("WORLD_SIZE")
    if not named and environ.get("LOCAL_WORLD_SIZE", size) == size:
        parts += [str(os.getppid()), str(start_ticks(os.getppid()))]
    text = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.blake2s(text, digest_size=4).hexdigest()
