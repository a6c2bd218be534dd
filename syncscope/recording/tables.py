"""The tables of a recording, each declared once: columns, types, units.

A table is a `NamedTuple`; collectors append its instances, the writer turns them into
Arrow batches, the reader checks what it finds against the same declaration. Times are
nanoseconds since the recording's origin (`Manifest.clock`). There are no nulls: a missing
number is -1, a missing text is "".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, NamedTuple, get_args, get_type_hints


@dataclass(frozen=True, slots=True)
class Column:
    """Arrow type name and unit of a column."""

    arrow_type: str
    unit: str = ""


Nanoseconds = Annotated[int, Column("int64", "ns")]
Bytes = Annotated[int, Column("int64", "bytes")]
Id = Annotated[int, Column("int64")]
Small = Annotated[int, Column("int32")]
Flag = Annotated[bool, Column("bool")]
Text = Annotated[str, Column("string")]
Percent = Annotated[float, Column("float64", "percent")]
BytesPerSecond = Annotated[float, Column("float64", "bytes/s")]
Megahertz = Annotated[float, Column("float64", "MHz")]
IdList = Annotated[tuple[int, ...], Column("list<int64>")]


class StepMark(NamedTuple):
    """A moment at which a step ended."""

    time_ns: Nanoseconds
    thread_id: Id
    source: Text
    """api (`syncscope.step()`), optimizer, or profiler (`torch.profiler`'s step)."""
    name: Text


class FrameRow(NamedTuple):
    """A place in the code; lines and columns are 1-based, -1 where unknown."""

    frame_id: Id
    file: Text
    """Relative to the working folder (own files) or to site-packages (libraries)."""
    function: Text
    line: Small
    end_line: Small
    column: Small
    end_column: Small
    """One past the last character, so that `text[column - 1 : end_column - 1]` is it."""
    expression: Text
    owner: Text
    """user, library or torch."""


class StackRow(NamedTuple):
    """Frames of a call stack, innermost first."""

    stack_id: Id
    frame_ids: IdList


class BlockingRow(NamedTuple):
    """A hook saw the host wait, or saw something that explains a wait."""

    thread_id: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    """Equal to start_ns for a sync warning, which is a moment after the wait."""
    stack_id: Id
    source: Text
    """What saw it.

    - warning: torch's sync warning.
    - explicit: a wrapped call.
    - scope: a call under which other threads work (backward).
    - sampled: a sample of the stack that was taken during a call of the runtime; start_ns and
      end_ns are that call's.
    - flight: the host touched memory while the event of its copy was not done.
    - shadow: the shadow GPU.
    """
    op: Text
    """aten overload or Python name of the call; "" when the hook does not know it."""
    kind: Text
    """sync, allocator or race."""
    explicit: Flag
    cause: Text
    """What the hook itself knows of the cause, as named in `analysis.causes`; else ""."""


class TransferRow(NamedTuple):
    """A copy between host and device that a hook saw; start and end are the host's."""

    thread_id: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    stack_id: Id
    op: Text
    direction: Text
    """h2d or d2h."""
    size_bytes: Bytes
    memory: Text
    """pageable, pinned or unknown: the host side of the copy."""
    non_blocking: Flag
    device: Small
    origin_stack_id: Id
    """Where the host tensor was created; -1 if unknown."""
    cause: Text
    """As in `BlockingRow`."""


class RuntimeRow(NamedTuple):
    """A call into the CUDA (or HIP) runtime or driver."""

    thread_id: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    name: Text
    kind: Text
    """launch, memcpy, memset, sync, malloc, free, event or other."""
    correlation_id: Id


class ActivityRow(NamedTuple):
    """Something that ran on a device: a kernel, a copy, a memset."""

    device: Small
    stream: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    kind: Text
    """kernel, memcpy or memset."""
    name: Text
    direction: Text
    """h2d, d2h, d2d, p2p; "" for kernels and memsets."""
    memory: Text
    """pageable, pinned or unknown for copies between host and device; else ""."""
    size_bytes: Bytes
    correlation_id: Id


class HostRow(NamedTuple):
    """An interval on the host that explains why it launched nothing, or that somebody marked."""

    thread_id: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    kind: Text
    """gc, dataloader, or allow (waits in it were allowed: `syncscope.allow`)."""
    name: Text
    """What was collected or fetched; the reason of an allow."""
    stack_id: Id


class NvmlRow(NamedTuple):
    """A sample of the driver's counters."""

    time_ns: Nanoseconds
    device: Small
    gpu_percent: Percent
    memory_used_bytes: Bytes
    sm_clock_mhz: Megahertz
    pcie_rx_bytes_per_s: BytesPerSecond
    pcie_tx_bytes_per_s: BytesPerSecond


class OpRow(NamedTuple):
    """An operator that waited or copied in a detail step. Its times count for nothing else."""

    thread_id: Id
    start_ns: Nanoseconds
    end_ns: Nanoseconds
    stack_id: Id
    """Without frames for operators on autograd's own threads."""
    op: Text
    """aten overload: "aten::nonzero.default"."""
    shapes: Text
    """Of the tensors among the arguments, in order: "4x256, 3"; "scalar" for no dimensions."""
    dtypes: Text
    devices: Text
    blocking: Flag
    """Whether torch warned that it synchronized."""
    direction: Text
    """h2d or d2h of what it copied; else ""."""
    origin_stack_id: Id
    """Where the host tensor that it copied was made; -1 if unknown."""
    forward_stack_id: Id
    """For an operator of a backward pass the line of the forward pass; -1 if unknown."""


class UnmodelledRow(NamedTuple):
    """An operator that the shadow GPU has no rule for, and how often it ran."""

    op: Text
    calls: Id
    reason: Text


Row = (
    StepMark
    | FrameRow
    | StackRow
    | BlockingRow
    | TransferRow
    | RuntimeRow
    | ActivityRow
    | HostRow
    | NvmlRow
    | OpRow
    | UnmodelledRow
)

TABLES: dict[str, type[Row]] = {
    "steps": StepMark,
    "frames": FrameRow,
    "stacks": StackRow,
    "blocking": BlockingRow,
    "transfers": TransferRow,
    "runtime": RuntimeRow,
    "activity": ActivityRow,
    "host": HostRow,
    "nvml": NvmlRow,
    "ops": OpRow,
    "unmodelled": UnmodelledRow,
}


@cache
def columns(table: str) -> dict[str, Column]:
    """Columns of a table in their order. Raises KeyError for an unknown table."""
    hints = get_type_hints(TABLES[table], include_extras=True)
    return {
        name: next(arg for arg in get_args(hint) if isinstance(arg, Column))
        for name, hint in hints.items()
    }
