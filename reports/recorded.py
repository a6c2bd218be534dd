"""What was recorded, by whom and with which losses: the section that earns trust."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath

from syncscope.analysis.result import Analysis
from syncscope.recording.manifest import CollectorStatus, Exit, Manifest
from syncscope.records import Coverage, Replay, RunSummary
from syncscope.reports.figures import figures_of
from syncscope.reports.visible_text import visible
from syncscope.units import duration, percent, quantity

MAX_LISTED = 12


@dataclass(frozen=True, slots=True)
class CollectorRow:
    """A collector: `state` is on, off or failed; `sees` says what it is for."""

    name: str
    sees: str
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
    not_needed: str
    """Collectors that a simulated run has no use for; "" where there are none."""
    command: str
    """Shell command that records the same again; "" where there is none."""


_COLLECTORS = {
    "activity": ("GPU activity", "kernels, copies and when they ran (CUPTI)"),
    "explicit_waits": ("explicit waits", "synchronize(), wait(), barrier()"),
    "host_events": ("host events", "garbage collections and waits for a DataLoader"),
    "nvml": ("NVML", "utilisation, memory, clocks and PCIe traffic"),
    "shadow": ("shadow GPU", "everything, by the rules of when PyTorch waits"),
    "steps": ("steps", "where a step ends"),
    "sync_warnings": ("sync warnings", "implicit waits, with their line"),
    "transfers": ("transfers", "copies between host and GPU, with their line"),
}
_PARTS = {
    "start": "starting the collectors, before the first step",
    "stop": "stopping them, after the last",
    "open": "opening windows",
    "collect": "closing windows, reading their GPU activity",
    "windows": "windows recorded",
}
_SIMULATED = "the GPU is simulated"
"""The reason that a shadow GPU gives for collectors of a real one."""


def recorded_of(analysis: Analysis) -> Recorded:
    """Shape the manifest for reading. Everything foreign in it is made safe to show."""
    manifest = analysis.manifest
    idle = [row for row in manifest.collectors if row.state == "off" and row.reason == _SIMULATED]
    return Recorded(
        collectors=tuple(_collector(row) for row in manifest.collectors if row not in idle),
        not_needed=", ".join(_collector(row).name for row in idle),
        facts=tuple(_facts(analysis)),
        versions=tuple(
            (visible(name, 40), visible(version, 80))
            for name, version in sorted(manifest.versions.items())
            if version
        ),
        overhead=tuple(_overhead(manifest.overhead)),
        command=_command(manifest),
    )


def _collector(row: CollectorStatus) -> CollectorRow:
    name, sees = _COLLECTORS.get(row.name, (row.name.replace("_", " "), ""))
    return CollectorRow(
        name=visible(name, 60),
        sees=sees,
        state=row.state if row.state in ("on", "off", "failed") else "failed",
        reason=visible(row.reason, 400),
        lost=f"{row.lost:,}",
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
        short = name.removesuffix("_s")
        words = _PARTS.get(short) or visible(short.replace("_", " "), 60)
        yield words, duration(value * 1e9) if name.endswith("_s") else f"{value:,.6g}"


def _facts(analysis: Analysis) -> Iterator[tuple[str, str]]:
    manifest, run = analysis.manifest, analysis.summary.run
    devices = _listed([f"{d.index}: {device_model(d.name)}" for d in manifest.devices])
    yield "Device", (devices or "none") + (" (shadow, simulated)" if run.simulated else "")
    if manifest.origin_unix_ns > 0:
        start = datetime.fromtimestamp(manifest.origin_unix_ns // 1_000_000_000, tz=UTC)
        yield "Started", f"{start:%Y-%m-%d %H:%M:%S} UTC"
    windows = [f"{duration(w.start_ns)} to {duration(w.end_ns)}" for w in manifest.windows]
    yield (
        "GPU activity",
        _listed(windows) + " after the start, 0 in the timeline" if windows else "no window",
    )
    yield "Steps", figures_of(analysis.summary).steps_in_words if run.steps else "no step marks"
    if manifest.threads:
        names = [visible(thread.name, 60) for thread in manifest.threads]
        yield quantity(len(names), "thread").capitalize(), _listed(names)
    if manifest.world_size > 1:
        yield "Rank", f"{manifest.rank} of {manifest.world_size}"
    yield "Program ended", _ending(manifest, run)
    yield "Replay", _replay_error(analysis.summary.replay)
    yield "Recording", visible(manifest.run_id, 80)


def _ending(manifest: Manifest, run: RunSummary) -> str:
    if manifest.imported:
        return "not known: imported trace"
    if manifest.exit is None and run.live:
        return "not yet: still being recorded"
    if manifest.exit is None:
        return "not seen" if run.live is None else "not seen: the run was cut short"
    return exit_in_words(manifest.exit)


def exit_in_words(ending: Exit) -> str:
    """How a program ended. A negative code is the signal that ended it, as for subprocesses."""
    if ending.code in (-signal.SIGINT, 128 + signal.SIGINT):
        return "interrupted (Ctrl-C)"
    raised = visible(ending.exception, 200)
    return f"exit code {ending.code}" + (f" ({raised})" if raised else "")


def _replay_error(replay: Replay) -> str:
    """How far off the recording comes out when it is replayed unchanged."""
    if replay.baseline_error is None:
        return "not replayed: gains are upper bounds"
    error = f"reproduces the recording within {abs(replay.baseline_error) * 100:.1f} %"
    return error if replay.used else f"{error}: too much, so gains are upper bounds"


def _command(manifest: Manifest) -> str:
    """The process's own command line, where the recording has it, else one made of `argv`."""
    if manifest.imported or not (manifest.argv or manifest.command):
        return ""
    if manifest.command:
        words = _typed(manifest.command)
    else:
        simulated = ["--device", "shadow"] if manifest.simulated else []
        words = ["syncscope", "run", *simulated, *manifest.argv]
    return visible(shlex.join(words), 4_000)


def _typed(command: Sequence[str]) -> list[str]:
    """What was typed: `syncscope` and `python` by name, not where they are installed."""
    interpreter, *words = command
    if words[:2] == ["-m", "syncscope"]:
        return ["syncscope", *words[2:]]
    if words and PurePath(words[0]).name == "syncscope":
        return ["syncscope", *words[1:]]
    return [PurePath(interpreter).name, *words]


def _listed(texts: list[str]) -> str:
    shown = ", ".join(texts[:MAX_LISTED])
    rest = len(texts) - MAX_LISTED
    return f"{shown} and {rest:,} more" if rest > 0 else shown
