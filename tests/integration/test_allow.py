"""`syncscope.allow`: waits that are meant are shown as such, with the reason."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import syncscope
from syncscope.errors import UsageError
from syncscope.records import Site

Run = Callable[..., subprocess.CompletedProcess[str]]


def by_line(run: syncscope.Run) -> dict[str, Site]:
    return {site.expression: site for site in run.summary().sites}


def test_an_allowed_line_is_not_flagged_and_has_the_reason(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "r", device="shadow") as run:
        x = torch.ones(4, device="cuda")
        for _ in range(3):
            with syncscope.allow("the loss is logged"):
                x.sum().item()
            x.max().item()
            syncscope.step()
    sites = by_line(run)
    allowed, other = sites["x.sum().item()"], sites["x.max().item()"]
    assert (allowed.verdict, allowed.flagged, allowed.reason) == (
        "allowed", False, "the loss is logged",
    )  # fmt: skip
    assert (other.flagged, other.reason) == (True, "")
    assert other.verdict != "allowed"


def test_a_line_that_also_runs_outside_is_not_allowed(tmp_path: Path) -> None:
    def read(x: torch.Tensor) -> float:
        return x.sum().item()

    with syncscope.record(tmp_path / "r", device="shadow") as run:
        x = torch.ones(4, device="cuda")
        with syncscope.allow("logged"):
            read(x)
        read(x)
    assert by_line(run)["x.sum().item()"].verdict != "allowed"


def test_the_innermost_reason_counts_and_a_decorator_allows_a_function(tmp_path: Path) -> None:
    @syncscope.allow("inner")
    def read(x: torch.Tensor) -> float:
        return x.sum().item()

    with syncscope.record(tmp_path / "r", device="shadow") as run:
        x = torch.ones(4, device="cuda")
        with syncscope.allow("outer"):
            read(x)
            x.max().item()
    sites = by_line(run)
    assert [sites[line].reason for line in ("x.sum().item()", "x.max().item()")] == [
        "inner", "outer",
    ]  # fmt: skip


def test_it_holds_for_its_own_thread_only(tmp_path: Path) -> None:
    began, done = threading.Event(), threading.Event()

    def other(x: torch.Tensor) -> None:
        with syncscope.allow("mine"):
            x.mean().item()
            began.set()
            done.wait()

    with syncscope.record(tmp_path / "r", device="shadow") as run:
        x = torch.ones(4, device="cuda")
        with syncscope.allow("main has one, too"):
            x.min().item()
        thread = threading.Thread(target=other, args=(x,))
        thread.start()
        began.wait()
        x.max().item()
        done.set()
        thread.join()
    sites = by_line(run)
    assert sites["x.mean().item()"].reason == "mine"
    assert sites["x.max().item()"].reason == ""


def test_exceptions_pass_through_and_outside_a_recording_nothing_happens(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mine"), syncscope.allow("why"):
        raise ValueError("mine")
    with pytest.raises(UsageError, match="say why"):
        syncscope.allow("")
    with syncscope.allow("began before"), syncscope.record(tmp_path / "r", device="shadow") as run:
        torch.ones(4, device="cuda").sum().item()
    assert [site.reason for site in run.summary().sites if site.flagged] == [""]


def test_the_command_records_what_the_program_allows(
    tmp_path: Path, syncscope_command: Run
) -> None:
    (tmp_path / "prog.py").write_text(
        "import syncscope, torch\n"
        "x = torch.ones(4, device='cuda')\n"
        "with syncscope.allow('printed at the end'):\n"
        "    x.sum().item()\n"
    )
    done = syncscope_command("run", "--device", "shadow", "-o", "rec", "prog.py")
    assert done.returncode == 0, done.stderr
    summary = json.loads(syncscope_command("show", "rec", "--format", "json").stdout)
    (site,) = (site for site in summary["sites"] if site["expression"] == "x.sum().item()")
    assert (site["verdict"], site["reason"], site["line"]) == ("allowed", "printed at the end", 4)
