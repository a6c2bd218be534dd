"""Programs on a real GPU, each with what must be in its recording.

    python tests/gpu/programs.py windows FOLDER

Prints what it saw as its last line; an AssertionError says what was not as promised.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import torch
from torch import nn

import syncscope
from syncscope.analysis.stacks import Stacks
from syncscope.recording.manifest import Manifest
from syncscope.recording.reader import Recording

ROOT = Path(__file__).resolve().parents[2]


def counts(run: syncscope.Run) -> dict[str, int]:
    """Expression -> occurrences, of all sites but those at which memory is allocated."""
    found: Counter[str] = Counter()
    for site in run.summary().sites:
        if site.kind != "allocator":
            found[site.expression] += site.count
    return dict(found)


def states(manifest: Manifest) -> dict[str, str]:
    """Collector -> its state and reason."""
    return {c.name: f"{c.state} {c.reason}".strip() for c in manifest.collectors}


def windows(folder: Path) -> object:
    """Three windows of 3 steps every 8, kernels in them only, and a loop as fast as before."""
    x = torch.randn(512, 512, device="cuda")

    def step() -> float:
        began = time.perf_counter()
        for _ in range(200):
            torch.mul(x, 1.0)
        x[0, 0].item()
        syncscope.step()
        return time.perf_counter() - began

    for _ in range(20):
        step()
    before = [step() for _ in range(30)]
    with syncscope.record(folder, warmup=4, steps=3, every=8) as run:
        times = [step() for _ in range(26)]
        after = [step() for _ in range(30)][-12:]
    recording = Recording(folder)
    manifest, activity = recording.manifest, recording.table("activity")
    spans = [(window.start_ns, window.end_ns) for window in manifest.windows]
    assert len(spans) >= 6, spans
    for row in activity.itertuples():
        assert any(start - 1_000_000 <= row.start_ns <= end for start, end in spans), row
    (site,) = (one for one in run.summary().sites if one.expression == "x[0, 0].item()")
    items = site.count
    assert items == 3 * len(spans), (items, len(spans))
    assert site.per_step == 1, site
    lengths = [step.length_ns for step in run.summary().steps if step.steady]
    assert min(lengths) > 0.4 * statistics.median(lengths), lengths
    bare = statistics.median(before)
    return {
        "windows": len(spans), "steps": run.summary().run.steps, "items": items,
        "in_window": round(statistics.median([*times[4:7], *times[12:15]]) / bare, 2),
        "between": round(statistics.median([*times[8:11], *times[16:19]]) / bare, 2),
        "after": round(statistics.median(after) / bare, 2),
        "overhead": manifest.overhead, "collectors": states(manifest),
    }  # fmt: skip


def long_run(folder: Path) -> object:
    """A run that nobody bounded is recorded for 10 s, and goes on."""
    x, steps = torch.ones(512, device="cuda"), 0
    with syncscope.record(folder) as run:
        until = time.monotonic() + 15
        while time.monotonic() < until:
            x.mul_(1.0).sum().item()
            time.sleep(0.01)
            syncscope.step()
            steps += 1
    (window,) = run.analysis.manifest.windows
    recorded_s = (window.end_ns - window.start_ns) / 1e9
    assert 10 <= recorded_s < 11, recorded_s
    last_ns = int(Recording(folder).table("activity")["end_ns"].max())
    assert window.end_ns - 100_000_000 < last_ns <= window.end_ns, (last_ns, window)
    marks = len(Recording(folder).table("steps"))
    assert marks == steps, (marks, steps)
    (note,) = run.analysis.manifest.notes
    return {"recorded_s": recorded_s, "steps": steps, "of them": counts(run), "note": note}


def killed_while_closing(folder: Path) -> object:
    """A process killed while it writes a window's events leaves next to nothing of them."""
    lines = f"""
import torch, syncscope
x = torch.ones(8, device="cuda")
with syncscope.record({str(folder)!r}):
    x.sum().item()
    for _ in range(200_000):
        x.mul_(1.0)
"""
    child = subprocess.Popen([sys.executable, "-c", lines])
    until, written = time.monotonic() + 100, 0
    while written < 10 << 20:
        assert child.poll() is None, "nothing was written"
        assert time.monotonic() < until, [*folder.rglob("*")]
        for link in folder.glob("*/window.json.tmp"):
            target = os.readlink(link).replace("self", str(child.pid))
            written = os.stat(target).st_size
        time.sleep(0.001)
    child.kill()
    child.wait()
    left = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert left < 1 << 20, [*folder.rglob("*")]
    recording = Recording(folder)
    waits = len(recording.table("blocking"))
    assert recording.truncated
    assert waits == 1, waits
    return {"written": written, "left": left, "waits": waits}


