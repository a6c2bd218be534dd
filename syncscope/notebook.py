"""`%load_ext syncscope` gives IPython and Jupyter the cell magic `%%syncscope`.

A cell is compiled under a name of its own, In[3], which its lines are reported with.
"""

from __future__ import annotations

import argparse
import ast
import linecache
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from IPython.core.error import UsageError
from IPython.display import display

from syncscope.api import Run, close_recorder, open_recorder
from syncscope.errors import SyncscopeError
from syncscope.options import RecordOptions
from syncscope.recording.folders import recording_folder

if TYPE_CHECKING:
    from types import CodeType

    from IPython.core.interactiveshell import InteractiveShell


def register(shell: InteractiveShell) -> None:
    """Make `%%syncscope` known to a shell."""

    def syncscope(line: str, cell: str) -> None:
        __tracebackhide__ = True
        _record_cell(shell, line, cell)

    syncscope.__doc__ = _parser().format_help()
    shell.magics_manager.register_function(syncscope, magic_kind="cell")


class _Parser(argparse.ArgumentParser):
    """Errors become IPython's, which shows them as one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%syncscope: {message}")


def _parser() -> _Parser:
    parser = _Parser(
        prog="%%syncscope",
        description="Record where this cell makes the CPU wait for the GPU, and show it.",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("--warmup", type=int, default=0, help="steps to skip before recording")
    parser.add_argument("--steps", type=int, help="steps to record")
    parser.add_argument("--seconds", type=float, help="seconds to record; inf: to the end")
    parser.add_argument("--device", default="auto", help="auto, cuda or shadow")
    parser.add_argument("-o", "--output", type=Path, help="folder for the recording")
    return parser


def _record_cell(shell: InteractiveShell, line: str, cell: str) -> None:
    """Run a cell under a recorder; what it raises passes through, after the result was shown."""
    __tracebackhide__ = True
    chosen = _parser().parse_args(shlex.split(line))
    name = f"In[{shell.displayhook.prompt_count}]"  # execution_count may be the next one's
    try:
        options = RecordOptions(
            argv=(name,),
            device=chosen.device,
            warmup=chosen.warmup,
            steps=chosen.steps,
            seconds=chosen.seconds,
        )
        codes = _compiled(shell, line, cell, name)
        recorder = open_recorder(
            recording_folder("notebook", chosen.output, numbered=True), options
        )
    except SyncscopeError as error:
        raise UsageError(f"%%syncscope: {error}") from None
    exit_code, exception = 1, ""
    try:
        recorder.start()
        for code in codes:
            exec(code, shell.user_ns)
        exit_code = 0
    except BaseException as error:
        exception = type(error).__name__
        raise
    finally:
        close_recorder(recorder, exit_code, exception)
        if recorder.started:
            _show(Run(recorder.folder))


def _compiled(shell: InteractiveShell, line: str, cell: str, name: str) -> list[CodeType]:
    """The statements of a cell, and the last expression by itself, which is to be displayed.

    Lines count from the one with the magic, as the reader sees the cell.
    """
    source = f"# %%syncscope {line}\n{shell.transform_cell(cell)}"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    tree = shell.transform_ast(ast.parse(source, name))
    shown = tree.body[-1:] if tree.body and isinstance(tree.body[-1], ast.Expr) else []
    silent = ast.Module(tree.body[: len(tree.body) - len(shown)], type_ignores=[])
    return [
        compile(silent, name, "exec"),
        *(compile(ast.Interactive([node]), name, "single") for node in shown),
    ]


def _show(run: Run) -> None:
    from syncscope.reports.text_report import short_summary

    run.save_summary()
    report = os.path.relpath(run.report())
    text = f"{short_summary(run.analysis)}report: {report}"
    display({"text/html": run._repr_html_(), "text/plain": text}, raw=True)
