"""The Python functions of a trace, put together to the call stacks of moments."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import numpy as np

from syncscope.callsite import MAX_DEPTH, owner_of
from syncscope.recording.tables import FrameRow, StackRow
from syncscope.recording.trace_columns import Ints, picked
from syncscope.recording.trace_contents import Spans
from syncscope.recording.trace_spans import spans_around

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
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
    """Call stacks as codes of the names of python_function events, innermost first.

    `frames` and `stacks` hold those that `id_of` was asked for.
    """

    def __init__(self, functions: Spans, names: Sequence[str]) -> None:
        self.frames: list[FrameRow] = []
        self.stacks: list[StackRow] = []
        self._names = names
        self._threads = {
            thread_id: picked(functions, functions.thread_id == thread_id)
            for thread_id in np.unique(functions.thread_id).tolist()
        }
        self._frame_ids: dict[int, int] = {}
        self._stack_ids: dict[tuple[int, ...], int] = {}

    def at(self, thread_id: int, times_ns: Ints) -> list[list[int]]:
        """The functions that ran on a thread at moments.

        On a thread without Python (autograd's) those of the `backward` that waits for it.
        """
        if thread_id in self._threads:
            return self._running(thread_id, times_ns)
        found: list[list[int]] = [[] for _ in times_ns]
        for other in self._threads:
            missing = [moment for moment, codes in enumerate(found) if not codes]
            for moment, codes in zip(missing, self._running(other, times_ns[missing]), strict=True):
                if any("torch/autograd/" in self._names[code] for code in codes):
                    found[moment] = codes
        return found

    def _running(self, thread_id: int, times_ns: Ints) -> list[list[int]]:
        own = self._threads[thread_id]
        found: list[list[int]] = [[] for _ in times_ns]
        for moments, spans in spans_around(own.start_ns, own.end_ns, times_ns):
            for moment, code in zip(moments.tolist(), own.name[spans].tolist(), strict=True):
                found[moment].append(code)
        return found

    def id_of(self, codes: Sequence[int]) -> int:
        """Id of a stack; -1 for an empty one."""
        key = tuple(codes[:MAX_DEPTH])
        if not key:
            return -1
        if key not in self._stack_ids:
            self._stack_ids[key] = len(self.stacks)
            self.stacks.append(StackRow(len(self.stacks), tuple(map(self._frame, key))))
        return self._stack_ids[key]

    def _frame(self, code: int) -> int:
        if code not in self._frame_ids:
            self._frame_ids[code] = len(self.frames)
            self.frames.append(_frame_row(len(self.frames), self._names[code]))
        return self._frame_ids[code]


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