def other_thread(folder: Path) -> object:
    """CUDA begins on one thread, the steps end on another: a window closes there all the same."""
    made: dict[str, torch.Tensor] = {}

    def on_thread(work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    def begin() -> None:
        made["x"] = torch.ones(512, device="cuda")

    def steps() -> None:
        for _ in range(12):
            for _ in range(10):
                made["x"].mul_(1.0)
            made["x"].sum().item()
            syncscope.step()

    with syncscope.record(folder, steps=4) as run:
        on_thread(begin)
        on_thread(steps)
    (window,) = run.analysis.manifest.windows
    marks = Recording(folder).table("steps")["time_ns"].tolist()
    assert marks[3] <= window.end_ns < marks[4], (window, marks)
    kernels = int((Recording(folder).table("activity")["kind"] == "kernel").sum())
    assert kernels >= 4 * 11, kernels
    found = counts(run)
    assert found == {'made["x"].sum().item()': 4}, found
    return {"kernels": kernels, "waits": found}


def detail(folder: Path) -> object:
    """Operators, origins and the forward line of a wait in backward, from two detail steps."""
    weight = torch.randn(64, 8, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step() -> None:
        x = weight * 2
        mask = x.detach().sum(1) > 0
        kept = x[mask]
        noise = torch.rand(8)
        loss = (kept * noise.to("cuda")).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    with syncscope.record(folder, warmup=5, steps=4) as run:
        for _ in range(12):
            step()
    recording = Recording(folder)
    ops = recording.table("ops")
    stacks = Stacks(recording.table("frames"), recording.table("stacks"))
    seen = [
        (
            op.op, op.shapes, op.devices, op.blocking, op.direction,
            stacks.place(op.stack_id).frame.expression,
            stacks.place(op.origin_stack_id).frame.expression,
            stacks.place(op.forward_stack_id).frame.expression,
        )
        for op in ops.itertuples()
    ]  # fmt: skip
    print(*seen, sep="\n")
    sites = {s.expression: (s.op, s.count, s.cause, s.advice.text) for s in run.summary().sites}
    print(json.dumps(sites, indent=1))
    manifest = recording.manifest
    assert len(manifest.details) == 1, manifest.details
    assert manifest.details[0].end_ns <= manifest.windows[0].start_ns
    assert "on" in states(manifest)["operators"]
    uploads = [row for row in seen if row[5] == 'noise.to("cuda")']
    assert [row[6] for row in uploads] == ["torch.rand(8)"] * 2, uploads
    assert sites["x[mask]"][1] >= 4, sites
    backward = [row for row in seen if row[7] and row[3]]
    assert "loss.backward()" not in sites, (sites, backward)
    return {"ops": len(seen), "backward": backward[:2], "x[mask]": sites["x[mask]"][:3]}


def operators(folder: Path) -> object:
    """With --detail ops the whole run is detail, and counts are right."""
    with syncscope.record(folder, detail="ops") as run:
        x = torch.randn(64, device="cuda")
        for _ in range(3):
            x.nonzero()
            syncscope.step()
    ops = Recording(folder).table("ops")
    assert counts(run).get("x.nonzero()") == 3, counts(run)
    assert ops["op"].str.contains("nonzero").sum() == 3, ops["op"].tolist()
    return {"ops": ops["op"].value_counts().to_dict()}


def compiled(folder: Path) -> object:
    """A compiled model compiles as often as without us, also over detail steps."""
    from torch._dynamo.utils import counters

    def counted(record: bool) -> tuple[int, int, list[str]]:
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)).cuda()
        late = torch.compile(lambda x: (x * 3).sin())
        fast = torch.compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kernels: list[str] = []

        def loop() -> None:
            for step in range(12):
                x = torch.randn(16, 32, device="cuda")
                loss = fast(x).square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                if step >= 4:  # first called in a detail step
                    late(x)

        if record:
            with syncscope.record(folder, warmup=6, steps=3):
                loop()
            names = Recording(folder).table("activity")["name"]
            kernels = sorted({name for name in names if "triton" in name})
        else:
            loop()
        stats = counters["stats"]
        return int(stats["unique_graphs"]), int(sum(counters["frames"].values())), kernels

    bare, ours = counted(record=False), counted(record=True)
    assert bare[0] == ours[0], (bare, ours)
    assert ours[2], "no compiled kernel ran in the window"
    return {"bare": bare[:2], "recorded": ours[:2], "kernels": ours[2]}


