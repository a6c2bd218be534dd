"""Analysis and report of a program that has ended, in its process but not in its memory.

They need as much memory as many a program, which keeps its own until its process ends. So the
process goes on as another one: when python is done with the program, it starts anew.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # its functions outlive the modules
import atexit
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from syncscope.cli.output import real_stderr, say
from syncscope.errors import SyncscopeError

_PROGRAM = """\
import sys
sys.path[:] = {path!a}
from syncscope.cli.conclusion import conclude
conclude(sys.argv[1], int(sys.argv[2]))
"""


class Successor:
    """How to start this interpreter again. Made before a program can change any of it."""

    def __init__(self) -> None:
        self._arguments = [
            sys.executable,
            *subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
            "-c",
            _PROGRAM.format(path=sys.path),
        ]
        self._environment = dict(os.environ)

    def conclude(self, folder: Path, code: int) -> None:
        """Let it analyse `folder` and end with `code`, once this interpreter is all but gone.

        The process and its children stay the same; ctypes, C and C++ exit handlers do not run.
        """
        command = [*self._arguments, str(folder), str(code)]
        vars(sys)["_syncscope_successor"] = _Succession(command, self._environment)


class _Succession:
    """The last thing that python lets go of, as `sys` holds it: then the successor takes over.

    Threads have been joined by then, exit handlers have run, and objects of the program are
    gone, so that its files are written. Modules are cleared: nothing global can be used.
    """

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._process = os.getpid()
        self._streams = [sys.__stdout__, sys.__stderr__]
        self._flush_c: Any = ctypes.CDLL(None).fflush
        self._block, self._interrupt = _signal.pthread_sigmask, (_signal.SIG_BLOCK, [signal.SIGINT])
        self._getpid, self._execute, self._write = os.getpid, os.execve, os.write
        self._lost_output = "120"  # python's exit code where stdout cannot be flushed at exit
        self._failed = (
            f"syncscope: cannot go on here; `syncscope report {command[-2]}` does.\n"
        ).encode(errors="replace")

    def __del__(self) -> None:
        if self._getpid() != self._process:
            return  # forked by an exit handler
        for stream in self._streams:
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except OSError:
                if not self._command[-1].startswith("-"):
                    self._command[-1] = self._lost_output
        self._flush_c(None)
        self._block(*self._interrupt)  # until `conclude` can say a line instead of a traceback
        try:
            self._execute(self._command[0], self._command, self._environment)
        except (OSError, ValueError):
            self._write(2, self._failed)


def conclude(folder: str, code: int) -> NoReturn:
    """Write summary.json and report.html, print the short summary, end with the program's code.

    A negative code stands for a signal. A failure here does not change the code: it becomes a
    line.
    """
    with real_stderr():
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            _report(Path(folder))
        except (SyncscopeError, OSError) as error:
            say(str(error))
        except KeyboardInterrupt:
            say(f"interrupted; the program had ended. `syncscope report {folder}` goes on.")
        except Exception:  # noqa: BLE001  (a bug of ours, which is not the program's failure)
            traceback.print_exc()
    if code < 0:
        end_by_signal(-code)
    sys.exit(code)


def _report(folder: Path) -> None:
    from syncscope.api import Run
    from syncscope.cli.output import print_summary
    from syncscope.cli.progress import progress

    with progress("analysing") as done:
        run = Run(folder, done)
        analysis = run.analysis
    print_summary(analysis)
    run.save_summary()
    with progress("writing the report"):
        path = run.report()
    with contextlib.suppress(OSError, ValueError):  # no working folder, or another one
        path = path.relative_to(Path.cwd())
    sys.stderr.write(f"report: {path}\n")
    if run.analysis.manifest.world_size > 1:
        say(f"this was rank 0; for all ranks: syncscope show {path.parent.parent}")


def end_by_signal(number: int) -> NoReturn:
    """End as python ends after a KeyboardInterrupt: first the exit handlers, then the signal."""
    atexit._run_exitfuncs()
    flush_output()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise AssertionError("the signal has ended the process")


def flush_output() -> None:
    """Flush whatever streams the program put there; python flushes again at exit, and reports."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
