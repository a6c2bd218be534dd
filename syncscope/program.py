"""Run somebody's program inside this process just as `python` would have run it."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
import types
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path

from syncscope.callsite import owner_of
from syncscope.errors import SyncscopeError, UsageError

INTERRUPTED = -int(signal.SIGINT)


def check_script(script: str) -> None:
    """Raise UsageError unless `script` is something python could run."""
    path = Path(script)
    if not path.exists():
        raise UsageError(f"there is no script {script}")
    if path.is_dir():
        if not (path / "__main__.py").exists():
            raise UsageError(f"{script} is a folder without a __main__.py")
        return
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from error
    if not text.strip():
        raise UsageError(f"{script} is empty: there is nothing to run")


def run_script(script: str, args: Sequence[str]) -> int:
    """Run a file (or a folder or zip with a __main__.py); returns the exit code.

    `sys.argv`, `sys.path[0]` and `__main__` are what `python script args` makes them.
    """
    sys.argv[:] = [script, *args]
    path = Path(script)
    if path.suffix in (".zip", ".pyz") or path.is_dir():
        sys.path[0] = script
        return _guarded(lambda: _run_package_main())
    sys.path[0] = str(path.resolve().parent)
    main = _fresh_main()
    main.__dict__.update(__file__=script, __loader__=SourceFileLoader("__main__", script))

    def execute() -> None:
        code = compile(path.read_bytes(), script, "exec", dont_inherit=True)
        exec(code, main.__dict__)

    return _guarded(execute)


def run_module(module: str, args: Sequence[str]) -> int:
    """Run a module as `python -m module args` does; returns the exit code."""
    sys.argv[:] = ["-m", *args]
    sys.path[0] = os.getcwd()
    _fresh_main()
    return _guarded(lambda: runpy._run_module_as_main(module))  # type: ignore[attr-defined]


def _run_package_main() -> None:
    _fresh_main()
    runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=__builtins__, __package__=None, __spec__=None)
    sys.modules["__main__"] = main
    return main


def _guarded(execute: Callable[[], None]) -> int:
    """Run; print what python would print for an exception; give the exit code it would give."""
    try:
        execute()
        _join_threads()
    except SystemExit as stop:
        _join_threads()
        return _exit_code(stop.code)
    except SyncscopeError:
        raise  # ours: the recording could not begin
    except KeyboardInterrupt as interrupt:
        _print_exception(interrupt)
        return INTERRUPTED
    except BaseException as error:  # noqa: BLE001  (whatever the program raises is its own)
        _print_exception(error)
        _join_threads()
        return 1
    return 0


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _print_exception(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace
    if isinstance(error, KeyboardInterrupt) or sys.excepthook is sys.__excepthook__:
        traceback.print_exception(type(error), error, trace)
    else:
        sys.excepthook(type(error), error, trace)


def _is_ours(filename: str) -> bool:
    return owner_of(filename) == "syncscope" or filename == "<frozen runpy>"


def _join_threads() -> None:
    # Python waits for a program's threads before it ends; what they do belongs to the run.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