def graph_break(folder: Path) -> object:
    """A readback in a compiled function breaks the graph: its line and cause are told."""

    @torch.compile
    def model(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum().item() > 0:
            y = y + 1
        return y.sin()

    x = torch.randn(16, device="cuda")
    for _ in range(3):
        model(x)
    with syncscope.record(folder) as run:
        for _ in range(5):
            model(x)
            syncscope.step()
    sites = {s.expression: (s.count, s.cause, s.flagged) for s in run.summary().sites}
    assert sites == {"y.sum().item()": (5, "graph_break", True)}, sites
    return sites


def cuda_graphs(folder: Path) -> object:
    """A graph replays as without us; its kernels count as busy; copies in a capture are no race."""
    x = torch.ones(256, 256, device="cuda")
    host = torch.ones(256, 256, pin_memory=True)
    side = torch.cuda.Stream()
    with syncscope.record(folder) as run:
        host.to("cuda", non_blocking=True)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side):
            x @ x
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            x.copy_(host, non_blocking=True)
            y = (x @ x).relu()
        for _ in range(20):
            graph.replay()
            syncscope.step()
        total = y.sum().item()
    assert total == 256.0**3, total
    kernels = Recording(folder).table("activity")
    busy = run.summary().gpu[0].busy_ns
    assert len(kernels) >= 40, len(kernels)
    assert busy > 0
    races = [site.expression for site in run.summary().sites if site.kind == "race"]
    assert not races, races
    return {"activity_rows": len(kernels), "busy_us": busy // 1000, "sites": counts(run)}


def captured_step(folder: Path) -> object:
    """A window that should end while a whole training step is captured ends after it."""
    model = nn.Linear(64, 64).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.randn(32, 64, device="cuda")

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    with syncscope.record(folder, steps=3) as run:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = step()
        losses = []
        for _ in range(5):
            graph.replay()
            losses.append(loss.item())
        step()
        for _ in range(3):
            step().item()
    assert losses == sorted(losses, reverse=True), losses
    (window,) = run.analysis.manifest.windows
    marks = Recording(folder).table("steps")["time_ns"].tolist()
    assert window.end_ns >= marks[3] > marks[2], (window, marks)
    found = counts(run)
    assert found.get("loss.item()") == 5, found
    assert "step().item()" not in found, found
    return {"losses": losses, "waits": found}


def strangers(folder: Path) -> object:
    """Waits of a library that no hook knows get their line from a sample."""
    import ctypes

    runtime = ctypes.CDLL(None)
    if not hasattr(runtime, "cudaDeviceSynchronize"):
        (library,) = [p for p in _loaded_libraries() if "libcudart" in p][:1]
        runtime = ctypes.CDLL(library)
    x = torch.randn(8192, 8192, device="cuda")
    x @ x
    torch.cuda.synchronize()
    with syncscope.record(folder) as run:
        for _ in range(5):
            for _ in range(4):
                x @ x
            runtime.cudaDeviceSynchronize()
            syncscope.step()
    sites = {s.expression: (s.count, s.sampled, s.blocked_ns) for s in run.summary().sites}
    count, sampled, _ = sites["runtime.cudaDeviceSynchronize()"]
    assert sampled
    assert count >= 4, sites
    return {"sites": sites, "unattributed": run.summary().coverage.unattributed}


def _loaded_libraries() -> list[str]:
    maps = Path("/proc/self/maps").read_text()
    return sorted({line.split()[-1] for line in maps.splitlines() if line.endswith((".so", ".13"))})


def sparse(folder: Path) -> object:
    """coalesce, whose wait torch does not warn of, is found; on the CPU it is nothing."""
    i, v = torch.randint(0, 100, (2, 500)), torch.randn(500)
    with syncscope.record(folder) as run:
        for device in ("cuda", "cpu"):
            s = torch.sparse_coo_tensor(i.to(device), v.to(device), (100, 100))
            for _ in range(3):
                s.coalesce()
    assert counts(run).get("s.coalesce()") == 3, counts(run)
    return counts(run)


def races(folder: Path) -> object:
    """Refilling and reading pinned memory under way is seen; after a wait it is not."""
    host = torch.empty(1 << 26, pin_memory=True)
    x = torch.randn(1 << 26, device="cuda")
    busy = torch.randn(8192, 8192, device="cuda")
    done = torch.cuda.Event()
    with syncscope.record(folder) as run:
        for _ in range(3):
            busy @ busy
            host.to("cuda", non_blocking=True)
            host.fill_(1.0)
            host[0] = 2.0
            torch.cuda.synchronize()
            host.zero_()
            y = x.to("cpu", non_blocking=True)
            done.record()
            y.numpy()
            done.synchronize()
            y.sum()
    found = {s.expression: s.count for s in run.summary().sites if s.kind == "race"}
    assert found == {"host.fill_(1.0)": 3, "host[0]": 3, "y.numpy()": 3}, found
    return found


def own_profiler(folder: Path) -> object:
    """A program that starts torch.profiler in our window keeps it, and gets all its events."""
    x = torch.randn(256, 256, device="cuda")
    with syncscope.record(folder) as run:
        for _ in range(5):
            (x @ x).sum().item()
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        ) as profiler:
            for _ in range(5):
                (x @ x).sum().item()
            torch.cuda.synchronize()
        for _ in range(5):
            (x @ x).sum().item()
    events = [e.key for e in profiler.key_averages()]
    assert any("gemm" in key or "cutlass" in key or "sm90" in key for key in events), events
    manifest = run.analysis.manifest
    assert len(manifest.windows) == 1
    kernels = len(Recording(folder).table("activity"))
    assert kernels >= 10, kernels
    return {"activity": states(manifest)["activity"], "kernels": kernels, "counts": counts(run)}


