"""`syncscope run`: run a program, record it, say what was found."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncscope.cli.output import say
from syncscope.errors import SyncscopeError, UsageError

if TYPE_CHECKING:
    from syncscope.options import RecordOptions


def run(
    program: Annotated[
        list[str] | None, typer.Argument(metavar="SCRIPT [ARGS]...", help="Script and arguments.")
    ] = None,
    module: Annotated[
        bool, typer.Option("-m", help="Run a module instead of a script: -m MODULE [ARGS]...")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the recording.")
    ] = None,
    device: Annotated[
        str, typer.Option(help="auto (a GPU if there is one), cuda, or shadow.")
    ] = "auto",
    warmup: Annotated[int, typer.Option(min=0, help="Steps to skip before recording.")] = 0,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps to record; default: until the end.")
    ] = None,
    gpu_activity: Annotated[
        bool, typer.Option(help="Record kernels and copies; off: only the free collectors.")
    ] = True,
    shadow_gpu: Annotated[str, typer.Option(help="GPU to simulate.")] = "H200",
    shadow_gpus: Annotated[int, typer.Option(min=1, help="How many GPUs to simulate.")] = 1,
    source: Annotated[bool, typer.Option(help="Keep a copy of the source files.")] = True,
) -> None:
    """Run a program as python would, and record where it makes the CPU wait for the GPU.

    The exit code is the program's own. The summary goes to stderr.
    """
    from syncscope.options import RecordOptions

    if not program:
        raise UsageError("name a script to run: syncscope run train.py")
    options = RecordOptions(
        argv=(*(("-m",) if module else ()), *program),
        device=device,
        warmup=warmup,
        steps=steps,
        gpu_activity=gpu_activity,
        shadow_gpu=shadow_gpu,
        shadow_gpus=shadow_gpus,
        keep_sources=source,
    )
    code = _record(program, module, output, options)
    if code < 0:  # ended by a signal: so do we, once the recording is closed
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise typer.Exit(code)


def _record(program: list[str], module: bool, output: Path | None, options: RecordOptions) -> int:
    """Run the program under a recorder; returns its exit code."""
    from syncscope.api import close_recorder, open_recorder
    from syncscope.program import check_script, run_module, run_script
    from syncscope.recorder import NOTHING_TO_RECORD
    from syncscope.recording.folders import next_folder
    from syncscope.torch_import import TorchImport

    target, *args = program
    if not module:
        check_script(target)
    stem = re.sub(r"[^\w.-]", "_", target if module else Path(target).stem)
    recorder = open_recorder(output or next_folder(stem), options)
    waiting = TorchImport(recorder.start)
    waiting.start()
    code = 1
    try:
        code = run_module(target, args) if module else run_script(target, args)
    finally:
        waiting.stop()
        close_recorder(recorder, code, exiting=True)
    _flush_output()
    if recorder.started:
        _conclude(recorder.folder, recorder.failure)
    else:
        say(NOTHING_TO_RECORD)
    return code


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()


def _conclude(folder: Path, failure: str) -> None:
    """Analyse, write summary.json and report.html, and print the short summary.

    A failure here must not change the program's exit code: it becomes a line.
    """
    from syncscope.api import Run
    from syncscope.cli.output import print_summary

    if failure:
        say(f"the recording is cut short: {failure}")
    run = Run(folder)
    try:
        print_summary(run.analysis)
        run.save_summary()
        sys.stderr.write(f"report: {run.report()}\n")
    except (SyncscopeError, OSError) as error:
        say(str(error))
