"""`syncscope doctor`: what can be recorded on this machine, and why not."""

from __future__ import annotations


def doctor() -> None:
    """Check this machine: what syncscope can record here, and what is missing."""
    from rich.console import Console

    from syncscope.doctor import examine

    console = Console()
    for check in examine():
        mark = {"ok": "[green]ok[/]  ", "no": "[yellow]no[/]  "}[check.state]
        console.print(mark, end="")
        line = f"{check.name}: {check.detail}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
