"""What a recording is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass

from syncscope.errors import UsageError

DEVICES = ("auto", "cuda", "shadow")
DETAILS = ("auto", "lines", "ops")


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What to record. Raises UsageError for values that make no sense."""

    argv: tuple[str, ...] = ()
    device: str = "auto"
    """auto (a real GPU if there is one), cuda or shadow."""
    start_after_s: float = 0.0
    """Seconds of the recording's clock; the first step mark after them is where counting begins."""
    warmup: int = 0
    """Steps to skip before the first window."""
    steps: int | None = None
    """Steps of a window; None: `seconds` say how long it is."""
    seconds: float | None = None
    """Length of the only window, up to the end of a step, or of a wait if no step ends so soon.

    inf: until the end of the run. None: where GPU activity is recorded as in `window_limit`,
    else inf.
    """
    every: int | None = None
    """From one window's first step to the next one's; None: there is one window."""
    detail: str = "auto"
    """auto (the dispatcher in the last steps of the warm-up), lines (never) or ops (always)."""
    calibrate: bool = False
    """Measure after the warm-up what recording costs this program."""
    gpu_activity: bool = True
    shadow_gpu: str = "H200"
    shadow_gpus: int = 1
    keep_sources: bool = True
    whole_program: bool = False
    """Whether `syncscope run` records, and not a part of the program itself."""

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}; use auto, cuda or shadow")
        if self.detail not in DETAILS:
            raise UsageError(f"unknown detail {self.detail!r}; use auto, lines or ops")
        if self.warmup < 0 or (self.steps is not None and self.steps < 1):
            raise UsageError("warmup counts from 0 and steps from 1")
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError("the seconds of a window are a number above 0, or inf")
        if self.seconds is not None and self.steps is not None:
            raise UsageError("a window has a number of steps or of seconds, not both")
        if not 0 <= self.start_after_s < float("inf"):
            raise UsageError("start-after counts seconds from 0")
        if self.every is not None and (self.steps is None or self.every <= self.steps):
            raise UsageError(
                "every N needs a smaller number of steps: N is the distance from the first step "
                "of one window to the first step of the next"
            )
