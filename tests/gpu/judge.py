"""Record one labelled case or one example on a real GPU and compare with the tags in its lines.

    python tests/gpu/judge.py case 41_d2h_race FOLDER
    python tests/gpu/judge.py example train_gpt FOLDER

Writes FOLDER/NAME.judged.json; exits with 1 if a tagged line is missed or a look-alike named.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd

import syncscope
from syncscope.analysis.stacks import Stacks
from syncscope.recording.reader import Recording
from syncscope.records import Site

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = {"upload_bound": ["--steps", "8", "--size", "large"]}
DEFAULT_ARGUMENTS = ["--steps", "6"]


def record_case(name: str, folder: Path) -> Path:
    """Run a case in this process; returns its file."""
    path = ROOT / "tests" / "data" / "cases" / f"{name}.py"
    spec = importlib.util.spec_from_file_location("case", path)
    assert spec is not None
    assert spec.loader is not None
    case = importlib.util.module_from_spec(spec)
    with syncscope.record(folder):
        spec.loader.exec_module(case)
        case.main("cuda")
    return path


def record_example(name: str, folder: Path) -> Path:
    """Run an example under the real command; returns its file."""
    path = ROOT / "examples" / f"{name}.py"
    arguments = ARGUMENTS.get(name.removesuffix("_fixed"), DEFAULT_ARGUMENTS)
    command = [sys.executable, "-m", "syncscope", "run", "-o", folder, path, *arguments]
    # Not in the repository, whose folder syncscope/ lacks the command where it is not installed.
    subprocess.run(command, cwd=folder.parent, check=True)
    return path


def wrong_lines(path: Path, sites: tuple[Site, ...]) -> dict[str, str]:
    """Lines whose tags and findings differ.

    Of the races one must be seen: the others may be won by the GPU, and then none is there.
    """
    waits, copies, races = set[int](), set[int](), set[int]()
    for site in sites:
        if site.flagged and site.file.endswith(path.name):
            span = set(range(site.line, site.end_line + 1))
            waits |= span if site.blocking else set()
            copies |= span if site.kind == "transfer" else set()
            races |= span if site.kind == "race" else set()
    wrong = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        tags = set(re.findall(r"# (SYNC|COPY|RACE|OK)\b", line))
        for tag, found in (("SYNC", waits), ("COPY", copies), ("RACE", races)):
            if tag in tags and number not in found and not (tag == "RACE" and races):
                wrong[f"{number}: {line.strip()}"] = f"{tag} was missed"
        if "OK" in tags and number in waits | copies | races:
            wrong[f"{number}: {line.strip()}"] = "a look-alike was flagged"
    return wrong


def samples_that_agree(recording: Recording) -> tuple[int, int]:
    """Of the calls that a sample and a wrapped call both saw, how many have the same line."""
    stacks = Stacks(recording.table("frames"), recording.table("stacks"))
    blocking, transfers = recording.table("blocking"), recording.table("transfers")
    samples = blocking[blocking["source"] == "sampled"]
    columns = ["thread_id", "start_ns", "end_ns", "stack_id"]
    explicit = blocking[blocking["source"] == "explicit"]
    spans = pd.concat([explicit[columns], transfers[columns]], ignore_index=True)
    same = total = 0
    for sample in samples.itertuples():
        around = spans[
            (spans["thread_id"] == sample.thread_id)
            & (spans["start_ns"] <= sample.start_ns)
            & (spans["end_ns"] >= sample.end_ns)
        ]
        if len(around):
            total += 1
            line = stacks.place(int(around.iloc[-1]["stack_id"])).frame.line
            same += stacks.place(int(sample.stack_id)).frame.line == line
    return same, total


def main() -> int:
    """Judge one program."""
    kind, name, out = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder = out / name
    out.mkdir(parents=True, exist_ok=True)
    path = (record_case if kind == "case" else record_example)(name, folder)
    run = syncscope.load(folder)
    summary = run.summary()
    wrong = wrong_lines(path, summary.sites)
    coverage = summary.coverage
    same, total = samples_that_agree(Recording(folder))
    sampled = sorted({f"{s.expression} ({s.op})" for s in summary.sites if s.sampled})
    judged = {
        "blocking_calls": coverage.blocking_calls,
        "attributed": coverage.attributed,
        "samples": [same, total],
        "sampled_sites": sampled,
        "collectors": {c.name: f"{c.state} {c.reason}" for c in run.analysis.manifest.collectors},
        "wrong": wrong,
    }
    (out / f"{name}.judged.json").write_text(json.dumps(judged, indent=1))
    figures = f"{coverage.attributed}/{coverage.blocking_calls} calls, sampled {sampled}"
    print(f"{figures}, wrong {json.dumps(wrong)}" if wrong else figures)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
