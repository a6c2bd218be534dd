"""Find the same code in two recordings: by what it says, never by its line number."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from syncscope.analysis.syntax import parse
from syncscope.records import Site

SCRIPT = "(script)"
"""Name of the file that was run, so that a script and its edited copy are the same file."""


class CodeKey(NamedTuple):
    """What sites of two recordings have in common if they are the same code."""

    file: str
    function: str
    expression: str
    kind: str
    direction: str


def code_key(site: Site, files: Mapping[str, str]) -> CodeKey:
    """The key of a site; `files` renames files, as `common_files` says."""
    return CodeKey(
        files.get(site.file, site.file),
        site.function,
        normalised(site.expression),
        site.kind,
        site.direction or "",
    )


def normalised(expression: str) -> str:
    """An expression as Python would write it: white space, quotes and parentheses do not count.

    What does not parse keeps its words, with one space between them.
    """
    node = parse(expression) or parse(f"{expression}: pass")  # the head of a with statement
    if node is None:
        return " ".join(expression.split())
    try:
        return ast.unparse(node)
    except (RecursionError, ValueError):  # very deep, or a constant that cannot be written
        return " ".join(expression.split())


def common_files(
    old: Collection[str], new: Collection[str], old_argv: Iterable[str], new_argv: Iterable[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """New names for files, so that what is the same file has the same one: (of old, of new).

    - The scripts that were run (or modules, after -m) correspond, whatever their names.
    - A file that only one side has corresponds to the only one of the same base name that
      only the other side has: it was moved.
    """
    names: tuple[dict[str, str], dict[str, str]] = ({}, {})
    scripts = [_script(files, argv) for files, argv in ((old, old_argv), (new, new_argv))]
    if all(scripts):
        for renamed, script in zip(names, scripts, strict=True):
            renamed[script] = SCRIPT
    gone = _by_base_name(set(old) - set(new) - {scripts[0]})
    come = _by_base_name(set(new) - set(old) - {scripts[1]})
    for base, (file, *more) in come.items():
        if not more and len(gone.get(base, ())) == 1:
            names[1][file] = gone[base][0]
    return names


def _script(files: Collection[str], argv: Iterable[str]) -> str:
    """The file among these that the command line names; "" if none or several might be it."""
    first, second = [*argv, "", ""][:2]
    target = PurePosixPath(f"{second.replace('.', '/')}.py" if first == "-m" else first)
    found = [file for file in files if file == target.as_posix()]
    found = found or [file for file in files if PurePosixPath(file).name == target.name]
    return found[0] if len(found) == 1 else ""


def _by_base_name(files: Iterable[str]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for file in sorted(files):
        names.setdefault(PurePosixPath(file).name, []).append(file)
    return names
