"""Whether the process that makes a recording still runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from syncscope.recording.manifest import Manifest, Process, write_manifest
from syncscope.recording.processes import runs, start_ticks, this_process
from syncscope.recording.reader import Recording

HERE = this_process()
MANIFEST = Manifest("r", (), True, False, 0, {}, command=tuple(sys.orig_argv))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def of(child: subprocess.Popen[bytes]) -> Process:
    return Process(child.pid, HERE.host, start_ticks(child.pid))


def test_a_process_runs_until_it_ends(child: subprocess.Popen[bytes]) -> None:
    process = of(child)
    assert runs(process) is True
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert runs(process) is False, "a zombie"
    child.wait()
    assert runs(process) is False


def test_a_pid_that_another_process_has_now_does_not_count() -> None:
    assert runs(HERE) is True
    assert runs(replace(HERE, start_ticks=HERE.start_ticks - 1)) is False
    assert runs(replace(HERE, pid=1 << 80)) is False


def test_of_another_host_nothing_is_claimed() -> None:
    assert runs(replace(HERE, host="another")) is None


def read_with(folder: Path, **fields: object) -> Recording:
    folder.mkdir()
    write_manifest(folder, replace(MANIFEST, **fields))
    return Recording(folder)


def test_a_recording_is_live_while_it_is_open_and_its_process_runs(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    recording = read_with(tmp_path / "run", process=of(child))
    assert recording.live is True
    assert read_with(tmp_path / "closed", process=of(child), state="complete").live is False
    assert read_with(tmp_path / "old").live is False
    assert read_with(tmp_path / "away", process=replace(HERE, host="another")).live is None
    child.kill()
    child.wait()
    assert recording.live is False


def test_a_process_that_became_another_program_records_no_more(tmp_path: Path) -> None:
    assert read_with(tmp_path / "same", process=HERE).live is True
    assert read_with(tmp_path / "other", process=HERE, command=("python", "x")).live is False
