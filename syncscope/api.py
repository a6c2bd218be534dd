"""The Python API, on top of all layers: record a region, mark steps, load a recording."""

from __future__ import annotations

import contextlib
import inspect
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from syncscope.errors import SyncscopeError, UsageError
from syncscope.forbidding import exchange
from syncscope.options import RecordOptions
from syncscope.recording.folders import recording_folder

if TYPE_CHECKING:
    from syncscope.analysis.result import Analysis
    from syncscope.capture.sync_guard import SyncGuard
    from syncscope.recorder import Recorder
    from syncscope.records import Summary

_active: list[Recorder] = []
_opening = threading.Lock()
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Run:
    """A recording on disk and what follows from it. Analysed on first use, then kept.

    `progress` is told the part of the analysis that is done, 0 to 1.
    """

    def __init__(
        self, folder: str | Path, progress: Callable[[float], None] = lambda part: None
    ) -> None:
        self.folder = Path(folder)
        self._progress = progress

    @cached_property
    def analysis(self) -> Analysis:
        """Summary and event tables. Raises RecordingError if the folder cannot be read."""
        from syncscope.analysis.pipeline import analyze
        from syncscope.recording.reader import Recording

        return analyze(Recording(self.folder), self._progress)

    def summary(self) -> Summary:
        """The figures of the run: sites, idle time, coverage."""
        return self.analysis.summary

    def report(self, path: str | Path | None = None) -> Path:
        """Write the HTML report (default: report.html in the recording); returns its path."""
        from syncscope.reports.html_report import write_html

        target = self.folder / "report.html" if path is None else Path(path)
        write_html(self.analysis, target)
        return target

    def save_summary(self) -> Path:
        """Write summary.json into the recording; returns its path."""
        from syncscope.reports.json_report import summary_json

        target = self.folder / "summary.json"
        target.write_bytes(summary_json(self.summary()))
        return target

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str | None:
        """How a notebook shows it; like any other object while it is being recorded."""
        if any(recorder.folder == self.folder for recorder in _active):
            return None
        from syncscope.reports.notebook_card import card_html, error_html

        report = self.folder / "report.html"
        try:
            return card_html(self.analysis, report if report.exists() else None)
        except SyncscopeError as error:
            return error_html(error)


def load(folder: str | Path, progress: Callable[[float], None] = lambda part: None) -> Run:
    """Open a recording, as `Run` does. Raises RecordingError at once if it is none."""
    from syncscope.recording.manifest import read_manifest

    read_manifest(Path(folder))
    return Run(folder, progress)


