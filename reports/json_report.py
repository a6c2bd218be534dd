"""A summary as JSON: the content of summary.json and of `show --format json`."""

from __future__ import annotations

from typing import Any

import msgspec

from syncscope.records import Summary


def summary_json(summary: Summary) -> bytes:
    """UTF-8 JSON of schema 1, indented, ending in a newline.

    Keys keep the order of the records, `schema` first and free-form mappings sorted, so that
    equal summaries give equal bytes. Undecodable bytes in arguments or file names (lone
    surrogates in Python) are written as escapes. NaN becomes null.
    """
    content: dict[str, Any] = msgspec.to_builtins(summary, order="deterministic")
    ordered = {"schema": content.pop("schema"), **content}
    try:
        text = msgspec.json.encode(ordered)
    except UnicodeEncodeError:
        text = msgspec.json.encode(_encodable(ordered))
    return msgspec.json.format(text, indent=2) + b"\n"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item) for item in value]
    return value
