"""Foreign text made safe to show: file names, expressions, arguments, kernel names.

Control characters could drive a terminal, direction marks could make code read other than
it is, and lone surrogates (undecodable file names) cannot be written as UTF-8. All of them
are shown as the escapes that Python would print.
"""

from __future__ import annotations

import re

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def visible(text: str, limit: int | None = None) -> str:
    """The text on one line, nothing hidden; its end is cut when it is longer than `limit`."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return _HIDDEN.sub(_escape, text)


def visible_path(text: str, limit: int = 120) -> str:
    """Like `visible`, but a long path loses its beginning: its end tells files apart."""
    if len(text) > limit:
        text = "…" + text[len(text) - limit + 1 :]
    return _HIDDEN.sub(_escape, text)


def one_line(text: str, limit: int = 200) -> str:
    """An expression on one line: runs of white space become one space, the end is cut."""
    # An expression of megabytes need not be split in full to be cut afterwards.
    return visible(" ".join(text[: 8 * limit].split()), limit)


def visible_block(text: str, limit: int) -> str:
    """Like `visible`, with line breaks and tabs kept: for code of several lines."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return _HIDDEN.sub(lambda hit: hit[0] if hit[0] in "\n\t" else _escape(hit), text)


def _escape(hit: re.Match[str]) -> str:
    code = ord(hit[0])
    return _SHORT.get(hit[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
