"""Frozen records that pass between the stages; `Summary` is the content of summary.json.

Integers named `_ns` are nanoseconds, `_bytes` bytes; fractions lie between 0 and 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SUMMARY_SCHEMA = 1

CAUSES_OF_IDLE = (
    "sync",
    "transfer",
    "allocator",
    "dataloader",
    "gc",
    "launch",
    "device_dependency",
    "unknown",
)


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One line of a call stack."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Origin:
    """The expression that created a tensor on the host, which another line then moves."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str
    expression: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands between two positions of a file by `code`.

    Lines and columns (of characters) count from 1; the end is exclusive, and equal to the
    start where `code` is inserted.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    code: str


@dataclass(frozen=True, slots=True)
class Advice:
    """How to write a line instead. `rewrite` is "" where no exact one is known.

    `edits` say the same to a program: applied together they make the rewrite.
    """

    title: str
    text: str
    rewrite: str
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the code that made the host wait, or moved data; totals over the windows.

    `count` is the number of all its events, `blocked_ns`, `exposed_idle_ns` and `size_bytes` are
    sums over them. `per_step` is the number of those that begin in a steady step, the mean
    over these; without steps the whole is one.
    `savings_ns_per_step` is what a steady step gains when the run is replayed with the site
    cured. Without a replay, and for sites that were not replayed, it is an upper bound:
    the idle time charged to it plus the time in which copies that it waited for ran alone, per
    step. What several sites gain together can be more or less than their sum. `stack` is
    innermost first.

    `origin` is where the host created what the site moves, None if unknown. `moves_to` is the
    id of the site at which the host waits instead once this one does not wait, None where
    nothing takes its place. `reason` is what somebody gave for a site that is `allowed`.
    """

    id: str
    file: str
    line: int
    end_line: int
    column: int
    end_column: int
    function: str
    expression: str
    library_line: str | None
    owner: str
    op: str
    kind: str
    explicit: bool
    blocking: bool
    direction: str | None
    pageable: bool | None
    cause: str
    count: int
    per_step: float
    size_bytes: int
    blocked_ns: int
    exposed_idle_ns: int
    savings_ns_per_step: int
    flagged: bool
    verdict: str
    advice: Advice
    sampled: bool
    stack: tuple[StackFrame, ...]
    origin: Origin | None = None
    moves_to: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StreamSummary:
    """One stream of a device. `idle_ns` is its idle time while the device was busy."""

    stream: int
    busy_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class GpuSummary:
    """Busy and idle time of one device; busy_ns + idle_ns is the length of the windows.

    The `steady_` figures count only the steps that began and ended with a mark: start-up and
    the first step, in which libraries are loaded, say nothing about the rest. Where there
    are no such steps they equal the figures of the windows.
    """

    rank: int
    device: int
    busy_ns: int
    idle_ns: int
    idle_fraction: float
    idle_by_cause_ns: dict[str, int]
    steady_idle_fraction: float
    steady_idle_by_cause_ns: dict[str, int]
    streams: tuple[StreamSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What was run, where, and for how long."""

    argv: tuple[str, ...]
    device: str
    simulated: bool
    torch: str
    ranks: int
    steps: int
    step_ns: int
    """Median length of a step; the whole window where there are no step marks."""
    window_ns: int
    truncated: bool
    """Whether the recording has not been closed: the run was cut short, or is `live`."""
    imported: bool
    live: bool | None = False
    """Whether the run went on when this was read; None where that could not be told."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of the blocking runtime calls could be charged to a line."""

    blocking_calls: int
    attributed: int
    unattributed: int
    lost: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Relative error of replaying the recording unchanged; None where it was not replayed.

    The error is that of the steady steps or of the whole recording, whichever is larger,
    positive where the replay takes longer.
    `best_case_ns_per_step` is the length of a step with all flagged sites cured. `used` says
    whether savings come from the replay: not where its error is too large. `left_out` counts
    flagged sites that were not replayed because there are too many; theirs are upper bounds.
    `fixed_ns_per_step` is the length of a step with only the sites of verdict fix cured.
    """

    baseline_error: float | None
    best_case_ns_per_step: int | None = None
    used: bool = False
    left_out: int = 0
    fixed_ns_per_step: int | None = None


@dataclass(frozen=True, slots=True)
class Regime:
    """What bounds the run: sync, transfer, launch, gpu or input; and the figure that shows it.

    `fraction` is of a steady step: GPU busy time for gpu, else idle time of that cause, for
    transfer also the time in which only copies ran that the host waited for. Idle time that
    the replay does not give back without the waits counts as launch.
    """

    kind: str
    fraction: float


@dataclass(frozen=True, slots=True)
class LaunchPace:
    """How the host fed a device with kernels in a steady step; the mean over the devices.

    `kernel_ns` is the mean length of a kernel, `interval_ns` the median time from the beginning
    of one to that of the next: where the host sets the pace, what a launch takes it.
    `other_work_ns_per_step` is the part of the idle time "launch" in gaps so long that the
    host did something else between two launches, the median over the steps.
    """

    kernels_per_step: float
    kernel_ns: float
    interval_ns: float
    other_work_ns_per_step: float


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step; `steady` is False for warm-up, `outlier` says why it took long, "" if it did not.

    It lies between two marks on the host; `length_ns` is how long it took until its work was
    done on the host and the devices, after that of the step before (`steps.with_lengths`).
    `idle_ns` is the mean over the devices, `blocked_ns` the time the host waited.
    """

    index: int
    start_ns: int
    end_ns: int
    length_ns: int
    idle_ns: int
    blocked_ns: int
    h2d_bytes: int
    d2h_bytes: int
    steady: bool
    outlier: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that a report shows in numbers. Written as summary.json."""

    run: RunSummary
    gpu: tuple[GpuSummary, ...]
    sites: tuple[Site, ...]
    coverage: Coverage
    replay: Replay
    overhead: dict[str, float]
    regime: Regime | None = None
    launches: LaunchPace | None = None
    steps: tuple[StepRecord, ...] = ()
    schema: int = field(default=SUMMARY_SCHEMA)
