"""A page of text: lines no wider than the console, in characters that its encoding can hold.

Built from `rich.text.Text` only, so that no name is read as markup.
"""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from syncscope.reports.plain_text import MIN_WIDTH, printable


class Page:
    """Writes to a console, whose width and colours it uses; below MIN_WIDTH lines overflow."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = max(console.width, MIN_WIDTH)
        self._encoding = console.encoding

    def safe(self, text: str) -> str:
        """The text as the console can write it: "·" becomes "-" in ASCII, "é" an escape."""
        return printable(text, self._encoding)

    def text(self, text: str, style: str = "") -> Text:
        """Styled text that is not interpreted in any way."""
        return Text(self.safe(text), style=style)

    def line(self, line: Text | None = None) -> None:
        """One line as it is, however wide; an empty one without an argument."""
        shown = line or Text()
        shown.rstrip()
        self._console.print(shown, soft_wrap=True)

    def paragraph(self, text: str, *, indent: int = 0, style: str = "", mark: str = "") -> None:
        """Wrapped text; `mark` stands before its first line, below which the rest lines up."""
        lead = " " * indent + self.safe(mark)
        room = max(self.width - cell_len(lead), 10)
        for block in text.split("\n"):
            for wrapped in self.text(block, style).wrap(self._console, room):
                self.line(Text(lead, style=style).append_text(wrapped))
                lead = " " * cell_len(lead)

    def code(self, text: str, *, indent: int, style: str = "") -> None:
        """Lines of code, not wrapped: they are there to be copied."""
        for line in text.expandtabs(4).split("\n"):
            self.line(Text(" " * indent).append_text(self.text(line, style)))
