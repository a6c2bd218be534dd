"""What was recorded, by whom and with which losses: the section that earns trust."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from syncscope.analysis.result import Analysis
from syncscope.recording.manifest import Manifest
from syncscope.records import Coverage
from syncscope.reports.units import duration, percent, quantity
from syncscope.reports.visible_text import visible

MAX_LISTED = 12


@dataclass(frozen=True, slots=True)
class CollectorRow:
    """A collector: `state` is on, off or failed."""

    name: str
    state: str
    reason: str
    lost: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """Texts about the recording itself."""

    collectors: tuple[CollectorRow, ...]
    facts: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    overhead: tuple[tuple[str, str], ...]
    command: str
    """Shell command that records the same again; "" where there is none."""


def recorded_of(analysis: Analysis) -> Recorded:
    """Shape the manifest for reading. Everything foreign in it is made safe to show."""
    manifest = analysis.manifest
    return Recorded(
        collectors=tuple(
            CollectorRow(
                name=visible(row.name, 60),
                state=row.state if row.state in ("on", "off", "failed") else "failed",
                reason=visible(row.reason, 400),
                lost=f"{row.lost:,}",
            )
            for row in manifest.collectors
        ),
        facts=tuple(_facts(analysis)),
        versions=tuple(
            (visible(name, 40), visible(version, 80))
            for name, version in sorted(manifest.versions.items())
            if version
        ),
        overhead=tuple(_overhead(manifest.overhead)),
        command=_command(manifest),
    )


def device_model(device: str) -> str:
    """Name of a GPU without the mark of a shadow GPU, for texts that say so themselves."""
    return visible(device.replace(" (shadow)", ""), 80)


def coverage_share(coverage: Coverage) -> str:
    """Share of the blocking calls that have a line; "–" where nothing blocked."""
    if coverage.blocking_calls == 0:
        return "–"
    return percent(coverage.attributed / coverage.blocking_calls)


def _overhead(measured: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Names that end in _s are seconds, the others plain numbers."""
    for name, value in sorted(measured.items()):
        words = visible(name.removesuffix("_s").replace("_", " "), 60)
        yield words, duration(value * 1e9) if name.endswith("_s") else f"{value:,.6g}"


def _facts(analysis: Analysis) -> Iterator[tuple[str, str]]:
    manifest, run = analysis.manifest, analysis.summary.run
    devices = _listed([f"{d.index}: {device_model(d.name)}" for d in manifest.devices])
    yield "Device", (devices or "none") + (" (shadow, simulated)" if run.simulated else "")
    if manifest.origin_unix_ns > 0:
        start = datetime.fromtimestamp(manifest.origin_unix_ns // 1_000_000_000, tz=UTC)
        yield "Started", f"{start:%Y-%m-%d %H:%M:%S} UTC"
    windows = [f"{duration(w.start_ns)} to {duration(w.end_ns)}" for w in manifest.windows]
    yield "GPU activity in", _listed(windows) or "no window"
    yield "Steps", f"{run.steps:,}" if run.steps else "no step marks"
    if manifest.threads:
        names = [visible(thread.name, 60) for thread in manifest.threads]
        yield quantity(len(names), "thread").capitalize(), _listed(names)
    if manifest.world_size > 1:
        yield "Rank", f"{manifest.rank} of {manifest.world_size}"
    yield "Program ended", _ending(manifest)
    yield "Recording", visible(manifest.run_id, 80)


def _ending(manifest: Manifest) -> str:
    if manifest.imported:
        return "not known: imported trace"
    if manifest.exit is None:
        return "not seen: the run was cut short"
    raised = visible(manifest.exit.exception, 200)
    return f"exit code {manifest.exit.code}" + (f" ({raised})" if raised else "")


def _command(manifest: Manifest) -> str:
    if manifest.imported or not manifest.argv:
        return ""
    words = list(manifest.argv)
    prefix = [] if words[0] == "syncscope" else ["syncscope", "run"]
    if manifest.simulated and prefix:
        prefix += ["--device", "shadow"]
    return visible(shlex.join([*prefix, *words]), 4_000)


def _listed(texts: list[str]) -> str:
    shown = ", ".join(texts[:MAX_LISTED])
    rest = len(texts) - MAX_LISTED
    return f"{shown} and {rest:,} more" if rest > 0 else shown
