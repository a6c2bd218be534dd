"""The command line: one file per command, registered here."""

from __future__ import annotations

import errno
import sys

import typer

from syncscope.cli.diff_command import diff
from syncscope.cli.doctor_command import doctor
from syncscope.cli.export_command import export
from syncscope.cli.import_command import import_trace
from syncscope.cli.output import say
from syncscope.cli.report_command import report
from syncscope.cli.run_command import run
from syncscope.cli.show_command import show
from syncscope.errors import SyncscopeError
from syncscope.version import __version__

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the lines of a PyTorch program that make the CPU wait for the GPU.",
    epilog="Exit codes: run ends with the program's own; else 0, 2 for a command that cannot be "
    "carried out as given, 3 for a recording that cannot be read, 1 for output that cannot be "
    "written, and from diff --fail where something got worse.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"syncscope {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    pass


# Everything after SCRIPT belongs to the script, options too.
app.command(context_settings={"allow_interspersed_args": False})(run)
app.command()(show)
app.command()(report)
app.command()(diff)
app.command()(export)
app.command("import")(import_trace)
app.command()(doctor)


def main() -> None:
    """Entry point: a user's mistake becomes one line and an exit code, never a traceback."""
    try:
        app(prog_name="syncscope")
    except SyncscopeError as error:
        say(str(error))
        sys.exit(error.exit_code)
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        say(f"the output cannot be written: {error.strerror}")
        sys.exit(1)
