"""`syncscope.forbid`: the line that makes the host wait raises an error of its own."""

from __future__ import annotations

import subprocess
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import syncscope

Run = Callable[..., subprocess.CompletedProcess[str]]
MESSAGE = "called a synchronizing CUDA operation (Triggered internally at Copy.cu:1.)"


@pytest.fixture
def shadow(tmp_path: Path) -> syncscope.record:
    return syncscope.record(tmp_path / "r", device="shadow")


def test_the_error_comes_from_the_line_that_waits(shadow: syncscope.record) -> None:
    with shadow:
        x = torch.ones(4, device="cuda")
        with syncscope.forbid():
            x * 2
            with pytest.raises(syncscope.ImplicitSyncError) as caught:
                x.nonzero()
        assert "test_forbid.py:" in str(caught.value)
        assert ": x.nonzero() makes the host wait for the GPU (data dependent size), which" in str(
            caught.value
        )
        lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert "x.nonzero()" in lines
        x.sum().item()  # outside the block nothing is forbidden


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool((x > 0).all()),
        lambda x: x[x > 0],
        lambda x: x.cpu(),
        lambda x: torch.ones(4).to("cuda"),
        lambda x: str(x),
    ],
)
def test_every_kind_of_implicit_wait_is_an_error(shadow: syncscope.record, wait: object) -> None:
    with shadow:
        x = torch.ones(4, device="cuda")
        with pytest.raises(syncscope.ImplicitSyncError), syncscope.forbid():
            wait(x)  # type: ignore[operator]


def test_waits_that_somebody_asked_for_or_allowed_are_none(shadow: syncscope.record) -> None:
    @syncscope.forbid()
    def step(x: torch.Tensor) -> None:
        torch.cuda.synchronize()
        torch.ones(4).pin_memory().to("cuda", non_blocking=True)
        with syncscope.allow("the loss is logged"):
            x.sum().item()

    with shadow:
        x = torch.ones(4, device="cuda")
        step(x)
        with syncscope.forbid():
            with syncscope.allow("a moment"):
                x.sum().item()
            with pytest.raises(syncscope.ImplicitSyncError):
                x.sum().item()


def test_it_holds_for_its_own_thread_and_nests(shadow: syncscope.record) -> None:
    with shadow:
        x = torch.ones(4, device="cuda")
        with syncscope.forbid():
            thread = threading.Thread(target=lambda: x.sum().item())
            thread.start()
            thread.join()
            with syncscope.forbid():
                pass
            with pytest.raises(syncscope.ImplicitSyncError):
                x.sum().item()


def test_the_recording_holds_what_was_forbidden(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "r", device="shadow") as run:
        x = torch.ones(4, device="cuda")
        with pytest.raises(syncscope.ImplicitSyncError), syncscope.forbid():
            x.nonzero()
    assert [site.expression for site in run.summary().sites if site.flagged] == ["x.nonzero()"]


def test_without_a_recording_torchs_warnings_become_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modes = [0]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for name, fake in {"set": modes.append, "get": lambda: modes[-1]}.items():
        monkeypatch.setattr(torch._C, f"_cuda_{name}_sync_debug_mode", fake, raising=False)
    before = list(warnings.filters)
    with syncscope.forbid():
        assert modes[-1] == 1
        with pytest.raises(syncscope.ImplicitSyncError, match=r"test_forbid.py:\d+: warnings.warn"):
            warnings.warn(MESSAGE, stacklevel=1)
    assert modes[-1] == 0
    assert list(warnings.filters) == before


def test_it_does_nothing_where_there_is_no_gpu() -> None:
    with syncscope.forbid():
        assert torch.ones(3).sum().item() == 3


def test_under_the_command_it_ends_the_program_as_any_error_would(
    tmp_path: Path, syncscope_command: Run
) -> None:
    (tmp_path / "prog.py").write_text(
        "import syncscope, torch\n"
        "x = torch.ones(4, device='cuda')\n"
        "with syncscope.forbid():\n"
        "    x.sum().item()\n"
    )
    done = syncscope_command("run", "--device", "shadow", "-o", "rec", "prog.py")
    assert done.returncode == 1
    assert "ImplicitSyncError: prog.py:4: x.sum().item() makes the host wait" in done.stderr
    assert "line 4" in done.stderr
    assert "syncscope/shadow" not in done.stderr
