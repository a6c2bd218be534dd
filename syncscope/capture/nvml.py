"""Utilisation, memory, clock and PCIe traffic of each GPU, ten times a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pynvml

from syncscope.context import CaptureContext
from syncscope.own_threads import start_own
from syncscope.recording.tables import NvmlRow

INTERVAL_S = 0.1


class Nvml:
    """Collector of the driver's counters, on a daemon thread of its own."""

    name = "nvml"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("nvml")
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._handles: list[Any] = []

    def start(self) -> None:
        """Open NVML. Raises pynvml.NVMLError where there is no driver."""
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._stopped.clear()
        self._thread = start_own(self._loop, "nvml")

    def stop(self) -> None:
        """End the thread and close NVML."""
        self._stopped.set()
        thread, self._thread = self._thread, None
        # A forked child has no such thread, and NVML, whose locks it may have held, hangs there.
        if thread is not None and thread.is_alive():
            thread.join()
            pynvml.nvmlShutdown()

    def _loop(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            for index, handle in enumerate(self._handles):
                self._rows.append(_sample(index, handle, self._context.now()))


def _sample(index: int, handle: Any, now: int) -> NvmlRow:
    return NvmlRow(
        now,
        index,
        _read(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        int(_read(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used)),
        _read(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        _read(lambda: _pcie(handle, pynvml.NVML_PCIE_UTIL_RX_BYTES)),
        _read(lambda: _pcie(handle, pynvml.NVML_PCIE_UTIL_TX_BYTES)),
    )


def _pcie(handle: Any, counter: int) -> float:
    """Bytes a second over the last 20 ms (nvmlDeviceGetPcieThroughput answers in KB/s)."""
    return 1024.0 * float(pynvml.nvmlDeviceGetPcieThroughput(handle, counter))


def _read(query: Callable[[], float]) -> float:
    try:
        return float(query())
    except pynvml.NVMLError:  # not every GPU and every container answers every question
        return -1.0
