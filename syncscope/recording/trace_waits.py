"""Who waited in a trace: its runtime calls, operators and Python functions put together."""

from __future__ import annotations

import re
import sys

from syncscope.callsite import MAX_DEPTH, owner_of
from syncscope.recording.cuda_names import blocks_host, drains_device
from syncscope.recording.tables import ActivityRow, BlockingRow, FrameRow, StackRow, TransferRow
from syncscope.recording.trace_contents import RuntimeCall, TraceContents

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
_OPERATOR = re.compile(r"(?!autograd::|torch::autograd::)[A-Za-z_]\w*::\w")
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_STDLIB = re.compile(r".*/lib/python3[\d.]*/|<")
_LIBRARIES = sys.stdlib_module_names | {
    *("PIL", "accelerate", "apex", "datasets", "deepspeed", "diffusers", "einops", "fairscale"),
    *("fbgemm_gpu", "flash_attn", "functorch", "lightning", "lightning_fabric", "megatron"),
    *("numpy", "pandas", "peft", "pytorch_lightning", "safetensors", "scipy", "sklearn", "timm"),
    *("tokenizers", "torchaudio", "torchmetrics", "torchrec", "torchvision", "tqdm"),
    *("transformer_engine", "transformers", "triton", "trl", "vllm", "xformers"),
}


class TraceStacks:
    """Interns call stacks given as names of python_function events, innermost first."""

    def __init__(self) -> None:
        self.frames: list[FrameRow] = []
        self.stacks: list[StackRow] = []
        self._frame_ids: dict[str, int] = {}
        self._stack_ids: dict[tuple[int, ...], int] = {}

    def id_of(self, names: list[str]) -> int:
        """Id of a stack; -1 for an empty one."""
        key = tuple(self._frame(name) for name in names[:MAX_DEPTH])
        if not key:
            return -1
        if key not in self._stack_ids:
            self._stack_ids[key] = len(self.stacks)
            self.stacks.append(StackRow(len(self.stacks), key))
        return self._stack_ids[key]

    def _frame(self, name: str) -> int:
        if name not in self._frame_ids:
            self._frame_ids[name] = len(self.frames)
            self.frames.append(_frame_row(len(self.frames), name))
        return self._frame_ids[name]


class TraceWaits:
    """Blocking and transfer rows, made from calls, copies, operators and functions."""

    def __init__(self, trace: TraceContents) -> None:
        self.stacks = TraceStacks()
        self.blocking: dict[tuple[int, int, str], BlockingRow] = {}
        self.transfers: list[TransferRow] = []
        self._trace = trace
        self._copies = {
            row.correlation_id: row for row in trace.activity if row.direction in ("h2d", "d2h")
        }

    def find(self) -> None:
        """Fill `blocking` and `transfers`, in the order of threads and of time."""
        found = set()
        for thread_id, calls in self._trace.calls.items():
            for index, call in enumerate(calls):
                copy = self._copies.get(call.correlation_id)
                if copy is not None:
                    self._add_transfer(thread_id, calls, index, copy)
                    found.add(copy.correlation_id)
                self._add_wait(thread_id, call, copy)
        for row in self._trace.activity:
            if row.direction in ("h2d", "d2h") and row.correlation_id not in found:
                self._add_orphan(row)

    def _add_wait(self, thread_id: int, call: RuntimeCall, copy: ActivityRow | None) -> None:
        allocates = drains_device(call.name)
        to_pageable = copy is not None and copy.direction == "d2h" and copy.memory == "pageable"
        if not (allocates or to_pageable or blocks_host(call.name)):
            return
        start_ns, end_ns = call.start_ns, call.end_ns
        operator, op = self._operator(thread_id, start_ns)
        if operator >= 0 and not allocates:
            start_ns, end_ns = self._trace.operators[thread_id].interval(operator)
        kind = "allocator" if allocates else "sync"
        key = (thread_id, start_ns, kind)
        if key not in self.blocking:
            self.blocking[key] = BlockingRow(
                thread_id,
                start_ns,
                end_ns,
                self._stack(thread_id, call.start_ns),
                "import",
                op or call.name,
                kind,
                call.kind == "sync" and operator < 0,
                "",
            )

    def _add_transfer(
        self, thread_id: int, calls: list[RuntimeCall], index: int, copy: ActivityRow
    ) -> None:
        call = calls[index]
        operator, op = self._operator(thread_id, call.start_ns)
        wait = self._wait_after(thread_id, calls, index, operator)
        size = copy.size_bytes
        self.transfers.append(
            TransferRow(
                thread_id,
                call.start_ns,
                call.end_ns if wait is None else wait.end_ns,
                self._stack(thread_id, call.start_ns),
                op or call.name,
                copy.direction,
                size if size >= 0 else self._trace.call_sizes.get(copy.correlation_id, -1),
                copy.memory,
                wait is None and self._trace.has_waits and not blocks_host(call.name),
                copy.device,
                -1,
                "",
            )
        )

    def _add_orphan(self, copy: ActivityRow) -> None:
        """A copy whose runtime call is not in the trace: at its own start, on no thread."""
        start_ns = copy.start_ns
        place = (-1, start_ns, start_ns, -1, "", copy.direction, copy.size_bytes, copy.memory)
        self.transfers.append(TransferRow(*place, True, copy.device, -1, ""))

    def _wait_after(
        self, thread_id: int, calls: list[RuntimeCall], index: int, operator: int
    ) -> RuntimeCall | None:
        """The synchronize call that follows a copy, with no work in between."""
        for call in calls[index + 1 :][:8]:
            if call.kind == "sync":
                same = self._operator(thread_id, call.start_ns)[0] == operator
                return call if same else None
            if call.kind not in ("event", "other"):
                return None
        return None

    def _operator(self, thread_id: int, time_ns: int) -> tuple[int, str]:
        """The operator that a line calls, seen from inside it: its index and name."""
        spans = self._trace.operators.get(thread_id)
        around = spans.around(time_ns) if spans is not None else []
        if spans is None or not around:
            return -1, ""
        named = [index for index in around if _OPERATOR.match(spans.name(index))]
        chosen = named[-1] if named else around[0]
        return chosen, spans.name(chosen)

    def _stack(self, thread_id: int, time_ns: int) -> int:
        functions = self._trace.functions
        own = functions.get(thread_id)
        if own is not None:
            return self.stacks.id_of([own.name(index) for index in own.around(time_ns)])
        for other in functions.values():
            names = [other.name(index) for index in other.around(time_ns)]
            if any("torch/autograd/" in name for name in names):
                return self.stacks.id_of(names)
        return -1


def _frame_row(frame_id: int, name: str) -> FrameRow:
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return FrameRow(frame_id, "", name, -1, -1, -1, -1, "", "library")
    file, line = match["file"].replace("\\", "/"), int(match["line"])
    shown = _INSTALLED.sub("", file)
    return FrameRow(frame_id, shown, match["function"], line, line, -1, -1, "", _owner(file, shown))


def _owner(file: str, shown: str) -> str:
    """As `callsite.owner_of`; the profiler cuts off the folders of sys.path, so also by name."""
    top = shown.partition("/")[0].removesuffix(".py")
    if top == "torch":
        return "torch"
    if shown != file or _STDLIB.match(file) or top in _LIBRARIES:
        return "library"
    return "user" if owner_of(file) == "user" else "library"