def muted_readbacks(folder: Path) -> object:
    """Torch warns of no readback that its wrapper notes, and of all other waits."""
    from syncscope.capture.sync_filter import SyncFilter

    heard: list[str] = []

    def called(frame: FrameType, event: str, _: object) -> None:
        # A wrapper around it would be taken for the line that waited.
        if event == "call" and frame.f_code is SyncFilter._asked.__code__:
            heard.append(frame.f_locals["text"])

    x = torch.ones(4, device="cuda")
    with syncscope.record(folder, gpu_activity=False) as run:
        sys.setprofile(called)
        for _ in range(50):
            x.sum().item()
        for _ in range(5):
            x.nonzero()
        sys.setprofile(None)
    found = counts(run)
    assert found == {"x.sum().item()": 50, "x.nonzero()": 5}, found
    assert len(heard) < 20, f"{len(heard)} warnings, threads: {threading.enumerate()}"
    return {"waits": found, "warnings": len(heard)}


def prints(folder: Path) -> object:
    """A print waits as often as torch warns by itself, and all of it is at its line.

    Where the program has another thread, torch is not kept from warning.
    """
    x = torch.randn(200, device="cuda")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        text = str(x)
        torch.cuda.set_sync_debug_mode("default")
    expected = sum("called a synchronizing" in str(warning.message) for warning in warned)
    assert expected > 2 * len(x), [str(warning.message) for warning in warned]
    found = {}
    for name, gpu_activity, others in (
        ("free", False, 0), ("free beside a thread", False, 1),
        ("full", True, 0), ("full beside a thread", True, 1),
    ):  # fmt: skip
        done = threading.Event()
        threads = [threading.Thread(target=done.wait) for _ in range(others)]
        for thread in threads:
            thread.start()
        with syncscope.record(folder / name, gpu_activity=gpu_activity) as run:
            assert str(x) == text
        done.set()
        for thread in threads:
            thread.join()
        found[name] = counts(run)
    assert all(waits == {"str(x)": expected} for waits in found.values()), (expected, found)
    return {"waits": expected}


def variables(folder: Path) -> object:
    """What the program lets go of is freed at once, and torch.func works after each print."""
    each = torch.func.vmap(torch.func.grad(lambda x: (x**2).sum()))
    x = torch.randn(4, 3, device="cuda")

    def step() -> weakref.ref[torch.Tensor]:
        variable = torch.randn(256, 256, device="cuda")
        torch.testing.assert_close(each(x), 2 * x)
        assert "cuda" in str(variable)
        return weakref.ref(variable)

    step()
    gc.disable()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for name, gpu_activity in (("free", False), ("full", True)):
        with syncscope.record(folder / name, gpu_activity=gpu_activity):
            for _ in range(100):
                variable = step()
                assert variable() is None, name
                assert torch.cuda.memory_allocated() == before, name
    gc.enable()
    return {"bytes": before}


def programs_warnings(folder: Path) -> object:
    """Warnings and sync debug modes of the program look as without us."""
    x = torch.ones(4, device="cuda")
    with syncscope.record(folder, gpu_activity=False) as run:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            x.sum().item()
            assert not seen, seen
            torch.cuda.set_sync_debug_mode("warn")
            x.sum().item()
        assert [w for w in seen if "synchronizing" in str(w.message)], seen
        torch.cuda.set_sync_debug_mode("error")
        raised = ""
        try:
            x.sum().item()
        except RuntimeError as error:
            raised = str(error)
        assert "synchronizing" in raised, "error mode did not raise"
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.get_sync_debug_mode() == 0
    return counts(run)


