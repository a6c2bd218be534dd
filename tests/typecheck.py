"""Run mypy --strict over the package as it is installed.

mypy does not follow setuptools' package-dir mapping (cli/ is syncscope.cli), so it is shown
a folder of links in which every module stands where it is imported from.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def link_packages(target: Path) -> None:
    """Fill `target` with links so that the folders look like the installed package."""
    target.mkdir()
    for source in (ROOT / "syncscope").iterdir():
        if source.name != "__pycache__":
            (target / source.name).symlink_to(source)
    for name in ("cli", "reports"):
        (target / name).symlink_to(ROOT / name)


def main() -> int:
    """Exit code of mypy."""
    with tempfile.TemporaryDirectory() as folder:
        link_packages(Path(folder) / "syncscope")
        command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
        return subprocess.run(
            [*command, "--cache-dir", ROOT / ".mypy_cache", "-p", "syncscope"], cwd=folder
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
