"""What can be recorded on this machine, and why not."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `state` is ok or no."""

    name: str
    state: str
    detail: str


def examine() -> list[Check]:
    """Look at Python, torch, the GPU, CUPTI, NVML and the disk. Imports torch; no side effects."""
    checks: list[Callable[[], Check]] = [_python, _torch, _gpu, _cupti, _nvml, _output, _shadow]
    return [check() for check in checks]


def _python() -> Check:
    return Check("python", "ok", platform.python_version())


def _torch() -> Check:
    import torch

    build = torch.version.cuda or torch.version.hip
    kind = "HIP" if torch.version.hip else "CUDA"
    return Check("torch", "ok", f"{torch.__version__} ({f'{kind} {build}' if build else 'CPU'})")


def _gpu() -> Check:
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return Check("GPU", "no", "this torch is built for the CPU: runs use the shadow GPU")
    count = torch.cuda.device_count()
    if count == 0:
        return Check("GPU", "no", "torch sees no GPU (driver, permissions, CUDA_VISIBLE_DEVICES?)")
    return Check("GPU", "ok", ", ".join(torch.cuda.get_device_name(i) for i in range(count)))


def _cupti() -> Check:
    import torch
    from torch.profiler import ProfilerActivity, supported_activities

    if ProfilerActivity.CUDA not in supported_activities() or torch.cuda.device_count() == 0:
        return Check("GPU activity", "no", "torch.profiler cannot record CUDA activity here")
    if os.environ.get("NSYS_PROFILING_SESSION_ID"):
        return Check("GPU activity", "no", "Nsight Systems holds CUPTI, which serves one at a time")
    return Check("GPU activity", "ok", "torch.profiler records kernels, copies and runtime calls")


def _nvml() -> Check:
    import pynvml

    try:
        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Check("NVML", "no", f"{error}: no utilisation, memory and PCIe counters")
    return Check("NVML", "ok", f"driver {driver}")


def _output() -> Check:
    try:
        with tempfile.TemporaryFile(dir="."):
            pass
    except OSError as error:
        return Check("output", "no", f"cannot write here ({error.strerror}): name a folder with -o")
    return Check("output", "ok", "recordings go to syncscope-runs below this folder")


def _shadow() -> Check:
    from syncscope.shadow.gpus import GPUS

    return Check("shadow GPU", "ok", f"can simulate {', '.join(GPUS)}")