class Numbers(torch.utils.data.Dataset[torch.Tensor]):
    """For worker processes."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), float(index))


def processes(folder: Path) -> object:
    """Workers, pin-memory threads, forked and spawned children neither break nor write."""
    x = torch.ones(4, device="cuda")
    total = 0.0
    with syncscope.record(folder) as run:
        loader = torch.utils.data.DataLoader(
            Numbers(), batch_size=8, num_workers=2, pin_memory=True
        )
        for batch in loader:
            total += batch.to("cuda", non_blocking=True).sum().item()
            syncscope.step()
        child = os.fork()
        if not child:
            np.ones(4).sum()
            torch.ones(4).sum().item()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        spawned = "import torch; print(torch.ones(4, device='cuda').sum().item())"
        said = subprocess.run(
            [sys.executable, "-c", spawned], capture_output=True, text=True, check=True
        )
        x.sum().item()
    assert said.stdout == "4.0\n", said
    assert total == 8 * sum(range(64)), total
    recording = Recording(folder)
    assert not recording.truncated
    found = counts(run)
    assert found.get("x.sum().item()") == 1, found
    assert len(list(folder.glob("rank-*"))) == 1
    return {"counts": found, "threads": [t.name for t in recording.manifest.threads]}


def threads_around(folder: Path) -> object:
    """Threads that begin before the window or end after it have their calls inside it counted."""
    x = torch.ones(4, device="cuda")
    go, stop, made = threading.Event(), threading.Event(), Counter[str]()

    def early() -> None:
        go.wait()
        for _ in range(50):
            x.max().item()
            made["early"] += 1

    def late() -> None:
        while not stop.wait(0.001):
            x.min().item()

    threads = [threading.Thread(target=early, name="early"), threading.Thread(target=late)]
    threads[0].start()
    with syncscope.record(folder) as run:
        threads[1].start()
        go.set()
        threads[0].join()
        time.sleep(0.2)
    stop.set()
    threads[1].join()
    found = counts(run)
    assert found.get("x.max().item()") == 50, found
    assert found.get("x.min().item()", 0) > 20, found
    assert run.summary().coverage.unattributed == 0, run.summary().coverage
    return found


def allowing(folder: Path) -> object:
    """Allowed intervals are in the recording with their reasons."""
    x = torch.ones(4, device="cuda")
    with syncscope.record(folder), syncscope.allow("outer"), syncscope.allow("inner"):
        x.sum().item()
    host = Recording(folder).table("host")
    reasons = host.loc[host["kind"] == "allow", "name"].tolist()
    assert reasons == ["inner", "outer"], reasons
    return reasons


def forbidding(folder: Path) -> object:
    """A forbidden wait raises at its line, also without a recording; an allowed one does not."""
    x = torch.ones(4, device="cuda")
    weight = torch.ones(4, device="cuda", requires_grad=True)
    lines = []

    def forbidden(wait: Callable[[], object]) -> None:
        try:
            with syncscope.forbid():
                torch.cuda.synchronize()
                with syncscope.allow("meant"):
                    x.max().item()
                (x * 2).sum()
                wait()
        except syncscope.ImplicitSyncError as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines.extend(f.line for f in frames if f.filename == __file__ and f.name == "<lambda>")

    def waits() -> None:
        forbidden(lambda: x.sum().item())
        forbidden(lambda: x.nonzero())
        forbidden(lambda: weight[weight > 0])
        forbidden(lambda: torch.ones(4).to("cuda"))

    waits()
    with syncscope.record(folder, gpu_activity=False) as run:
        waits()
    x.sum().item()
    assert len(lines) == 8, lines
    assert torch.cuda.get_sync_debug_mode() == 0
    assert counts(run).get("x.max().item()") == 4, counts(run)
    return lines[:4]


def calibration(folder: Path) -> object:
    """What recording costs a launch-bound loop, measured by itself in 52 steps."""
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(100))).cuda()
    x = torch.randn(64, 64, device="cuda")
    with syncscope.record(folder, warmup=5, steps=10, calibrate=True) as run:
        for _ in range(80):
            model(x).sum().item()
            syncscope.step()
    overhead = run.analysis.manifest.overhead
    for name in ("ratio_free", "ratio_full", "ratio_recovered"):
        assert 0.3 < overhead[name] < 10, overhead
    assert run.summary().run.steps >= 10, run.summary().run
    return overhead


def main() -> int:
    """Run one program."""
    program: Callable[[Path], object] = globals()[sys.argv[1]]
    print(json.dumps(program(Path(sys.argv[2])), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
