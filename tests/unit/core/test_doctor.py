"""Each answer of the doctor is one line that says what is wrong and what to do."""

from __future__ import annotations

import builtins
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from syncscope import doctor
from syncscope.cli import app
from syncscope.doctor import Check, activity_verdict, examine, why_no_gpu


def answers() -> dict[str, Check]:
    checks = examine()
    assert all("\n" not in check.detail for check in checks)
    return {check.name: check for check in checks}


def test_the_command_prints_a_line_for_each_however_narrow_the_terminal() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"COLUMNS": "30"})
    assert result.exit_code == 0
    lines = [f"{check.state}  {check.name}: {check.detail}" for check in examine()]
    assert result.output.splitlines() == lines


def without(monkeypatch: pytest.MonkeyPatch, error: ImportError) -> None:
    """Have `import torch` fail."""
    original = builtins.__import__

    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "torch":
            raise error
        return original(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(builtins, "__import__", fail)


def test_a_torch_for_the_cpu_is_told_to_run_on_the_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    found = answers()
    assert found["GPU"].state == "no"
    assert "built for the CPU" in found["GPU"].detail
    assert "shadow GPU" in found["GPU"].detail
    assert found["shadow GPU"].state == "ok"
    assert "GPU activity" not in found


def test_without_torch_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, ModuleNotFoundError("No module named 'torch'", name="torch"))
    found = answers()
    assert found["torch"].state == "no"
    assert f"{sys.executable} -m pip install" in found["torch"].detail
    assert list(found) == ["python", "torch", "output"]


def test_a_torch_that_is_broken_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, ImportError("libcudart.so.13: cannot open shared object file\nmore"))
    assert "libcudart.so.13: cannot open" in answers()["torch"].detail


def test_an_old_torch_and_an_old_python_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.4.1+cu121")
    monkeypatch.setattr(platform, "python_version", lambda: "3.10.13")
    found = answers()
    assert found["torch"] == Check("torch", "no", "2.4.1+cu121 is too old: install 2.6 or newer")
    assert found["python"] == Check("python", "no", "3.10.13 is too old: install 3.11 or newer")


@pytest.mark.parametrize(
    ("said", "cuda", "env", "advice"),
    [
        ("Found no NVIDIA driver on your system", "13.0", {}, "docker run --gpus all"),
        (
            "The NVIDIA driver on your system is too old (found version 11040)",
            "13.0",
            {"CUDA_VISIBLE_DEVICES": "0"},
            "built for CUDA 13.0; update the driver",
        ),
        ("No CUDA GPUs are available", "13.0", {"CUDA_VISIBLE_DEVICES": ""}, "unset it"),
        ("No CUDA GPUs are available", "13.0", {}, "torch says: No CUDA GPUs are available;"),
        ("No HIP GPUs are available", None, {}, "/dev/kfd"),
        ("No HIP GPUs are available", None, {"HIP_VISIBLE_DEVICES": "-1"}, "HIP_VISIBLE_DEVICES"),
    ],
)
def test_torchs_reason_becomes_what_to_do(
    said: str, cuda: str | None, env: dict[str, str], advice: str
) -> None:
    assert advice in why_no_gpu(said, cuda, env)


TAKEN = """\
WARNING:2026-12-03 08:03:42 682:682 init.cpp:116] function cbapi->getCuptiStatus() failed with \
error CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39)
WARNING:2026-12-03 08:03:42 682:682 init.cpp:117] CUPTI initialization failed - CUDA profiler \
activities will be missing
INFO:2026-12-03 08:03:42 682:682 init.cpp:119] If you see CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, \
refer to https://developer.nvidia.com/nvidia-development-tools-solutions-err-nvgpuctrperm-cupti
"""
"""What kineto of torch 2.11 says under Nsight Compute."""


@pytest.mark.parametrize(
    ("code", "out", "said", "state", "advice"),
    [
        (0, "4\n", "", "ok", "records kernels"),
        (0, "0\n", "failed with error CUPTI_ERROR_INSUFFICIENT_PRIVILEGES (35)", "no", "root"),
        (0, "0\n", TAKEN, "no", "Nsight"),
        (0, "0\n", TAKEN.replace("MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "UNKNOWN"), "no", "UNKNOWN"),
        (0, "0\n", "", "no", "saw nothing"),
        (1, "", "Traceback\nRuntimeError: CUDA error: out of memory\n", "no", "out of memory"),
    ],
)
def test_what_the_probe_says_becomes_what_to_do(
    code: int, out: str, said: str, state: str, advice: str
) -> None:
    verdict = activity_verdict(code, out, said)
    assert verdict[0] == state
    assert advice in verdict[1]


def play_gpu(monkeypatch: pytest.MonkeyPatch, cuda: str | None, hip: str | None) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "AMD Instinct MI300X")


def test_an_amd_gpu_has_activity_and_no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    def ran(*_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 0, "3\n", "")

    play_gpu(monkeypatch, None, "6.4.43482")
    monkeypatch.setattr(subprocess, "run", ran)
    found = answers()
    assert "ROCm 6.4.43482" in found["torch"].detail
    assert found["GPU"] == Check("GPU", "ok", "AMD Instinct MI300X")
    assert found["GPU activity"].state == "ok"
    assert "AMD GPU has none" in found["NVML"].detail


def test_a_probe_that_hangs_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: Any, timeout: float, **__: Any) -> None:
        raise subprocess.TimeoutExpired("probe", timeout)

    play_gpu(monkeypatch, "13.0", None)
    monkeypatch.setattr(subprocess, "run", hang)
    detail = answers()["GPU activity"].detail
    assert detail == f"no answer of torch.profiler in {doctor.PROBE_TIMEOUT_S} s"
