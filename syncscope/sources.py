"""Copies of the source files that a recording's frames name."""

from __future__ import annotations

import linecache
from collections.abc import Mapping
from pathlib import Path

from syncscope.callsite import owner_of

MAX_SOURCE_BYTES = 1 << 20


def copy_sources(files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Copy files (name shown -> path) into `folder`/sources; returns name shown -> copy.

    The text of a notebook's cell is in no file, but in the line cache. Left out: torch's own,
    what is larger than MAX_SOURCE_BYTES, what cannot be read.
    """
    copies: dict[str, str] = {}
    for name, path in sorted(files.items()):
        source = Path(path)
        if owner_of(path) == "torch":
            continue
        copy = f"sources/{len(copies):03d}-{source.name}"
        try:
            content = source.read_bytes() if source.is_file() else _cached(path)
            if not 0 < len(content) <= MAX_SOURCE_BYTES:
                continue
            (folder / "sources").mkdir(exist_ok=True)
            (folder / copy).write_bytes(content)
        except OSError:
            continue
        copies[name] = copy
    return copies


def _cached(path: str) -> bytes:
    return "".join(linecache.getlines(path)).encode(errors="replace")
