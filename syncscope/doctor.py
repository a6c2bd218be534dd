"""What can be recorded on this machine, and why not: each answer says what to do."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

OLDEST_PYTHON = "3.11"
OLDEST_TORCH = "2.6"
PROBE_TIMEOUT_S = 120
_CUPTI_ERROR = re.compile(r"failed with error CUPTI_ERROR_(?P<name>\w+)")
"""As kineto says it, which also names one error that a reader might see instead."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `state` is ok or no."""

    name: str
    state: str
    detail: str


def examine() -> list[Check]:
    """Look at Python, torch, the GPU, its profilers and the disk. Imports torch.

    Where there is a GPU, a process of its own tries to profile it, which takes some seconds.
    """
    checks = [_python(), _torch()]
    if checks[-1].state == "ok":
        gpu = _gpu()
        checks.append(gpu)
        if gpu.state == "ok":
            checks += [_activity(), _counters()]
        checks.append(_shadow())
    return [*checks, _output()]


def _python() -> Check:
    version = platform.python_version()
    if _numbers(version) < _numbers(OLDEST_PYTHON):
        return Check("python", "no", f"{version} is too old: install {OLDEST_PYTHON} or newer")
    return Check("python", "ok", version)


def _torch() -> Check:
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            return Check("torch", "no", f"it cannot be imported ({error}): install it again")
        pip = f"{sys.executable} -m pip install 'torch>={OLDEST_TORCH}'"
        return Check("torch", "no", f"it is not installed: {pip}")
    except (ImportError, OSError) as error:
        return Check("torch", "no", f"it cannot be imported ({_line(error)}): install it again")
    version = str(torch.__version__)
    if _numbers(version) < _numbers(OLDEST_TORCH):
        return Check("torch", "no", f"{version} is too old: install {OLDEST_TORCH} or newer")
    build = torch.version.cuda or torch.version.hip
    kind = "ROCm" if torch.version.hip else "CUDA"
    return Check("torch", "ok", f"{version} ({f'{kind} {build}' if build else 'CPU'})")


def _gpu() -> Check:
    import torch

    if torch.version.cuda is None and torch.version.hip is None:
        return _no_gpu("this torch is built for the CPU; install one that is built for your GPU")
    try:
        torch.cuda.init()
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    except (RuntimeError, AssertionError) as error:
        return _no_gpu(why_no_gpu(_line(error), torch.version.cuda, os.environ))
    return Check("GPU", "ok", ", ".join(names))


def _no_gpu(why: str) -> Check:
    return Check("GPU", "no", f"{why}. Until then runs use the shadow GPU")


def why_no_gpu(said: str, cuda: str | None, env: Mapping[str, str]) -> str:
    """What to do about torch's reason for not starting CUDA. `cuda`: None means ROCm."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if env.get(name, "all").strip() in ("", "-1", "NoDevFiles"):
            return f"{name}={env[name]!r} hides every GPU; unset it"
    if "too old" in said:
        return (
            f"the driver is too old for this torch, which is built for CUDA {cuda}; update the "
            "driver, or install a torch that is built for an older CUDA"
        )
    if "no NVIDIA driver" in said:
        return "there is no NVIDIA driver; install it (in a container: docker run --gpus all)"
    if cuda is None:
        return (
            f"torch says: {said}; load the amdgpu driver and let this user read /dev/kfd and "
            "/dev/dri (groups render and video)"
        )
    return f"torch says: {said}; see whether nvidia-smi lists a GPU"


def _activity() -> Check:
    # Torch silences kineto once it is up: of an error that comes later only this level tells.
    env = os.environ | {"KINETO_LOG_LEVEL": "1"}
    try:
        tried = subprocess.run(
            [sys.executable, "-m", "syncscope.capture.probe"],
            env=env, capture_output=True, text=True, errors="replace", timeout=PROBE_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Check("GPU activity", "no", f"no answer of torch.profiler in {PROBE_TIMEOUT_S} s")
    state, detail = activity_verdict(tried.returncode, tried.stdout, tried.stderr)
    return Check("GPU activity", state, detail)


def activity_verdict(code: int, out: str, said: str) -> tuple[str, str]:
    """State and detail, from the exit code and the two outputs of `capture.probe`."""
    if code == 0 and out.strip() not in ("", "0"):
        return "ok", "torch.profiler records kernels, copies and runtime calls"
    refused = _CUPTI_ERROR.search(said)
    error = refused["name"] if refused else ""
    if error == "INSUFFICIENT_PRIVILEGES":
        return "no", (
            "the NVIDIA driver lets only administrators profile: load its module with "
            "NVreg_RestrictProfilingToAdminUsers=0, or run as root (in a container: "
            "--cap-add=SYS_ADMIN)"
        )
    if error.startswith("MULTIPLE_SUBSCRIBERS") or "NSYS_PROFILING_SESSION_ID" in os.environ:
        return "no", "another profiler (Nsight, a debugger, DCGM) holds CUPTI, which serves one"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    why = f": {refused[0] if refused else lines[-1]}" if lines else ""
    return "no", f"torch.profiler saw nothing of a kernel that ran{why}"


def _counters() -> Check:
    import torch

    if torch.version.hip:
        return Check("NVML", "no", "an AMD GPU has none: no utilisation, memory and PCIe counters")
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


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
