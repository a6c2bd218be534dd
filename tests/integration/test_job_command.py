"""Several ranks under `syncscope run`, and the commands that read them together."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from syncscope.recording.reader import Recording

RENDEZVOUS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29517"}
Run = Callable[..., subprocess.CompletedProcess[str]]
CommandOf = Callable[[Sequence[str | Path]], list[str]]

PROGRAM = """
import os
import torch
import torch.distributed as dist
import syncscope

dist.init_process_group("nccl", init_method=f"file://{os.getcwd()}/meet",
                        rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
device = torch.device("cuda", dist.get_rank())
x = torch.ones(4, device=device)
for step in range(6):
    dist.all_reduce(x)
    print(dist.get_rank(), step, x.sum().item())
    syncscope.step()
dist.destroy_process_group()
"""


def run_ranks(
    folder: Path, command_of: CommandOf, *options: str, size: int = 2
) -> list[subprocess.CompletedProcess[str]]:
    """All ranks at the same time, as a launcher starts them."""
    (folder / "train.py").write_text(PROGRAM)
    (folder / "meet").unlink(missing_ok=True)
    command = command_of(
        ["run", "--device", "shadow", "--shadow-gpus", str(size), *options, "train.py"]
    )
    ended = []
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(
                subprocess.Popen(
                    command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    env={**os.environ, **RENDEZVOUS, "RANK": str(rank), "WORLD_SIZE": str(size)},
                )
            )
            for rank in range(size)
        ]  # fmt: skip
        for process in started:
            stack.callback(process.kill)  # a rank whose partner failed would wait for ever
        for process in started:
            out, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            ended.append(subprocess.CompletedProcess(process.args, 0, out, error))
    return ended


def test_ranks_record_into_one_job_that_is_read_together(
    tmp_path: Path, command_of: CommandOf, syncscope_command: Run
) -> None:
    first, second = run_ranks(tmp_path, command_of, "-o", "job")
    assert first.stdout.count("\n") == second.stdout.count("\n") == 6
    assert "for all ranks: syncscope show job" in first.stderr
    assert "idle" not in second.stderr  # rank 0 alone prints a summary
    for rank in range(2):
        manifest = Recording(tmp_path / "job" / f"rank-{rank}").manifest
        assert (manifest.rank, manifest.world_size, manifest.state) == (rank, 2, "complete")
    assert not (tmp_path / "job" / "rank-1" / "report.html").exists()

    shown = syncscope_command("show", "job")
    assert shown.returncode == 0, shown.stderr
    assert "2 ranks" in shown.stdout
    assert "x.sum().item()" in shown.stdout
    content = json.loads(syncscope_command("show", "job", "--format", "json").stdout)
    assert [rank["rank"] for rank in content["ranks"]] == [0, 1]
    (readback,) = (site for site in content["sites"] if site["expression"] == "x.sum().item()")
    assert [(cost["rank"], cost["count"]) for cost in readback["costs"]] == [(0, 6), (1, 6)]
    assert syncscope_command("show", "job", "--format", "csv").returncode == 2

    assert syncscope_command("report", "job").stdout == "job/report.html\n"
    assert "x.sum().item()" in (tmp_path / "job" / "report.html").read_text(encoding="utf-8")
    assert syncscope_command("diff", "job", "job", "--fail").returncode == 0
    one_rank = syncscope_command("diff", "job", "job/rank-1")
    assert "The number of ranks differs" in one_rank.stdout

    (tmp_path / "job" / "rank-0" / "manifest.json").write_text("{")
    damaged = syncscope_command("show", "job")
    assert (damaged.returncode, damaged.stdout) == (3, "")
    assert damaged.stderr.count("\n") == 1


def test_ranks_find_a_name_for_their_job_by_themselves(
    tmp_path: Path, command_of: CommandOf
) -> None:
    for count in (1, 2):
        run_ranks(tmp_path, command_of)
        jobs = sorted((tmp_path / "syncscope-runs").iterdir())
        assert len(jobs) == count
        for job in jobs:
            assert sorted(path.name for path in job.iterdir()) == ["rank-0", "rank-1"]
