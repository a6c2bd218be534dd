"""Which process makes a recording, and whether it still runs."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from syncscope.recording.manifest import Process


def this_process() -> Process:
    """The process that calls."""
    return Process(os.getpid(), platform.node(), start_ticks(os.getpid()))


def runs(process: Process) -> bool | None:
    """Whether a process still runs; None where that cannot be told, as on another host."""
    if process.host != platform.node():
        return None
    try:
        os.kill(process.pid, 0)
    except PermissionError:  # there is one, of another user
        pass
    except (ProcessLookupError, OverflowError):
        return False
    return start_ticks(process.pid) == process.start_ticks


def start_ticks(pid: int) -> int:
    """When a process started, in the kernel's ticks since boot.

    -1 where that is not told, and where it has ended and only its parent has not heard of it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    state, *fields = stat.rpartition(")")[2].split()
    return -1 if state in "ZX" else int(fields[18])
