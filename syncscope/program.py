"""Run somebody's program inside this process just as `python` would have run it."""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import os
import pkgutil
import runpy
import signal
import sys
import threading
import types
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder, SourceFileLoader, SourcelessFileLoader
from pathlib import Path

from syncscope.callsite import owner_of
from syncscope.errors import ShadowUnsupportedError, SyncscopeError, UsageError

INTERRUPTED = -int(signal.SIGINT)
_RAISED_BY_TORCH = (RuntimeError, ValueError, IndexError, SyntaxError, KeyboardInterrupt)
"""What an operator may raise below the shadow GPU's frames (SyntaxError: the program's own)."""


class CannotBegin(BaseException):
    """The recording could not begin. No `except Exception` of the program swallows it."""

    def __init__(self, reason: SyncscopeError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def check_script(script: str) -> None:
    """Raise UsageError unless `script` is something python could run."""
    path = Path(script)
    if not path.exists():
        raise UsageError(f"there is no script {script}")
    if path.is_dir():
        if not (path / "__main__.py").exists():
            raise UsageError(f"{script} is a folder without a __main__.py")
        return
    if not path.is_file():
        return  # a pipe, as of `<(...)`: what is read from it now would be missing later
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {script}: {error.strerror}") from error
    if not text.strip():
        raise UsageError(f"{script} is empty: there is nothing to run")


def check_module(module: str) -> None:
    """Raise UsageError if there is no module of this name, or no package that could hold it."""
    top = module.partition(".")[0]
    with contextlib.suppress(ValueError):  # loaded, by whatever means, and without a spec
        path = [os.getcwd(), *sys.path]
        if not (importlib.util.find_spec(top) or PathFinder.find_spec(top, path)):
            raise UsageError(f"there is no module {module}")


def run_script(script: str, args: Sequence[str]) -> int:
    """Run a file (or a folder or zip with a __main__.py); returns the exit code.

    `sys.argv`, `sys.path[0]` and `__main__` are what `python script args` makes them.
    """
    sys.argv[:] = [script, *args]
    file = _absolute(script)
    if pkgutil.get_importer(file) is not None:
        if sys.flags.safe_path:
            sys.path.insert(0, file)
        else:
            sys.path[0] = file
        return _guarded(lambda: _run_package_main())
    _put_first_on_path(str(Path(script).resolve().parent))
    main = _fresh_main()
    compiled = file.endswith(".pyc")
    loader = (SourcelessFileLoader if compiled else SourceFileLoader)("__main__", file)
    main.__dict__.update(__file__=file, __loader__=loader)

    def execute() -> None:
        if compiled:
            code = loader.get_code("__main__")
        else:
            code = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
        assert code is not None
        exec(code, main.__dict__)

    return _guarded(execute)


def run_module(module: str, args: Sequence[str]) -> int:
    """Run a module as `python -m module args` does; returns the exit code."""
    sys.argv[:] = ["-m", *args]
    _put_first_on_path(os.getcwd())
    _fresh_main()
    return _guarded(lambda: runpy._run_module_as_main(module))  # type: ignore[attr-defined]


def _run_package_main() -> None:
    _fresh_main()
    runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


def _absolute(script: str) -> str:
    """What python makes of the script's name for `__file__`: absolute, not normalized."""
    return script if os.path.isabs(script) else os.path.join(os.getcwd(), script.removeprefix("./"))


def _put_first_on_path(folder: str) -> None:
    # With PYTHONSAFEPATH python puts no folder there: the first entry is the stdlib's.
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _fresh_main() -> types.ModuleType:
    before = vars(sys.modules["__main__"])
    main = types.ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __package__=None, __spec__=None)
    # Which of these python gives to __main__ depends on its version: ours shows it.
    for name, value in (("__annotations__", {}), ("__cached__", None)):
        if name in before:
            main.__dict__[name] = value
    sys.modules["__main__"] = main
    return main


def _guarded(execute: Callable[[], None]) -> int:
    """Run; print what python would print for an exception; give the exit code it would give."""
    code = 0
    try:
        execute()
    except SystemExit as stop:
        code = _exit_code(stop.code)
    except (CannotBegin, ShadowUnsupportedError):
        raise  # ours: a line, not a traceback
    except KeyboardInterrupt as interrupt:
        code = _print_exception(interrupt, INTERRUPTED)
    except BaseException as error:  # noqa: BLE001  (whatever the program raises is its own)
        code = _print_exception(error, 1)
    try:
        _join_threads()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(2**63) <= code < 2**63 else 0xFF
    with contextlib.suppress(Exception):  # stderr may be closed, and str(code) may raise
        sys.stderr.write(f"{code}\n")
    return 1


def _print_exception(error: BaseException, code: int) -> int:
    """Print it as python would: through the program's excepthook; returns the exit code."""
    _drop_own_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as stop:
        return _exit_code(stop.code)
    except BaseException as second:  # noqa: BLE001  (python prints both as well)
        _drop_own_frames(second)
        if second.__context__ is error:
            second.__context__ = None
        with contextlib.suppress(Exception):
            sys.stderr.write("Error in sys.excepthook:\n")
            sys.__excepthook__(type(second), second, second.__traceback__)
            sys.stderr.write("\nOriginal exception was:\n")
            sys.__excepthook__(type(error), error, error.__traceback__)
    return code


def _drop_own_frames(error: BaseException) -> None:
    """Take syncscope's frames out of the tracebacks of an exception and of those chained to it.

    The runner's are the outermost, the shadow GPU's stand where on a real one C++ would.
    """
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions
        _unlink_own_frames(one)


def _unlink_own_frames(error: BaseException) -> None:
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    own = [owner_of(entry.tb_frame.f_code.co_filename) == "syncscope" for entry in entries]
    if own and own[-1] and not isinstance(error, _RAISED_BY_TORCH):
        # An error in syncscope itself: keep where, but not how the program was started.
        kept = entries[own.index(False) if False in own else 0 :]
    else:
        kept = [entry for entry, ours in zip(entries, own, strict=True) if not ours]
    following = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    error.__traceback__ = following


def _join_threads() -> None:
    # Python waits for a program's threads before it ends; what they do belongs to the run.
    # First it tells the idle workers of executors to end (concurrent.futures registers that):
    # they would wait for work for ever. Threads may start threads while they are waited for.
    for callback in reversed(getattr(threading, "_threading_atexits", [])):
        with contextlib.suppress(Exception):  # python calls it again at exit, and prints it
            callback()
    while running := [thread for thread in threading.enumerate() if _is_awaited(thread)]:
        for thread in running:
            thread.join()


def _is_awaited(thread: threading.Thread) -> bool:
    own = (threading.current_thread(), threading.main_thread())
    return thread not in own and not thread.daemon
