"""The flagged sites as SARIF, so that a code review shows each at its line.

Source: "Static Analysis Results Interchange Format (SARIF) Version 2.1.0 plus Errata 01", an
OASIS Standard. Columns count Unicode characters, and regions end one past their last one.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from syncscope.analysis.result import Analysis
from syncscope.records import Site
from syncscope.reports.cause_help import help_for
from syncscope.reports.caveats import caveats_of
from syncscope.reports.figures import Figures, figures_of
from syncscope.reports.glossary import WORTH_FIXING
from syncscope.reports.sites import MAX_STACK_LINES, gain_of, sorted_sites
from syncscope.reports.visible_text import one_line, visible, visible_block
from syncscope.version import __version__

Node = dict[str, Any]

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "SRCROOT"
LEVELS = {"unsafe": "error", "fix": "warning"}
"""By verdict; all others are notes."""


def sarif_json(analysis: Analysis) -> bytes:
    """One result for each site that is flagged or allowed; the latter are suppressed.

    UTF-8, indented. Equal analyses give equal bytes.
    """
    chosen = [
        site
        for site in sorted_sites(analysis.summary.sites)
        if site.flagged or site.verdict == "allowed"
    ]
    rules = sorted({site.cause for site in chosen})
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(rules)},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    ROOT: {"description": {"text": "The folder the program was started in."}}
                },
                "invocations": [_invocation(analysis)],
                "results": list(_results(chosen, rules, analysis)),
                "properties": {"simulated": analysis.summary.run.simulated},
            }
        ],
    }
    return msgspec.json.format(msgspec.json.encode(log), indent=2) + b"\n"


def _driver(rules: list[str]) -> Node:
    return {
        "name": "syncscope",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_rule(cause) for cause in rules],
    }


def _rule(cause: str) -> Node:
    known = help_for(cause)
    return {
        "id": visible(cause, 80),
        "name": "".join(word.capitalize() for word in visible(cause, 80).split("_")),
        "shortDescription": {"text": known.title},
        "fullDescription": {"text": known.text},
        "help": {"text": known.text},
        "properties": {"tags": ["performance", "gpu", "pytorch"]},
    }


def _invocation(analysis: Analysis) -> Node:
    return {
        "executionSuccessful": not analysis.summary.run.truncated,
        "toolExecutionNotifications": [
            {"level": caveat.level, "message": {"text": _plain(caveat.text)}}
            for caveat in caveats_of(analysis)
        ],
    }


def _results(sites: list[Site], rules: list[str], analysis: Analysis) -> Iterator[Node]:
    figures, files = figures_of(analysis.summary), _own_files(analysis.summary.sites)
    marks = fingerprints(sites)
    for site in sites:
        result: Node = {
            "ruleId": visible(site.cause, 80),
            "ruleIndex": rules.index(site.cause),
            "level": LEVELS.get(site.verdict, "note"),
            "message": {"text": _message(site, figures)},
            "locations": [_location(site.file, _region(site), files)] if site.line > 0 else [],
            "partialFingerprints": {"primaryLocationLineHash": marks[site.id]},
            "occurrenceCount": site.count,
            "properties": _costs(site),
        }
        if related := list(_related(site, analysis.summary.sites, files)):
            result["relatedLocations"] = related
        if site.stack:
            result["codeFlows"] = [{"threadFlows": [{"locations": _flow(site, files)}]}]
        if site.advice.edits:
            result["fixes"] = [_fix(site, files)]
        if site.verdict == "allowed":
            result["suppressions"] = [
                {"kind": "inSource", "justification": visible(site.reason, 400)}
            ]
        yield result


def fingerprints(sites: Iterable[Site]) -> dict[str, str]:
    """By site id what stays the same when its lines move.

    Made of the file, the function and the expression, and a number to tell equal ones apart
    from top to bottom, in the form of hash:number that GitHub uses under the same name.
    """
    counts: Counter[str] = Counter()
    marks = {}
    for site in sorted(sites, key=lambda site: (site.file, site.line, site.column, site.id)):
        expression = " ".join(site.expression.split())
        parts = (site.file, site.function, expression, site.kind, site.direction or "")
        text = "\0".join(parts).encode(errors="replace")
        digest = hashlib.blake2s(text, digest_size=8).hexdigest()
        counts[digest] += 1
        marks[site.id] = f"{digest}:{counts[digest]}"
    return marks


def _message(site: Site, figures: Figures) -> str:
    """The first sentence stands for itself: a viewer may show no more (3.11.3)."""
    if site.verdict == "unsafe":
        does = "touches memory that is still being copied"
    elif site.blocking:
        does = "makes the host wait for the GPU"
    else:
        does = "copies through pageable memory"
    gain = gain_of(site, figures)
    span = " a step" if figures.has_steps else ""
    cost = f"; rewriting it gives back {gain}{span}" if gain else ""
    if site.verdict == "harmless":
        cost = f"; rewriting it does not give back {WORTH_FIXING}"
    text = f"`{one_line(site.expression, 160)}` {does}{cost}."
    if site.library_line:
        text += f" The wait is inside a library, at {visible(site.library_line, 200)}."
    if site.advice.title:
        text += f" {visible(site.advice.title, 300)}: {visible_block(site.advice.text, 2_000)}"
    return _plain(text)


def _plain(text: str) -> str:
    """Text in which braces are no placeholders (3.11.5) and brackets no links (3.11.6)."""
    return re.sub(r"\](?=\()", "] ", text.replace("{", "{{").replace("}", "}}"))


def _own_files(sites: Iterable[Site]) -> frozenset[str]:
    """Files of the program itself: where a library waited, the site is the line above it."""
    return frozenset(s.file for s in sites if s.owner == "user" or s.library_line is not None)


def _artifact(file: str, own: frozenset[str]) -> Node:
    """Where a file is. Of those of libraries, only the path below site-packages is known."""
    uri = quote(file, errors="replace")
    if file.startswith("/"):
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": ROOT} if file in own else {"uri": uri}


def _region(site: Site) -> Node:
    region: Node = {"startLine": site.line}
    if site.end_line >= site.line:
        region["endLine"] = site.end_line
    if site.column > 0 and site.end_column > 0:
        region |= {"startColumn": site.column, "endColumn": site.end_column}
    return region | {"snippet": {"text": visible_block(site.expression, 2_000)}}


def _location(file: str, region: Node, own: frozenset[str], message: str = "") -> Node:
    location: Node = {
        "physicalLocation": {"artifactLocation": _artifact(file, own), "region": region}
    }
    return location | {"message": {"text": _plain(message)}} if message else location


def _related(site: Site, sites: Iterable[Site], own: frozenset[str]) -> Iterator[Node]:
    if site.origin is not None and site.origin.line > 0:
        text = f"Made on the host by `{one_line(site.origin.expression, 160)}`."
        yield _location(site.origin.file, {"startLine": site.origin.line}, own, text)
    for other in sites:
        if other.id == site.moves_to and other.line > 0:
            yield _location(other.file, _region(other), own, "The host then waits here instead.")


def _flow(site: Site, own: frozenset[str]) -> list[Node]:
    """The call stack, outermost first: how the program got there."""
    frames = [frame for frame in site.stack[:MAX_STACK_LINES] if frame.line > 0]
    return [
        {
            "location": _location(
                frame.file, {"startLine": frame.line}, own, f"in {visible(frame.function, 120)}"
            )
        }
        for frame in reversed(frames)
    ]


def _fix(site: Site, own: frozenset[str]) -> Node:
    """All edits of the advice together; one that inserts deletes a region without length."""
    changes: dict[str, list[Node]] = {}
    for edit in site.advice.edits:
        deleted = {
            "startLine": edit.line,
            "startColumn": edit.column,
            "endLine": edit.end_line,
            "endColumn": edit.end_column,
        }
        replacement = {"deletedRegion": deleted, "insertedContent": {"text": edit.code}}
        changes.setdefault(edit.file, []).append(replacement)
    return {
        "description": {"text": _plain(visible(site.advice.title, 300))},
        "artifactChanges": [
            {"artifactLocation": _artifact(file, own), "replacements": replacements}
            for file, replacements in changes.items()
        ],
    }


def _costs(site: Site) -> Mapping[str, Any]:
    return {
        "verdict": visible(site.verdict, 40),
        "perStep": site.per_step,
        "blockedNs": site.blocked_ns,
        "exposedIdleNs": site.exposed_idle_ns,
        "savingsNsPerStep": site.savings_ns_per_step,
    }
