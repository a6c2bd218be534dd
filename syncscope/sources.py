"""Copies of the source files that a recording's frames name."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from syncscope.callsite import owner_of

MAX_SOURCE_BYTES = 1 << 20


def copy_sources(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Copy files (name shown -> path) into `folder`/sources; returns name shown -> copy.

    Left out: torch's own, what is larger than MAX_SOURCE_BYTES, what cannot be read.
    """
    copies: dict[str, str] = {}
    for name, path in sorted(files.items()):
        source = Path(path)
        if owner_of(path) == "torch" or not source.is_file():
            continue
        if source.stat().st_size > MAX_SOURCE_BYTES:
            continue
        copy = f"sources/{len(copies):03d}-{source.name}"
        try:
            (folder / "sources").mkdir(exist_ok=True)
            shutil.copyfile(source, folder / copy)
        except OSError:
            continue
        copies[name] = copy
    return copies
