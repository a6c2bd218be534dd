"""Names for new recording folders, also for the ranks of one job, and the ranks found in one.

A job is a folder that holds one complete recording for each rank: `JOB/rank-0`, `JOB/rank-1`.
It has no manifest of its own; a plain recording has one beside its `rank-0`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from syncscope.errors import UsageError
from syncscope.recording.manifest import MANIFEST_NAME

RUNS_FOLDER = Path("syncscope-runs")
LONGEST_STEM = 60
"""In characters: file systems allow 255 bytes, and a character takes up to 4."""

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
    stem: str, chosen: Path | None, environ: Mapping[str, str] = os.environ
) -> Path:
    """Where this process records: `chosen`, or a new folder named after `stem`.

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
        return chosen or next_folder(stem)
    if chosen is None:
        name = f"{stem[:LONGEST_STEM]}-job-{_job_id(environ)}{_restart(environ)}"
        return _first_unused(RUNS_FOLDER / name, rank)
    if (chosen / MANIFEST_NAME).exists():
        raise UsageError(f"{chosen} exists and is not empty; name another folder with -o")
    return Path(f"{chosen}{_restart(environ)}", f"rank-{rank}")


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


def latest_recording(folder: Path) -> Path | None:
    """The folder itself if it is a recording or a job, else the latest one of those in it."""
    if _begun_ns(folder) is not None:
        return folder
    inside = folder.iterdir() if folder.is_dir() else ()
    begun = {path: time_ns for path in inside if (time_ns := _begun_ns(path)) is not None}
    return max(begun, key=lambda path: (begun[path], path.name), default=None)


def _begun_ns(folder: Path) -> int | None:
    """When a recording or a job was last begun or closed; None for any other folder."""
    manifests = [folder / MANIFEST_NAME, *(rank / MANIFEST_NAME for rank in _ranks(folder))]
    return max((path.stat().st_mtime_ns for path in manifests if path.is_file()), default=None)


def _ranks(folder: Path) -> list[Path]:
    return list(rank_folders(folder).values())


def _first_unused(job: Path, rank: int) -> Path:
    number, folder = 1, job
    while (folder / f"rank-{rank}").exists():
        number += 1
        folder = job.with_name(f"{job.name}-{number}")
    return folder / f"rank-{rank}"


def _restart(environ: Mapping[str, str]) -> str:
    count = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"-restart-{count}" if count.isdigit() and int(count) else ""


def _job_id(environ: Mapping[str, str]) -> str:
    parts = [environ.get(name, "") for name in _NAMES_OF_A_JOB]
    named = parts[0] not in ("", "none") or environ.get("SLURM_STEP_ID")
    size = environ.get("WORLD_SIZE")
    if not named and environ.get("LOCAL_WORLD_SIZE", size) == size:
        parts += [str(os.getppid()), _start_of(os.getppid())]
    text = "\0".join(parts).encode(errors="surrogateescape")
    return hashlib.blake2s(text, digest_size=4).hexdigest()


def _start_of(pid: int) -> str:
    """When a process started, in the kernel's ticks since boot; "" where that is not told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
