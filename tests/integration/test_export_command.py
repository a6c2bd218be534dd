"""`syncscope export` in a subprocess, on recordings of an H200."""

from __future__ import annotations

import ast
import csv
import gzip
import json
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pandas as pd
import pytest

from syncscope.analysis.result import Analysis
from syncscope.api import load
from syncscope.reports.perfetto import perfetto_json
from syncscope.reports.sarif import sarif_json

Run = Callable[..., subprocess.CompletedProcess[str]]

DATA = Path(__file__).resolve().parents[1] / "data"
RUNS = sorted(
    path for name in ("h200", "h200_cases") for path in (DATA / name).iterdir() if path.is_dir()
)
TRACE = json.loads((DATA / "trace_events" / "schema.json").read_text())
SARIF = json.loads((DATA / "sarif" / "sarif-schema-2.1.0.json").read_text())


@cache
def analysis_of(path: Path) -> Analysis:
    return load(path).analysis


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording of its own, in a folder of its own."""
    return Path(shutil.copytree(DATA / "h200" / "upload_bound", tmp_path / "runs" / "upload"))


@pytest.mark.parametrize(
    ("to", "name"),
    [("perfetto", "upload.perfetto.json"), ("sarif", "upload.sarif"), ("csv", "upload.csv")],
)
def test_an_export_lies_beside_the_recording_and_is_the_same_every_time(
    syncscope_command: Run, recording: Path, to: str, name: str
) -> None:
    result = syncscope_command("export", recording, "--to", to)
    target = recording.parent / name
    assert (result.returncode, result.stdout.strip()) == (0, str(target))
    again = syncscope_command("export", recording, "--to", to, "-o", "-")
    assert again.stdout.encode() == target.read_bytes().replace(b"\r\n", b"\n")
    assert sorted(path.name for path in recording.parent.iterdir()) == sorted(["upload", name])


def test_what_is_written(syncscope_command: Run, recording: Path, tmp_path: Path) -> None:
    for to in ("perfetto", "sarif", "csv"):
        assert syncscope_command("export", recording, "--to", to, "-o", to).returncode == 0
    trace = json.loads((tmp_path / "perfetto").read_text())
    jsonschema.validate(trace, TRACE)
    log = json.loads((tmp_path / "sarif").read_text())
    jsonschema.Draft4Validator(SARIF).validate(log)
    flagged = [site for site in load(recording).summary().sites if site.flagged]
    assert len(log["runs"][0]["results"]) == len(flagged)
    with (tmp_path / "csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["flagged"] == "true" for row in rows) == len(flagged)


def test_a_name_that_ends_in_gz_is_compressed_the_same_way_every_time(
    syncscope_command: Run, recording: Path, tmp_path: Path
) -> None:
    packed = []
    for name in ("a.json.gz", "b.json.gz"):
        assert (
            syncscope_command("export", recording, "--to", "perfetto", "-o", name).returncode == 0
        )
        packed.append((tmp_path / name).read_bytes())
    assert packed[0] == packed[1]
    assert json.loads(gzip.decompress(packed[0]))["displayTimeUnit"] == "ms"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--to is missing; choose one of: perfetto, sarif, csv"),
        (["--to", "pdf"], "--to cannot be 'pdf'; choose one of: perfetto, sarif, csv"),
        (["--to", "csv", "-o", "no/where.csv"], "cannot be written to no/where.csv"),
    ],
)
def test_mistakes_get_one_line(
    syncscope_command: Run, recording: Path, arguments: list[str], said: str
) -> None:
    result = syncscope_command("export", recording, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    assert said in line


def test_a_folder_that_is_no_recording(syncscope_command: Run) -> None:
    result = syncscope_command("export", ".", "--to", "csv")
    assert result.returncode == 3
    assert "not a recording" in result.stderr


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_recording_of_an_h200_is_a_valid_trace_whose_arrows_bind(path: Path) -> None:
    analysis = analysis_of(path)
    trace = json.loads(b"".join(perfetto_json(analysis)))
    if len(trace["traceEvents"]) < 2_000:
        jsonschema.validate(trace, TRACE)
    events = pd.DataFrame(trace["traceEvents"])
    slices = events[events["ph"] == "X"].sort_values(["tid", "ts"], kind="stable")
    same = slices["tid"].eq(slices["tid"].shift())
    previous_end = (slices["ts"] + slices["dur"]).shift()
    assert (slices["ts"] >= previous_end - 1e-3)[same].all()
    flows = events[events["ph"].isin(["s", "f"])].sort_values("ts", kind="stable")
    over = slices.assign(end=slices["ts"] + slices["dur"]).sort_values("ts", kind="stable")
    bound = pd.merge_asof(flows[["ts", "tid"]], over[["ts", "tid", "end"]], on="ts", by="tid")
    assert (bound["end"] > bound["ts"]).all()


def test_a_million_activities_are_written_in_little_time_and_memory() -> None:
    """Figures of one machine would be flaky: time is a ratio to encoding the events at all."""
    analysis = load(DATA / "h200" / "balance_pole").analysis
    copies = 1_000_000 // len(analysis.activity) + 1
    span_ns = int(analysis.activity["end_ns"].max())
    shifted = [
        analysis.activity.assign(
            start_ns=analysis.activity["start_ns"] + number * span_ns,
            end_ns=analysis.activity["end_ns"] + number * span_ns,
        )
        for number in range(copies)
    ]
    large = replace(analysis, activity=pd.concat(shifted, ignore_index=True))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    written = sum(len(piece) for piece in perfetto_json(large))
    spent_s = time.process_time() - began
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    began = time.process_time()
    for _ in range(len(large.activity) // 10):
        json.dumps({"ph": "X", "name": "kernel", "pid": 2, "tid": 7, "ts": 1.5, "dur": 2.25})
    plain_s = 10 * (time.process_time() - began)
    assert written > 100_000_000
    assert spent_s < 3 * plain_s
    assert grown_kib < 300 * 1024


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_every_fix_of_an_h200_recording_applies_to_its_source(path: Path) -> None:
    analysis = analysis_of(path)
    log = json.loads(sarif_json(analysis))
    jsonschema.Draft4Validator(SARIF).validate(log)
    for result in log["runs"][0]["results"]:
        for change in (c for fix in result.get("fixes", []) for c in fix["artifactChanges"]):
            source = analysis.sources[unquote(change["artifactLocation"]["uri"])]
            changed = source
            for start, end, text in sorted(replacements(source, change), reverse=True):
                changed = changed[:start] + text + changed[end:]
            assert changed != source
            ast.parse(changed)


def replacements(source: str, change: dict[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Offsets and new text of each replacement, as a viewer would work them out."""
    lines = source.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    for replacement in change["replacements"]:
        region = replacement["deletedRegion"]
        yield (
            starts[region["startLine"] - 1] + region["startColumn"] - 1,
            starts[region["endLine"] - 1] + region["endColumn"] - 1,
            replacement["insertedContent"]["text"],
        )
