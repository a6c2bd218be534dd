"""Try whether torch.profiler sees the GPU: `python -m syncscope.capture.probe`.

A process of its own: it initializes CUDA and takes CUPTI. Prints how many kernels and copies
it saw of some that it started; kineto writes to stderr what it has to say.
"""

from __future__ import annotations

import sys

import torch


def seen() -> int:
    """Number of activities of a GPU that torch.profiler noted. Raises RuntimeError."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        torch.ones(8, device="cuda").sum().item()
    return sum(event.device_type.name == "CUDA" for event in profiler.events() or ())


if __name__ == "__main__":
    sys.stdout.write(f"{seen()}\n")
