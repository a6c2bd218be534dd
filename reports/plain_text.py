"""Plain terminal text: wrapped paragraphs and aligned columns, in what the terminal can show."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

DEFAULT_WIDTH = 100
MIN_WIDTH = 40

_PLAIN = {
    "→": "->", "·": "-", "–": "-", "…": "...", "µ": "u", "−": "-", "×": "x", "±": "+-",
    "│": "|", "█": "#",
}  # fmt: skip
"""What stands for a character that an encoding lacks."""


def paragraph(text: str, width: int, *, indent: int = 0, mark: str = "") -> list[str]:
    """Lines of wrapped text; `mark` stands before the first one, the others line up."""
    lead = " " * indent + mark
    return textwrap.wrap(
        text,
        max(width, MIN_WIDTH),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
    )


def columns(rows: Sequence[Sequence[str]], *, indent: int = 0, right: bool = False) -> list[str]:
    """Rows with aligned columns, two spaces apart; `right` aligns all but the first to the right.

    A double-width character counts as the two cells that it takes.
    """
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            cells.append(space + cell if right and place else cell + space)
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return lines


def printable(text: str, encoding: str | None) -> str:
    """The text as an output of this encoding can hold it: "·" becomes "-" in ASCII."""
    encoding = encoding or "utf-8"
    if encoding.lower().replace("-", "").startswith("utf"):
        return text
    lacking = {ord(c): plain for c, plain in _PLAIN.items() if not c.encode(encoding, "ignore")}
    return text.translate(lacking).encode(encoding, "backslashreplace").decode(encoding)
