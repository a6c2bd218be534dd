"""A torch.profiler trace becomes a recording; what counts is compared with plain json."""

from __future__ import annotations

import errno
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.errors import RecordingError, SyncscopeError, UsageError
from syncscope.recording import trace_events
from syncscope.recording.reader import Recording
from syncscope.recording.trace_import import import_trace
from syncscope.recording.trace_spans import spans_around
from syncscope.recording.writer import RecordingWriter

TRACES = Path(__file__).parents[2] / "data" / "traces"
GPU_TRACES = sorted(path for path in TRACES.glob("*.json.gz") if "cpu" not in path.name)
ON_DEVICE = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}

Events = list[dict[str, Any]]


def plain(path: Path) -> tuple[dict[str, Any], Events]:
    """A trace read with json, its numbers exact."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return trace, [event for event in trace["traceEvents"] if event["ph"] == "X"]


def busy(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of intervals."""
    total = reach = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total


def event(cat: str, name: str, ts: Any, dur: Any, tid: Any = 1, **args: Any) -> dict[str, Any]:
    """One complete event of a trace."""
    return {
        "ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1, "tid": tid,
        "args": args,
    }  # fmt: skip


def copy(name: str, ts: float, correlation: int, size: int = 4) -> dict[str, Any]:
    """A copy of 2 us on stream 7 of device 0."""
    args = {"device": 0, "stream": 7, "correlation": correlation, "bytes": size}
    return event("gpu_memcpy", name, ts, 2, 7, **args)


KERNEL = event("kernel", "gemm", 100, 50, 7, device=0, stream=7, correlation=1)
D2H_PAGEABLE = "Memcpy DtoH (Device -> Pageable)"
H2D_PINNED = "Memcpy HtoD (Pinned -> Device)"

ImportEvents = Callable[..., Recording]


@pytest.fixture
def imported(tmp_path: Path) -> ImportEvents:
    """Write events (and a kernel) to a file, import it and read the recording."""

    def run(*events: dict[str, Any], kernel: bool = True, **metadata: Any) -> Recording:
        trace = tmp_path / "trace.json"
        listed = [*events, KERNEL] if kernel else list(events)
        trace.write_text(json.dumps({**metadata, "traceEvents": listed}))
        import_trace(trace, tmp_path / "run")
        return Recording(tmp_path / "run")

    return run


@pytest.mark.parametrize("path", GPU_TRACES, ids=lambda path: path.name)
def test_tables_hold_what_the_trace_holds(path: Path, tmp_path: Path) -> None:
    import_trace(path, tmp_path / "run")
    recording, (trace, events) = Recording(tmp_path / "run"), plain(path)

    on_device = [event for event in events if event["cat"] in ON_DEVICE]
    activity = recording.table("activity")
    expected_kinds = Counter(ON_DEVICE[event["cat"]] for event in on_device)
    assert activity["kind"].value_counts().to_dict() == dict(expected_kinds)
    assert len(recording.table("runtime")) == sum(e["cat"] == "cuda_runtime" for e in events)
    assert activity["size_bytes"].clip(0).sum() == sum(e["args"].get("bytes", 0) for e in on_device)

    per_device = defaultdict(list)
    for item in on_device:
        end = round((item["ts"] + item["dur"]) * 1000)
        per_device[int(item["args"]["device"])].append((round(item["ts"] * 1000), end))
    assert {device.index for device in recording.manifest.devices} == set(per_device)
    for device, intervals in per_device.items():
        rows = activity[activity["device"] == device]
        pairs = list(zip(rows["start_ns"].tolist(), rows["end_ns"].tolist(), strict=True))
        assert busy(pairs) == busy(intervals)
        origin_ns = min(start for start, _ in intervals) - min(start for start, _ in pairs)
        base_ns = int(trace.get("baseTimeNanoseconds", 0))
        assert recording.manifest.origin_unix_ns == origin_ns + base_ns


@pytest.mark.parametrize("path", GPU_TRACES, ids=lambda path: path.name)
def test_steps_copies_and_losses_are_those_of_the_trace(path: Path, tmp_path: Path) -> None:
    import_trace(path, tmp_path / "run")
    recording, (_, events) = Recording(tmp_path / "run"), plain(path)

    steps = [
        event
        for event in events
        if event["cat"] == "user_annotation" and event["name"].startswith("ProfilerStep#")
    ]
    assert recording.table("steps")["name"].tolist() == [step["name"] for step in steps]
    copies = [e for e in events if "HtoD" in e["name"] or "DtoH" in e["name"]]
    copies = [e for e in copies if e["cat"] == "gpu_memcpy"]
    assert len(recording.table("transfers")) == len(copies)
    for name in ("activity", "runtime", "transfers", "blocking"):
        table = recording.table(name)
        assert (table["start_ns"] >= 0).all()
        assert (table["end_ns"] >= table["start_ns"]).all()
        assert table["start_ns"].is_monotonic_increasing
    assert [status.lost for status in recording.manifest.collectors] == [0] * 7


