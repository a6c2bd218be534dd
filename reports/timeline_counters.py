"""NVML's counters against the timeline: utilisation, memory and PCIe traffic of each device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.result import Analysis

MAX_SAMPLES = 1_000
"""Per device: at the rate of the samples, no screen shows more."""

_COUNTERS = (
    ("gpu_percent", "GPU busy (NVML, over up to 1 s)", "%", 1.0),
    ("memory_used_bytes", "Memory used", "GiB", 1 << 30),
    ("pcie_rx_bytes_per_s", "PCIe to GPU", "GB/s", 1e9),
    ("pcie_tx_bytes_per_s", "PCIe from GPU", "GB/s", 1e9),
)


@dataclass(frozen=True, slots=True)
class Counter:
    """Samples of one counter of one device; None where the driver gave no value."""

    label: str
    unit: str
    device: int
    time_ns: tuple[int, ...]
    values: tuple[float | None, ...]


def counters_of(analysis: Analysis, start_ns: int, end_ns: int) -> tuple[Counter, ...]:
    """Samples between the times, and the one on either side; counters without a value are left out.

    Where there are too many, neighbours are averaged.
    """
    found = []
    for device, samples in analysis.nvml.groupby("device", sort=True):
        times = samples["time_ns"].to_numpy(dtype=np.int64)
        first = max(int(np.searchsorted(times, start_ns)) - 1, 0)
        own = samples.iloc[first : int(np.searchsorted(times, end_ns, side="right")) + 1]
        for name, label, unit, factor in _COUNTERS:
            values = own[name].where(own[name] >= 0) / factor
            if values.notna().any():
                found.append(_counter(label, unit, int(str(device)), own["time_ns"], values))
    return tuple(found)


def _counter(label: str, unit: str, device: int, times: pd.Series, values: pd.Series) -> Counter:
    group = np.arange(len(times)) // -(-len(times) // MAX_SAMPLES)
    means = values.reset_index(drop=True).groupby(group).mean()
    return Counter(
        label,
        unit,
        device,
        tuple(times.reset_index(drop=True).groupby(group).min().astype("int64").tolist()),
        tuple(None if pd.isna(value) else float(f"{value:.4g}") for value in means),
    )
