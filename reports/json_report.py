"""Records as JSON: summary.json, and what `--format json` prints of a run, a job or a diff."""

from __future__ import annotations

from typing import Any

import msgspec

from syncscope.analysis.diff import Diff
from syncscope.analysis.job import Job
from syncscope.records import Summary


def summary_json(summary: Summary) -> bytes:
    """The content of summary.json, as `record_json` writes it."""
    return record_json(summary)


def record_json(record: Summary | Job | Diff) -> bytes:
    """UTF-8 JSON, indented, ending in a newline.

    Keys keep the order of the records, `schema` first and free-form mappings sorted, so that
    equal records give equal bytes. Undecodable bytes in arguments or file names (lone
    surrogates in Python) are written as escapes. NaN becomes null.
    """
    content: dict[str, Any] = msgspec.to_builtins(record, order="deterministic")
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