def test_a_trace_of_the_cpu_alone_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"holds no GPU activity .*ProfilerActivity\.CUDA$"):
        import_trace(TRACES / "cpu_only.json.gz", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("block", [1_000, 50_000])
def test_the_size_of_the_blocks_changes_nothing(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = TRACES / "alexnet.json.gz"
    import_trace(path, tmp_path / "whole")
    monkeypatch.setattr(trace_events, "_BLOCK_BYTES", block)
    parts: list[float] = []
    import_trace(path, tmp_path / "blocks", progress=parts.append)
    whole, blocks = Recording(tmp_path / "whole"), Recording(tmp_path / "blocks")
    assert blocks.manifest == whole.manifest
    for table in ("activity", "runtime", "blocking", "transfers"):
        assert blocks.table(table).equals(whole.table(table))
    assert len(parts) >= 5
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_plain_text_and_the_plain_list_form_are_read_too(tmp_path: Path) -> None:
    events = plain(TRACES / "cuda_event_sync.json.gz")[1]
    import_trace(TRACES / "cuda_event_sync.json.gz", tmp_path / "object")
    (tmp_path / "list.json").write_text("\ufeff" + json.dumps(events, default=int))
    import_trace(tmp_path / "list.json", tmp_path / "list")
    for table in ("activity", "runtime", "blocking", "steps"):
        assert (
            Recording(tmp_path / "list")
            .table(table)
            .equals(Recording(tmp_path / "object").table(table))
        )


@pytest.mark.parametrize(
    ("ts", "dur"),
    [
        (1712195495505543, 5),
        ("1712195495505543", "5"),
        (1712195495505543.0, 5.0),
        ("1712195495505543.000", "5.000"),
    ],
)
def test_times_may_be_numbers_or_texts(imported: ImportEvents, ts: Any, dur: Any) -> None:
    kernel = event("kernel", "k", ts, dur, 7, device=0, stream=7, correlation=1)
    recording = imported(kernel, kernel=False)
    assert recording.manifest.origin_unix_ns == 1712195495505543000
    assert recording.table("activity")[["start_ns", "end_ns"]].to_numpy().tolist() == [[0, 5000]]


def test_nanoseconds_survive_that_a_float_would_lose(tmp_path: Path) -> None:
    text = json.dumps([{**KERNEL, "ts": 0, "dur": 0}, {**KERNEL, "ts": 1, "dur": 0}])
    text = text.replace('"ts": 0', '"ts": 1712195495505543.234')
    text = text.replace('"ts": 1,', '"ts": 1712195495505543.235,')
    (tmp_path / "t.json").write_text(text)
    import_trace(tmp_path / "t.json", tmp_path / "run")
    assert Recording(tmp_path / "run").table("activity")["start_ns"].tolist() == [0, 1]


def test_the_base_time_is_added_to_the_origin(imported: ImportEvents) -> None:
    recording = imported(baseTimeNanoseconds=1735632360000000000)
    assert recording.manifest.origin_unix_ns == 1735632360000100000


def test_a_readback_is_named_by_the_outermost_operator(imported: ImportEvents) -> None:
    recording = imported(
        event("cpu_op", "autograd::engine::evaluate_function: X", 150, 100),
        event("cpu_op", "aten::item", 200, 20),
        event("cpu_op", "aten::_local_scalar_dense", 201, 18),
        event("cuda_runtime", "cudaMemcpyAsync", 202, 3, correlation=2),
        event("cuda_runtime", "cudaStreamIsCapturing", 206, 1, correlation=3),
        event("cuda_runtime", "cudaStreamSynchronize", 208, 9, correlation=4),
        copy(D2H_PAGEABLE, 203, 2),
    )
    (wait,) = recording.table("blocking").to_dict("records")
    assert (wait["op"], wait["kind"], wait["source"]) == ("aten::item", "sync", "import")
    assert (wait["start_ns"], wait["end_ns"]) == (100_000, 120_000)
    assert not wait["explicit"]
    assert wait["stack_id"] == -1
    (transfer,) = recording.table("transfers").to_dict("records")
    assert (transfer["start_ns"], transfer["end_ns"]) == (102_000, 117_000)
    assert (transfer["direction"], transfer["memory"]) == ("d2h", "pageable")
    assert not transfer["non_blocking"]


def test_an_upload_is_asynchronous_when_no_wait_follows_it(imported: ImportEvents) -> None:
    recording = imported(
        event("cuda_runtime", "cudaMemcpyAsync", 200, 3, correlation=2),
        event("cuda_runtime", "cudaLaunchKernel", 204, 3, correlation=1),
        event("cuda_runtime", "cudaStreamSynchronize", 208, 9, correlation=4),
        copy(H2D_PINNED, 203, 2, size=1024),
    )
    (transfer,) = recording.table("transfers").to_dict("records")
    assert transfer["non_blocking"]
    assert (transfer["size_bytes"], transfer["memory"]) == (1024, "pinned")
    assert (transfer["start_ns"], transfer["end_ns"]) == (100_000, 103_000)


def test_waits_under_no_operator_were_asked_for(imported: ImportEvents) -> None:
    recording = imported(
        event("cpu_op", "aten::empty", 200, 20),
        event("cuda_runtime", "cudaMalloc", 205, 10, correlation=2),
        event("cuda_runtime", "cudaDeviceSynchronize", 230, 10, correlation=3),
    )
    rows = recording.table("blocking")[["op", "kind", "explicit"]].to_numpy().tolist()
    assert rows == [
        ["aten::empty", "allocator", False],
        ["cudaDeviceSynchronize", "sync", True],
    ]


def test_python_functions_become_stacks(imported: ImportEvents) -> None:
    recording = imported(
        event("python_function", "train.py(9): <module>", 150, 900),
        event("python_function", "train.py(3): train", 160, 800),
        event("python_function", "/opt/x/site-packages/mylib/a.py(7): step", 170, 700),
        event("python_function", "nn.Module: Net_0", 171, 690),
        event("python_function", "torch/nn/modules/module.py(1782): _call_impl", 172, 600),
        event("python_function", "<built-in method item of Tensor object at 0x7f>", 180, 90),
        event("python_function", "train.py(30): other", 1100, 9),
        event("cpu_op", "aten::item", 200, 20),
        event("cuda_runtime", "cudaStreamSynchronize", 208, 9, correlation=4),
    )
    assert recording.table("blocking")["stack_id"].tolist() == [0]
    frames = recording.table("frames").set_index("frame_id")
    ids = recording.table("stacks")["frame_ids"][0].tolist()
    found = frames.loc[ids][["file", "line", "function", "owner"]].to_numpy().tolist()
    assert found == [
        ["torch/nn/modules/module.py", 1782, "_call_impl", "torch"],
        ["mylib/a.py", 7, "step", "library"],
        ["train.py", 3, "train", "user"],
        ["train.py", 9, "<module>", "user"],
    ]
    assert (frames["column"] == -1).all()
    assert {s.name: s.state for s in recording.manifest.collectors}["stacks"] == "on"


def test_stacks_of_a_trace_that_torch_wrote(imported: ImportEvents) -> None:
    """with_stack_cpu is train.py on a CPU (torch 2.13); waits are put into its readbacks."""
    trace = json.loads(gzip.decompress((TRACES / "with_stack_cpu.json.gz").read_bytes()))
    events = trace.pop("traceEvents")
    readbacks = [event for event in events if event["name"] == "aten::_local_scalar_dense"]
    waits = [
        event("cuda_runtime", "cudaStreamSynchronize", item["ts"], item["dur"], item["tid"])
        for item in readbacks
    ]
    recording = imported(*events, *waits, **trace)
    blocking, stacks = recording.table("blocking"), recording.table("stacks")
    places = [
        f"{row['file']}:{row['line']} {row['owner']}"
        for row in recording.table("frames").to_dict("records")
    ]
    paths = [[places[frame_id] for frame_id in ids] for ids in stacks["frame_ids"]]
    module = ["torch/nn/modules/module.py:1782 torch"]
    assert paths == [
        ["train.py:4 user", "train.py:14 user", *module, "train.py:22 user", "train.py:29 user"],
        ["train.py:4 user", "train.py:22 user", "train.py:29 user"],
    ]
    assert blocking["stack_id"].tolist() == [0, 1, 0, 1]
    assert set(blocking["op"]) == {"aten::item"}


def test_a_wait_in_autograd_has_the_stack_of_backward(imported: ImportEvents) -> None:
    recording = imported(
        event("python_function", "train.py(3): train", 160, 800),
        event("python_function", "torch/autograd/__init__.py(244): backward", 170, 700),
        event("cpu_op", "aten::item", 200, 20, 2),
        event("cuda_runtime", "cudaStreamSynchronize", 208, 9, 2, correlation=4),
    )
    assert recording.table("blocking")["stack_id"].tolist() == [0]
    assert recording.table("frames")["function"].tolist() == ["backward", "train"]


def test_without_profiler_steps_the_optimizer_marks_the_steps(imported: ImportEvents) -> None:
    recording = imported(
        event("user_annotation", "Optimizer.step#Adam.step", 300, 5),
        event("user_annotation", "Optimizer.step#SGD.step", 200, 5),
        event("user_annotation", "Optimizer.step#SGD.step", 400, 5),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 410, 7),
    )
    steps = recording.table("steps")[["time_ns", "source", "name"]].to_numpy().tolist()
    assert steps == [
        [105_000, "optimizer", "Optimizer.step#SGD.step"],
        [305_000, "optimizer", "Optimizer.step#SGD.step"],
    ]
    (host,) = recording.table("host").to_dict("records")
    assert (host["kind"], host["start_ns"], host["end_ns"]) == ("dataloader", 310_000, 317_000)


def test_the_window_is_the_span_of_the_profiler_steps(imported: ImportEvents) -> None:
    recording = imported(
        event("user_annotation", "ProfilerStep#1", 90, 30),
        event("user_annotation", "ProfilerStep#2", 120, 40),
        event("cuda_runtime", "cudaLaunchKernel", 10, 3, correlation=1),
    )
    (window,) = recording.manifest.windows
    assert (window.start_ns, window.end_ns) == (80_000, 150_000)


def test_steps_without_gpu_activity_make_no_window(imported: ImportEvents) -> None:
    recording = imported(event("user_annotation", "ProfilerStep#1", 10, 30))
    (window,) = recording.manifest.windows
    assert (window.start_ns, window.end_ns) == (90_000, 140_000)


def test_rank_devices_threads_and_versions_come_from_the_trace(imported: ImportEvents) -> None:
    manifest = imported(
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "main"}},
        event("cuda_runtime", "cudaLaunchKernel", 10, 3, correlation=1),
        distributedInfo={"backend": "nccl", "rank": 3, "world_size": 8},
        deviceProperties=[{"id": 0, "name": "NVIDIA H200"}, {"id": 1, "name": "NVIDIA H200"}],
        cuda_runtime_version=12040,
        cuda_driver_version=13000,
    ).manifest
    assert (manifest.rank, manifest.world_size) == (3, 8)
    assert [(device.index, device.name) for device in manifest.devices] == [(0, "NVIDIA H200")]
    assert [(thread.id, thread.name) for thread in manifest.threads] == [(1, "main")]
    assert manifest.versions["cuda"] == "12.4"
    assert manifest.versions["driver"] == "13.0"
    assert manifest.imported
    assert not manifest.simulated
    assert manifest.state == "complete"


