"""What bounds a run: the GPU, waits, transfers, launching, or its input."""

from __future__ import annotations

from collections.abc import Sequence

from syncscope.records import GpuSummary, Regime

BUSY_FRACTION = 0.8
"""A GPU that computes for this part of a step bounds the run."""


def regime_of(gpus: Sequence[GpuSummary], copying: float, best_gain: float | None) -> Regime | None:
    """The regime of the steady steps, the mean over the devices; None without a device.

    `copying` is the part of a step in which only copies ran that the host waited for,
    `best_gain` the part that all cures together give back, None where that is unknown. Idle
    time charged to waits that comes back as other idle time belongs to launching.
    """
    if not gpus:
        return None
    idle = {
        cause: sum(_idle_fraction(gpu, cause) for gpu in gpus) / len(gpus)
        for cause in gpus[0].steady_idle_by_cause_ns
    }
    computing = max(1.0 - sum(idle.values()) - copying, 0.0)
    if computing >= BUSY_FRACTION:
        return Regime("gpu", computing)
    waits = {"sync": idle["sync"] + idle["allocator"], "transfer": idle["transfer"] + copying}
    charged = sum(waits.values())
    real = charged if best_gain is None else min(charged, best_gain)
    shares = {kind: share * real / charged if charged else 0.0 for kind, share in waits.items()}
    shares["launch"] = idle["launch"] + idle["gc"] + idle["unknown"] + charged - real
    shares["input"] = idle["dataloader"]
    if max(shares.values()) < idle["device_dependency"]:
        return Regime("gpu", computing)
    kind = max(shares, key=lambda kind: shares[kind])
    return Regime(kind, shares[kind])


def _idle_fraction(gpu: GpuSummary, cause: str) -> float:
    total = sum(gpu.steady_idle_by_cause_ns.values())
    return gpu.steady_idle_by_cause_ns[cause] / total * gpu.steady_idle_fraction if total else 0.0
