"""What a recording is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record. `steps` None: until the end; `warmup` counts step marks to skip."""

    argv: tuple[str, ...] = ()
    device: str = "auto"
    """auto (a real GPU if there is one), cuda or shadow."""
    warmup: int = 0
    steps: int | None = None
    gpu_activity: bool = True
    shadow_gpu: str = "H200"
    shadow_gpus: int = 1
    keep_sources: bool = True
    whole_program: bool = False
    """Whether `syncscope run` records, and not a part of the program itself."""