@pytest.mark.parametrize(
    "odd",
    [
        {**KERNEL, "ts": None},
        {**KERNEL, "ts": "soon"},
        {**KERNEL, "ts": "NaN"},
        {**KERNEL, "ts": 1e300},
        {**KERNEL, "dur": -1},
        {**KERNEL, "name": 7},
        {**KERNEL, "args": {"stream": 7}},
        {**KERNEL, "args": {"device": 0, "stream": "seven"}},
        {**KERNEL, "args": [1]},
        {key: value for key, value in KERNEL.items() if key != "dur"},
        None,
        "text",
    ],
)
def test_odd_events_are_counted_as_lost(imported: ImportEvents, odd: Any) -> None:
    recording = imported(odd)
    assert len(recording.table("activity")) == 1
    assert recording.manifest.collectors[0].lost == 1


def test_numbers_that_json_does_not_know_do_no_harm(tmp_path: Path) -> None:
    text = json.dumps({"traceEvents": [{**KERNEL, "args": {**KERNEL["args"], "bw": "?"}}] * 2})
    (tmp_path / "t.json").write_text(text.replace('"?"', "inf", 1).replace('"?"', "-nan", 1))
    import_trace(tmp_path / "t.json", tmp_path / "run")
    assert len(Recording(tmp_path / "run").table("activity")) == 2


