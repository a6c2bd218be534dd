"""`syncscope run`: run a program, record it, say what was found."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncscope.cli.conclusion import Successor, end_by_signal, flush_output
from syncscope.cli.live import Live
from syncscope.cli.output import real_stderr, say, say_aside
from syncscope.errors import SyncscopeError, UsageError

if TYPE_CHECKING:
    from syncscope.options import RecordOptions
    from syncscope.recorder import Recorder


_Program = Annotated[
    list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", help="Script and arguments.")
]
_Module = Annotated[
    bool, typer.Option("-m", help="Run a module instead of a script: -m MODULE [ARGS]...")
]
_Output = Annotated[Path | None, typer.Option("-o", "--output", help="Folder for the recording.")]
_Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cuda, or shadow.")]
_StartAfter = Annotated[
    float, typer.Option(min=0, help="Seconds before steps are counted, from the import of torch.")
]
_Warmup = Annotated[int, typer.Option(min=0, help="Steps to skip before recording.")]
_Steps = Annotated[int | None, typer.Option(min=1, help="Steps to record.")]
_Seconds = Annotated[
    float | None,
    typer.Option(
        help="Seconds to record, where --steps is not given; inf: to the end. "
        "Default: on a GPU 10, and 10 steps at least, else to the end."
    ),
]
_Every = Annotated[
    int | None, typer.Option(min=2, help="Record --steps steps again every so many steps.")
]
_Detail = Annotated[
    str,
    typer.Option(
        help="Watch operators: auto (last 2 steps of the warm-up), lines (no), ops (all)."
    ),
]
_Calibrate = Annotated[
    bool,
    typer.Option("--calibrate", help="Measure, for 52 steps, what recording costs this program."),
]
_GpuActivity = Annotated[
    bool, typer.Option(help="Record kernels and copies; off: only the free collectors.")
]
_ShadowGpu = Annotated[str, typer.Option(help="GPU to simulate.")]
_ShadowGpus = Annotated[int, typer.Option(min=1, help="How many GPUs to simulate.")]
_Live = Annotated[
    bool,
    typer.Option("--live", help="Say on stderr, every other second, how the program fares."),
]
_Source = Annotated[bool, typer.Option(help="Keep a copy of the source files.")]


def run(
    program: _Program = None,
    module: _Module = False,
    output: _Output = None,
    device: _Device = "auto",
    start_after: _StartAfter = 0.0,
    warmup: _Warmup = 0,
    steps: _Steps = None,
    seconds: _Seconds = None,
    every: _Every = None,
    detail: _Detail = "auto",
    calibrate: _Calibrate = False,
    gpu_activity: _GpuActivity = True,
    shadow_gpu: _ShadowGpu = "H200",
    shadow_gpus: _ShadowGpus = 1,
    source: _Source = True,
    live: _Live = False,
) -> None:
    """Run a program as python would, and record where it makes the CPU wait for the GPU.

    Output and exit code are the program's own; the exit code is 2 if it could not be started. The
    summary goes to stderr.
    """
    from syncscope.options import RecordOptions

    if not program:
        raise UsageError("name a script to run: syncscope run train.py")
    options = RecordOptions(
        argv=(*(("-m",) if module else ()), *program),
        device=device,
        start_after_s=start_after,
        warmup=warmup,
        steps=steps,
        seconds=seconds,
        every=every,
        detail=detail,
        calibrate=calibrate,
        gpu_activity=gpu_activity,
        shadow_gpu=shadow_gpu,
        shadow_gpus=shadow_gpus,
        keep_sources=source,
        whole_program=True,
    )
    successor = Successor()
    recorder, code = _record(program, module, output, options, live)
    if recorder is not None:
        successor.conclude(recorder.folder, code)
    elif code < 0:
        end_by_signal(-code)
    raise typer.Exit(code if code >= 0 else 128 - code)


def _record(
    program: list[str], module: bool, output: Path | None, options: RecordOptions, live: bool
) -> tuple[Recorder | None, int]:
    """Run the program under a recorder; returns that if it is to be reported, and the exit code."""
    from syncscope.after_import import AfterImport
    from syncscope.api import close_recorder, open_recorder
    from syncscope.program import CannotBegin, check_module, check_script, run_module, run_script
    from syncscope.recording.folders import recording_folder

    target, *args = program
    (check_module if module else check_script)(target)
    stem = re.sub(r"[^\w.-]", "_", target if module else Path(target).absolute().stem)
    recorder = open_recorder(recording_folder(stem, output), options)
    if live and not recorder.writer.manifest.rank:
        recorder.writer.watchers.append(Live(say_aside).show)
    problems: list[str] = []
    waiting = AfterImport("torch", lambda: _begin(recorder, problems))
    pid = os.getpid()
    waiting.start()
    code = 1
    try:
        code = run_module(target, args) if module else run_script(target, args)
    except CannotBegin as error:
        raise error.reason from None
    finally:
        waiting.stop()
        if os.getpid() == pid:
            # Alarms that the program left behind would have ended with the program.
            for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                signal.setitimer(timer, 0)
        try:
            close_recorder(recorder, code, exiting=True)
        except KeyboardInterrupt:  # the program had ended: this is not its exit code
            problems.append("interrupted while the recording was closed")
    if os.getpid() != pid:  # a child that the program forked has nothing to tell
        return None, code
    flush_output()
    with real_stderr():
        return (recorder if _say_how_it_went(recorder, problems) else None), code


def _begin(recorder: Recorder, problems: list[str]) -> None:
    """Start recording, in the middle of the program's `import torch`."""
    from syncscope.program import CannotBegin

    try:
        recorder.start()
    except SyncscopeError as error:
        raise CannotBegin(error) from None
    except Exception as error:  # noqa: BLE001  (the program must go on)
        problems.append(f"recording could not start: {type(error).__name__}: {error}")


def _say_how_it_went(recorder: Recorder, problems: list[str]) -> bool:
    """A line for each thing that went wrong; whether there is a recording to report."""
    for problem in problems:
        say(problem)
    if not recorder.started:
        if not problems:
            say("the program never imported torch: there was nothing to record")
        return False
    if recorder.failure:
        say(f"the recording is cut short: {recorder.failure}")
    # One summary of a job is enough: rank 0 prints it, and waits for nobody.
    return not recorder.writer.manifest.rank