class record(contextlib.ContextDecorator):
    """Record what the enclosed code makes the host wait for.

    Use as `with syncscope.record("runs/a", warmup=5) as run:` or as a decorator, which records
    each call into a folder of its own. `folder` defaults to a new one below syncscope-runs; one
    that holds a recording is left alone, and the next is numbered: `a`, `a-2`, `a-3` ...
    (`run.folder` says which). Counting begins with the first step that ends `start_after` seconds
    in; `warmup` steps are skipped, then a window of `steps` or `seconds` recorded, and again
    one every `every` steps. Without either, the window of a real GPU ends with the first step
    after 10 s and 10 steps (`seconds=math.inf`: never). `detail` is auto (operators are watched
    in the last two steps of the warm-up), lines (never) or ops (always, which makes steps
    several times as long). `calibrate` measures after the warm-up, for 52 steps, what recording
    costs. `device` is auto, cuda or shadow. After the block `run.summary()` and `run.report()`
    work. Exceptions pass through; nothing stays patched. Raises UsageError when another
    recording is open in this process, or the folder holds something else.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        warmup: int = 0,
        steps: int | None = None,
        seconds: float | None = None,
        every: int | None = None,
        start_after: float = 0.0,
        detail: str = "auto",
        calibrate: bool = False,
        device: str = "auto",
        gpu_activity: bool = True,
        shadow_gpu: str = "H200",
        shadow_gpus: int = 1,
        keep_sources: bool = True,
    ) -> None:
        self._folder = folder
        self._options = RecordOptions(
            argv=tuple(sys.argv),
            device=device,
            warmup=warmup,
            steps=steps,
            seconds=seconds,
            every=every,
            start_after_s=start_after,
            detail=detail,
            calibrate=calibrate,
            gpu_activity=gpu_activity,
            shadow_gpu=shadow_gpu,
            shadow_gpus=shadow_gpus,
            keep_sources=keep_sources,
        )
        self._recorder: Recorder | None = None
        self._repeats = False

    def __call__(self, function: _Function) -> _Function:
        """Decorate a function. Raises UsageError for one whose call only makes an object."""
        for is_kind in (
            inspect.iscoroutinefunction,
            inspect.isgeneratorfunction,
            inspect.isasyncgenfunction,
        ):
            if is_kind(function):
                raise UsageError(
                    "record cannot decorate a generator or a coroutine: its call ends before its "
                    "code has run. Use `with syncscope.record():` inside it"
                )
        return super().__call__(function)

    def _recreate_cm(self) -> record:
        fresh = record.__new__(record)
        fresh._folder, fresh._options, fresh._recorder = self._folder, self._options, None
        fresh._repeats = True
        return fresh

    def __enter__(self) -> Run:
        if _active and _active[-1].options.whole_program:
            sys.stderr.write("syncscope: record() does nothing here: `syncscope run` records all\n")
            return Run(_active[-1].folder)
        chosen = None if self._folder is None else Path(self._folder)
        folder = recording_folder("record", chosen, numbered=True)
        self._recorder = open_recorder(folder, self._options)
        try:
            self._recorder.start()
        except BaseException:
            close_recorder(self._recorder, 1)
            raise
        if chosen is not None and not self._repeats:
            _say_if_elsewhere(self._recorder, chosen)
        return Run(self._recorder.folder)  # absolute: the program may change its folder

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._recorder is not None:
            close_recorder(self._recorder, int(kind is not None), kind.__name__ if kind else "")


def _say_if_elsewhere(recorder: Recorder, chosen: Path) -> None:
    folder = recorder.folder
    if not recorder.writer.manifest.rank and not folder.is_relative_to(chosen.absolute()):
        sys.stderr.write(f"syncscope: {chosen} holds a recording: this one goes to {folder}\n")


class allow(contextlib.ContextDecorator):
    """Waits in this block are meant: `with syncscope.allow("the loss is logged"):`.

    Reports show them as allowed, with the reason; of nested blocks the innermost counts. Also
    a decorator. It changes nothing of what the program does; outside a recording it costs
    0.3 us. Raises UsageError without a reason.
    """

    def __init__(self, reason: str) -> None:
        if not reason or not isinstance(reason, str):
            raise UsageError("say why the waits are allowed: syncscope.allow('the loss is logged')")
        self._reason = reason
        self._began: tuple[Recorder, int] | None = None
        self._forbidden = False

    def _recreate_cm(self) -> allow:
        return allow(self._reason)

    def __enter__(self) -> None:
        self._forbidden = exchange(False)
        for recorder in _active:
            self._began = recorder, recorder.context.now()

    def __exit__(self, *_: object) -> None:
        exchange(self._forbidden)
        began, self._began = self._began, None
        if began is not None and began[0] in _active:
            recorder, start_ns = began
            recorder.allowed(start_ns, self._reason, recorder.context.stacks.capture(skip=2))


class forbid(contextlib.ContextDecorator):
    """Implicit waits in this block are errors: `with syncscope.forbid(): model(x)`.

    A line that makes the host wait for the GPU, though nobody asked for it, raises
    ImplicitSyncError, right after it has waited (in a backward pass: when that returns). That
    holds for this thread, and not inside `syncscope.allow`. Also a decorator. Without a
    recording it needs a real GPU; in one on the shadow GPU, that will do. It sees what torch
    warns of: costs nothing where nothing waits.
    """

    def __init__(self) -> None:
        self._forbidden = False
        self._guard: SyncGuard | None = None

    def _recreate_cm(self) -> forbid:
        return forbid()

    def __enter__(self) -> None:
        if not _active:  # a recording hears of waits itself
            from syncscope.capture.sync_guard import SyncGuard

            self._guard = SyncGuard()
            self._guard.start()
        self._forbidden = exchange(True)

    def __exit__(self, *_: object) -> None:
        exchange(self._forbidden)
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.stop()


def step() -> None:
    """Mark the end of a step. Outside a recording it does nothing, and costs 0.1 us."""
    for recorder in _active:  # one at most; another thread may close it meanwhile
        recorder.mark_step()


def open_recorder(folder: Path, options: RecordOptions) -> Recorder:
    """Make the recorder that `step` talks to. Raises UsageError if there is one already."""
    from syncscope.recorder import Recorder

    with _opening:  # threads may open recordings at the same time
        if _active:
            raise UsageError(
                f"a recording into {_active[-1].folder} is open; one process records one at a time"
            )
        recorder = Recorder(folder, options)
        _active.append(recorder)
    return recorder


def close_recorder(
    recorder: Recorder, exit_code: int, exception: str = "", *, exiting: bool = False
) -> None:
    """Stop it and let the next one in."""
    _active.remove(recorder)
    recorder.stop(exit_code, exception, exiting=exiting)
