"""The arrows between the layers point down only, and the package holds what the disk holds."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = {"syncscope": "syncscope", "syncscope.cli": "cli", "syncscope.reports": "reports"}
# Who may be imported by whom, lowest first: a layer imports itself and what stands before it.
FORBIDDEN = {
    "syncscope.recording": ("analysis", "capture", "shadow", "recorder", "api", "reports", "cli"),
    "syncscope.capture": ("analysis", "shadow", "recorder", "api", "reports", "cli"),
    "syncscope.shadow": ("analysis", "capture", "recorder", "api", "reports", "cli"),
    "syncscope.analysis": ("capture", "shadow", "recorder", "api", "reports", "cli"),
    "syncscope.reports": ("capture", "shadow", "recorder", "api", "cli"),
    "syncscope.recorder": ("analysis", "api", "reports", "cli"),
    "syncscope.callsite": ("analysis", "capture", "shadow", "recorder", "api", "reports", "cli"),
    "syncscope.records": ("recording", "analysis", "capture", "shadow", "api", "reports", "cli"),
}


def modules() -> dict[str, Path]:
    """Every module of the package by its import name."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *parts]).removesuffix(".__init__")
            found[name] = path
    return found


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_a_layer_imports_only_what_lies_below_it(layer: str) -> None:
    members = {n: p for n, p in modules().items() if n == layer or n.startswith(layer + ".")}
    assert members
    for name, path in members.items():
        for imported in imports(path):
            for forbidden in FORBIDDEN[layer]:
                above = f"syncscope.{forbidden}"
                assert imported != above, f"{name} imports {imported}"
                assert not imported.startswith(above + "."), f"{name} imports {imported}"


def test_the_side_folders_are_imported_by_their_installed_names() -> None:
    for name, path in modules().items():
        for imported in imports(path):
            assert imported.split(".")[0] not in {"cli", "reports"}, f"{name} imports {imported}"


def test_the_package_list_names_every_package_on_disk() -> None:
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    on_disk = {name for name, path in modules().items() if path.name == "__init__.py"}
    assert set(configured["packages"]) == on_disk


def test_functions_stay_short() -> None:
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                assert length <= 50, f"{name}.{node.name} has {length} lines"
