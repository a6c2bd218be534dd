"""Small analyses built by hand, and one that looks like a real training run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.recording.manifest import CollectorStatus, Device, Exit, Manifest, Thread, Window
from syncscope.recording.tables import columns
from syncscope.records import (
    Advice,
    Coverage,
    GpuSummary,
    Replay,
    RunSummary,
    Site,
    StackFrame,
    Summary,
)

MS = 1_000_000
CALL_COLUMNS = (
    "thread_id", "start_ns", "end_ns", "site_id", "name", "kind", "direction", "size_bytes",
    "blocking", "explicit",
)  # fmt: skip
GAP_COLUMNS = ("device", "start_ns", "end_ns", "cause", "site_id")
STEP_COLUMNS = ("index", "start_ns", "end_ns")

TRAIN = """import torch
from torch.nn.utils import clip_grad_norm_


def train(model, loader, optimizer, device):
    running = 0.0
    for step, (images, labels) in enumerate(loader):
        images = images.to(device)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            scores = model(images)
            keep = labels >= 0
            loss = criterion(scores[keep], labels[keep])
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        if norm > 100:
            continue
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        running += loss.item()
        log(f"step {step}: loss {loss:.3f}")
    return running
"""


def make_site(**changes: Any) -> Site:
    """A flagged scalar readback in train.py, line 20, `loss.item()`."""
    site = Site(
        id="s1", file="train.py", line=20, end_line=20, column=20, end_column=31,
        function="train", expression="loss.item()", library_line=None, owner="user",
        op="aten::_local_scalar_dense", kind="sync", explicit=False, blocking=True,
        direction="d2h", pageable=None, cause="scalar_readback", count=40, per_step=1.0,
        size_bytes=160, blocked_ns=88 * MS, exposed_idle_ns=124 * MS,
        savings_ns_per_step=3_100_000, flagged=True, verdict="fix",
        advice=Advice(
            "Accumulate on the GPU, read once",
            "Each readback waits until the GPU has caught up. Add the detached tensor instead, "
            "and call .item() when the number is printed.",
            "running += loss.detach()",
        ),
        sampled=False,
        stack=(StackFrame("train.py", 20, "train"), StackFrame("main.py", 8, "<module>")),
    )  # fmt: skip
    return replace(site, **changes)


def make_summary(*sites: Site, **changes: Any) -> Summary:
    """Forty steps of 24.1 ms on one H200 that idles 31 % of them."""
    window_ns = 40 * 24_100_000
    idle_ns = int(window_ns * 0.31)
    run: dict[str, Any] = {
        "argv": ("train.py", "--epochs", "1"), "device": "NVIDIA H200", "simulated": False,
        "torch": "2.11.0+cu130", "ranks": 1, "steps": 40, "step_ns": 24_100_000,
        "window_ns": window_ns, "truncated": False, "imported": False, "live": False,
    }  # fmt: skip
    run |= {name: changes.pop(name) for name in list(changes) if name in run}
    by_cause = {
        "sync": idle_ns * 55 // 100, "transfer": idle_ns * 22 // 100,
        "launch": idle_ns * 15 // 100, "gc": idle_ns * 5 // 100,
        "unknown": idle_ns * 3 // 100,
    }  # fmt: skip
    gpu = GpuSummary(
        rank=0, device=0, busy_ns=window_ns - idle_ns, idle_ns=idle_ns, idle_fraction=0.31,
        idle_by_cause_ns=by_cause, steady_idle_fraction=0.31, steady_idle_by_cause_ns=by_cause,
    )  # fmt: skip
    summary = Summary(
        run=RunSummary(**run), gpu=(gpu,), sites=sites,
        coverage=Coverage(blocking_calls=400, attributed=400, unattributed=0, lost=0),
        replay=Replay(baseline_error=None), overhead={"flush": 0.012},
    )  # fmt: skip
    return replace(summary, **changes)


def with_idle(summary: Summary, fraction: float, cause: str) -> Summary:
    """The same summary on a GPU that idles this share of the time, all for one cause."""
    whole = summary.run.window_ns
    idle = int(whole * fraction)
    gpu = replace(
        summary.gpu[0], busy_ns=whole - idle, idle_ns=idle, idle_fraction=fraction,
        idle_by_cause_ns={cause: idle}, steady_idle_fraction=fraction,
        steady_idle_by_cause_ns={cause: idle},
    )  # fmt: skip
    return replace(summary, gpu=(gpu,))


def make_manifest(**changes: Any) -> Manifest:
    """A complete recording of train.py with all collectors on."""
    manifest = Manifest(
        run_id="train-0001", argv=("train.py", "--epochs", "1"), simulated=False, imported=False,
        origin_unix_ns=1_764_633_600 * 1_000_000_000,
        versions={"syncscope": "0.1.0", "python": "3.12.4", "torch": "2.11.0+cu130",
                  "cuda": "13.0", "driver": "580.12"},
        devices=(Device(0, "NVIDIA H200"),), windows=(Window(0, 40 * 24_100_000),),
        collectors=(CollectorStatus("sync warnings", "on"), CollectorStatus("GPU activity", "on")),
        threads=(Thread(0, "MainThread"), Thread(1, "pin_memory")), state="complete",
        exit=Exit(0), overhead={"start_s": 0.012, "stop_s": 0.041, "windows": 1.0},
    )  # fmt: skip
    return replace(manifest, **changes)


def table(names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> pd.DataFrame:
    """Rows as a frame, sorted by start, with the types that an analysis yields."""
    frame = pd.DataFrame(rows, columns=list(names))
    texts = {"site_id", "name", "kind", "direction", "cause", "memory"}
    flags = {"blocking", "explicit"}
    for name in names:
        frame[name] = frame[name].astype(
            "str" if name in texts else "bool" if name in flags else "int64"
        )
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)


def make_analysis(
    summary: Summary | None = None, manifest: Manifest | None = None, **tables: Any
) -> Analysis:
    """An analysis without events, unless tables are given as lists of rows."""
    summary = summary or make_summary(make_site())
    frames = {
        "calls": table(CALL_COLUMNS, tables.get("calls", [])),
        "activity": table(tuple(columns("activity")), tables.get("activity", [])),
        "gaps": table(GAP_COLUMNS, tables.get("gaps", [])),
        "steps": table(STEP_COLUMNS, tables.get("steps", [])),
        "host": table(tuple(columns("host")), tables.get("host", [])),
    }
    return Analysis(
        manifest=manifest
        or make_manifest(simulated=summary.run.simulated, imported=summary.run.imported),
        summary=summary, nvml=pd.DataFrame(columns=list(columns("nvml"))),
        sources=tables.get("sources", {"train.py": TRAIN}), **frames,
    )  # fmt: skip


def plausible_sites() -> tuple[Site, ...]:
    """The sites of `plausible_analysis`."""
    stack = (StackFrame("train.py", 8, "train"), StackFrame("main.py", 8, "<module>"))
    keep = make_site(
        id="keep", line=13, end_line=13, column=30, end_column=42, expression="scores[keep]",
        op="aten::nonzero", cause="data_dependent_size", size_bytes=320, blocked_ns=61 * MS,
        exposed_idle_ns=66 * MS, savings_ns_per_step=1_650_000,
        advice=Advice("Keep the shape, weight the loss",
                      "A boolean index has a size that only the GPU knows, so the host waits for "
                      "it. ignore_index, or a mask that multiplies, keeps the shape.",
                      "loss = criterion(scores, labels)  # ignore_index=-1"),
    )  # fmt: skip
    images = make_site(
        id="images", line=8, end_line=8, column=18, end_column=35,
        expression="images.to(device)", op="aten::_to_copy", kind="transfer", direction="h2d",
        pageable=True, cause="pageable_batch", size_bytes=40 * 38_535_168, blocked_ns=180 * MS,
        exposed_idle_ns=58 * MS, savings_ns_per_step=1_450_000, stack=stack,
        advice=Advice("Pin the batch and do not wait for it",
                      "The batch lies in pageable memory, so its upload cannot overlap with "
                      "compute. Ask the DataLoader for pin_memory=True as well.",
                      "images = images.to(device, non_blocking=True)"),
    )  # fmt: skip
    norm = make_site(
        id="norm", line=16, end_line=16, column=12, end_column=22, expression="norm > 100",
        cause="scalar_readback", exposed_idle_ns=0, savings_ns_per_step=0, verdict="harmless",
        blocked_ns=9 * MS,
        advice=Advice("Decide on the GPU", "torch.where keeps the decision on the GPU.", ""),
    )  # fmt: skip
    shown = make_site(
        id="format", line=21, end_line=21, column=13, end_column=44,
        expression='f"step {step}: loss {loss:.3f}"', cause="print_or_format",
        exposed_idle_ns=0, savings_ns_per_step=0, verdict="harmless", blocked_ns=2 * MS,
        library_line=None,
        advice=Advice("Format when it is shown", "Log the detached tensor every 100 steps.", ""),
    )  # fmt: skip
    labels = make_site(
        id="labels", line=9, end_line=9, column=18, end_column=54,
        expression="labels.to(device, non_blocking=True)", kind="transfer", direction="h2d",
        op="aten::_to_copy", blocking=False, pageable=False, cause="pinned_upload",
        size_bytes=40 * 2048, blocked_ns=400_000, exposed_idle_ns=0, savings_ns_per_step=0,
        flagged=False, verdict="harmless", advice=Advice("", "", ""),
    )  # fmt: skip
    scale = make_site(
        id="scale", file="loop/amp.py", line=88, end_line=88, column=-1, end_column=-1,
        function="update", expression="self.scaler.update()", explicit=False, owner="user",
        library_line="torch/amp/grad_scaler.py:512", cause="library_readback", count=38,
        per_step=0.95, exposed_idle_ns=0, savings_ns_per_step=0, blocked_ns=1 * MS,
        verdict="harmless", sampled=True,
        advice=Advice("The library reads a number back", "bfloat16 needs no scaler.", ""),
    )  # fmt: skip
    return make_site(), keep, images, norm, shown, labels, scale


def plausible_analysis(steps: int = 40, kernels: int = 60) -> Analysis:
    """Forty steps of a small training loop with three costly lines and some harmless ones."""
    length = 24_100_000
    calls: list[tuple[Any, ...]] = []
    activity: list[tuple[Any, ...]] = []
    gaps: list[tuple[Any, ...]] = []
    host: list[tuple[Any, ...]] = []
    for step in range(steps):
        t = step * length
        calls += [
            (0, t + 200_000, t + 4_700_000, "images", "aten::_to_copy", "transfer", "h2d",
             38_535_168, True, False),
            (0, t + 4_800_000, t + 4_810_000, "labels", "aten::_to_copy", "transfer", "h2d",
             2048, False, False),
            (0, t + 8_000_000, t + 9_525_000, "keep", "aten::nonzero", "sync", "d2h", 8, True,
             False),
            (0, t + 17_000_000, t + 17_225_000, "norm", "aten::is_nonzero", "sync", "d2h", 1,
             True, False),
            (0, t + 20_500_000, t + 22_700_000, "s1", "aten::_local_scalar_dense", "sync", "d2h",
             4, True, False),
            (0, t + 22_710_000, t + 22_760_000, "format", "aten::_local_scalar_dense", "sync",
             "d2h", 4, True, False),
        ]  # fmt: skip
        activity += _kernels(t + 5_000_000, t + 9_500_000, kernels // 4)
        activity += _kernels(t + 11_150_000, t + 21_000_000, kernels // 2)
        activity += _kernels(t + 21_600_000, t + 22_500_000, kernels // 8)
        activity.append((0, 20, t + 1_700_000, t + 4_650_000, "memcpy", "Memcpy HtoD (Pageable)",
                         "h2d", "pageable", 38_535_168, -1))  # fmt: skip
        gaps += [
            (0, t + 9_500_000, t + 11_150_000, "sync", "keep"),
            (0, t + 21_000_000, t + 21_600_000, "launch", ""),
            (0, t + 22_500_000, t + length, "sync", "s1"),
            (0, t, t + 1_450_000, "transfer", "images"),
        ]
        if step % 9 == 4:
            host.append((0, t + 23_000_000, t + 23_900_000, "gc", "gc generation 2", -1))
    marks = [(i, i * length, (i + 1) * length) for i in range(steps)]
    manifest = make_manifest(
        collectors=(
            CollectorStatus("sync warnings", "on"),
            CollectorStatus("transfers", "on"),
            CollectorStatus("explicit waits", "on"),
            CollectorStatus("GPU activity", "on"),
            CollectorStatus("dispatcher", "off", "not asked for: --detail lines"),
            CollectorStatus("NVML", "failed", "libnvidia-ml.so.1 was not found"),
        )
    )
    summary = make_summary(
        *plausible_sites(),
        coverage=Coverage(blocking_calls=212, attributed=206, unattributed=6, lost=0),
    )
    return make_analysis(
        summary, manifest, calls=calls, activity=activity, gaps=gaps, steps=marks, host=host
    )


def _kernels(start_ns: int, end_ns: int, count: int) -> list[tuple[Any, ...]]:
    each = (end_ns - start_ns) // count
    names = ("sm90_xmma_gemm_bf16bf16_bf16f32", "vectorized_elementwise_kernel<4, AddFunctor>",
             "flash_fwd_kernel", "layer_norm_kernel<float>")  # fmt: skip
    return [
        (0, 7, start_ns + i * each, start_ns + (i + 1) * each - 1_500, "kernel",
         names[i % len(names)], "", "", -1, i)
        for i in range(count)
    ]  # fmt: skip
