"""Names for new recording folders."""

from __future__ import annotations

from pathlib import Path

RUNS_FOLDER = Path("syncscope-runs")
LONGEST_STEM = 60
"""In characters: file systems allow 255 bytes, and a character takes up to 4."""


def next_folder(stem: str, parent: Path = RUNS_FOLDER) -> Path:
    """The first of `stem-1`, `stem-2`, ... below `parent` that does not exist yet."""
    stem = stem[:LONGEST_STEM]
    number = 1
    while (parent / f"{stem}-{number}").exists():
        number += 1
    return parent / f"{stem}-{number}"
