"""What a recording is asked to hold."""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Integral, Real

from syncscope.errors import UsageError

DEVICES = ("auto", "cuda", "shadow")
DETAILS = ("auto", "lines", "ops")

_TYPES: dict[str, tuple[type, str]] = {
    "bool": (bool, "True or False"),
    "float": (Real, "a number"),
    "int": (Integral, "a whole number"),
    "str": (str, "a text"),
}
"""By annotation what a value has to be, and that in words."""


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
        self._check_types()
        if self.device not in DEVICES:
            raise UsageError(f"unknown device {self.device!r}; use auto, cuda or shadow")
        if self.calibrate and self.device == "shadow":
            raise UsageError("calibration needs a real GPU: on a shadow GPU time is simulated")
        if self.detail not in DETAILS:
            raise UsageError(f"unknown detail {self.detail!r}; use auto, lines or ops")
        for name, least in (("warmup", 0), ("steps", 1), ("every", 2), ("shadow_gpus", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is {least} or more, not {value}")
        if self.seconds is not None and not self.seconds > 0:
            raise UsageError(f"seconds is a number above 0, or inf, not {self.seconds}")
        if self.seconds is not None and self.steps is not None:
            raise UsageError("a window has a number of steps or of seconds, not both")
        if not 0 <= self.start_after_s < float("inf"):
            raise UsageError(f"start_after is 0 seconds or more, not {self.start_after_s}")
        if self.every is not None and (self.steps is None or self.every <= self.steps):
            raise UsageError(self._without_distance(self.every))

    def _check_types(self) -> None:
        """`True` counts as no number, though it is one to Python."""
        for field in fields(self):
            kind, *optional = str(field.type).split(" | ")
            value = getattr(self, field.name)
            if kind not in _TYPES or (optional and value is None):
                continue
            wanted, words = _TYPES[kind]
            if not isinstance(value, wanted) or isinstance(value, bool) is not (wanted is bool):
                name = field.name.removesuffix("_s")
                raise UsageError(f"{name} is {words}, not {value!r:.80}")

    def _without_distance(self, every: int) -> str:
        some = max(every // 5, 1)
        example = f"--every {every} --steps {some}, or record(every={every}, steps={some})"
        if self.steps is None:
            return (
                f"--every {every} needs --steps, the number of steps to record of each {every}: "
                f"{example}"
            )
        return (
            f"{self.steps} steps of each {every} cannot be recorded with a pause between: --steps "
            f"has to be less than --every, as in {example}"
        )
