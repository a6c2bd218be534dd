"""The labelled programs, unmodified, on the shadow GPU: every tag holds.

Run as a script, this file records one case: `test_shadow_cases.py CASE FOLDER [GPU]`.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pandas as pd  # noqa: F401  (the reader imports it, which changes warning filters)
import pytest

CASES = Path(__file__).parents[1] / "data" / "cases"
TAG = re.compile(r"#\s*(SYNC|COPY|OK|RACE)\b")


def record(case: Path, folder: Path, gpu: str = "H200") -> None:
    """Run `main("cuda")` of a case under a ShadowGpu that writes to `folder`."""
    from syncscope.callsite import StackTable
    from syncscope.context import CaptureContext
    from syncscope.recording.manifest import Manifest
    from syncscope.recording.tables import FrameRow
    from syncscope.recording.writer import RecordingWriter
    from syncscope.shadow.gpu import ShadowGpu

    manifest = Manifest("case", (case.name,), True, False, 0, {})
    writer = RecordingWriter(folder, manifest)
    stacks = StackTable(str(CASES))
    context = CaptureContext(writer, stacks)

    def resolve() -> None:
        for row in stacks.resolve():
            writer.rows("frames" if isinstance(row, FrameRow) else "stacks").append(row)

    writer.before_flush.append(resolve)
    shadow = ShadowGpu(context, gpu)
    shadow.start()
    try:
        spec = importlib.util.spec_from_file_location("case", case)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main("cuda")
    finally:
        shadow.stop()
        writer.close(manifest)


def tags(case: Path) -> dict[int, set[str]]:
    """Tags of each line."""
    found = {}
    for number, line in enumerate(case.read_text().splitlines(), 1):
        if names := set(TAG.findall(line)):
            found[number] = names
    return found


def reported(folder: Path, case: Path) -> dict[int, set[str]]:
    """What the recording says of each line of the case: SYNC, COPY (flagged), RACE."""
    from syncscope.recording.reader import Recording

    recording = Recording(folder)
    frames = recording.table("frames").set_index("frame_id")
    own = set(frames.index[(frames.file == case.name) & (frames.owner == "user")])
    lines = {}
    for stack_id, frame_ids in recording.table("stacks").itertuples(index=False):
        inner = next((frame for frame in frame_ids if frame in own), None)
        lines[stack_id] = -1 if inner is None else int(frames.line[inner])
    runtime = recording.table("runtime")
    syncs = runtime[runtime.kind == "sync"]
    found: dict[int, set[str]] = defaultdict(set)
    for row in recording.table("blocking").itertuples():
        found[lines[row.stack_id]].add("RACE" if row.kind == "race" else "SYNC")
    for row in recording.table("transfers").itertuples():
        inside = syncs[
            (syncs.thread_id == row.thread_id)
            & (syncs.start_ns >= row.start_ns)
            & (syncs.end_ns <= row.end_ns)
        ]
        if len(inside):
            found[lines[row.stack_id]].add("SYNC")
        if len(inside) or row.memory == "pageable":
            found[lines[row.stack_id]].add("COPY")
    return found


@pytest.mark.parametrize("case", sorted(CASES.glob("*.py")), ids=lambda case: case.stem)
def test_the_tags_of_a_case_hold(case: Path, tmp_path: Path) -> None:
    gpu = "T4" if case.stem.startswith("45_") else "H200"  # 45 fills 1.5 % of the memory
    run = subprocess.run(
        [sys.executable, __file__, str(case), str(tmp_path / "run"), gpu],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = reported(tmp_path / "run", case)
    wrong = []
    for line, expected in tags(case).items():
        if "OK" in expected:
            if found.get(line):
                wrong.append(f"line {line}: {sorted(found[line])} reported, but it is OK")
        elif missing := expected - found.get(line, set()):
            wrong.append(f"line {line}: {sorted(missing)} not reported")
    for line in set(found) - set(tags(case)):
        wrong.append(f"line {line}: {sorted(found[line])} reported on a line without a tag")
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    record(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
