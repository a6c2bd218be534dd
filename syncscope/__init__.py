"""syncscope finds the lines of a PyTorch program that make the host wait for the GPU.

    with syncscope.record("runs/a", warmup=5) as run:
        train()
    print(run.summary().sites[0])

Importing this package imports neither torch nor pandas.
"""

from __future__ import annotations

from typing import Any

from syncscope.api import Run, allow, forbid, load, record, step
from syncscope.errors import ImplicitSyncError, RecordingError, SyncscopeError, UsageError
from syncscope.version import __version__

__all__ = [
    "ImplicitSyncError",
    "RecordingError",
    "Run",
    "SyncscopeError",
    "UsageError",
    "__version__",
    "allow",
    "forbid",
    "load",
    "record",
    "step",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext syncscope` in IPython and Jupyter: adds the cell magic `%%syncscope`."""
    from syncscope.notebook import register

    register(shell)