SOME = gzip.compress(json.dumps({"traceEvents": [KERNEL] * 300}).encode())
BAD_FILES = {
    "empty": (b"", "is empty"),
    "text": (b"hello", "is not JSON"),
    "not JSON": (b'{"traceEvents": [nonsense]}', "is not JSON"),
    "truncated": (b'{"traceEvents": [{"ph": "X"}, {"ph"', "is cut short"),
    "truncated between events": (b'{"traceEvents": [{"ph": "X"},', "is cut short"),
    "truncated before the events": (b'{"schemaVersion": 1, ', "is cut short"),
    "truncated gzip": (SOME[: len(SOME) // 2], "compressed data ends too early"),
    "damaged gzip": (b"\x1f\x8b\x07" + bytes(30), "cannot be read"),
    "no trace": (b'{"a": [1, 2]}', "no torch.profiler trace"),
    "no list": (b'{"traceEvents": 5}', "no torch.profiler trace"),
    "no events": (b'{"traceEvents": []}', "holds no events"),
    "deep": (b'{"a":' + b"[" * 100_000, "is not JSON"),
    "CPU only": (json.dumps([event("cpu_op", "a", 1, 2)]).encode(), "holds no GPU activity"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_gives_one_line_and_leaves_nothing(case: str, tmp_path: Path) -> None:
    content, message = BAD_FILES[case]
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(RecordingError, match=message) as caught:
        import_trace(tmp_path / "bad.json", tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert "bad.json" in str(caught.value)
    assert not (tmp_path / "run").exists()


@settings(deadline=None)
@given(st.data())
def test_a_torn_trace_is_never_taken_for_a_whole_one(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = SOME if data.draw(st.booleans()) else gzip.decompress(SOME)
    folder = tmp_path_factory.mktemp("torn")
    (folder / "torn.json").write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(RecordingError):
        import_trace(folder / "torn.json", folder / "run")
    assert not (folder / "run").exists()


def test_a_missing_file_and_a_folder_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        import_trace(tmp_path / "none.json", tmp_path / "run")
    with pytest.raises(UsageError, match="is a folder"):
        import_trace(tmp_path, tmp_path / "run")


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        import_trace(TRACES / "alexnet.json.gz", tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine.txt"]
    with pytest.raises(UsageError, match="is a file"):
        import_trace(TRACES / "alexnet.json.gz", tmp_path / "run" / "mine.txt" / "run")


@pytest.mark.parametrize("existed", [True, False])
def test_a_full_disk_leaves_nothing_behind(
    existed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RecordingWriter, "_write", full)
    folder = tmp_path / "run"
    if existed:
        folder.mkdir()
    with pytest.raises(SyncscopeError, match="No space left on device"):
        import_trace(TRACES / "alexnet.json.gz", folder)
    assert folder.exists() == existed
    assert not existed or not list(folder.iterdir())


def test_importing_twice_gives_the_same_recording(tmp_path: Path) -> None:
    for name in ("a", "b"):
        import_trace(TRACES / "mi250_rocm_minitoy.json.gz", tmp_path / name)
    first, second = (Recording(tmp_path / name) for name in ("a", "b"))
    assert first.manifest == second.manifest
    for path in sorted((tmp_path / "a" / "rank-0").iterdir()):
        assert path.read_bytes() == (tmp_path / "b" / "rank-0" / path.name).read_bytes()


def test_rocm_copies_have_the_size_of_their_call(tmp_path: Path) -> None:
    import_trace(TRACES / "mi250_rocm_minitoy.json.gz", tmp_path / "run")
    transfers = Recording(tmp_path / "run").table("transfers")
    assert transfers["size_bytes"].tolist() == [2560, 2560]
    assert not transfers["non_blocking"].any()


@st.composite
def nested_spans(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Calls and returns at whole moments, as a thread makes them; some take no time."""
    spans, open_starts, now = [], [], 0
    for opens, pause in draw(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), max_size=40)):
        now += pause
        if opens:
            open_starts.append(now)
        elif open_starts:
            spans.append((open_starts.pop(), now))
    return spans


@given(nested_spans(), st.lists(st.integers(0, 130)))
def test_spans_around_moments_are_those_that_contain_them(
    intervals: list[tuple[int, int]], moments: list[int]
) -> None:
    spans = np.array(intervals, np.int64).reshape(-1, 2)
    found: list[list[tuple[int, int]]] = [[] for _ in moments]
    times = np.array(moments, np.int64)
    for which, around in spans_around(spans[:, 0], spans[:, 1], times):
        for moment, span in zip(which, around, strict=True):
            found[moment].append(intervals[span])
    for moment, contain in zip(moments, found, strict=True):
        strictly_inside = sorted(i for i in intervals if i[0] <= moment < i[1])
        assert [i for i in sorted(contain) if i[1] > moment] == strictly_inside
        assert contain == sorted(contain, reverse=True)


def test_texts_of_large_tables_are_read_as_categories(tmp_path: Path) -> None:
    import_trace(TRACES / "alexnet.json.gz", tmp_path / "run")
    recording = Recording(tmp_path / "run")
    for table in ("activity", "runtime"):
        for text in ("kind", "name"):
            assert recording.table(table)[text].dtype == "category"
