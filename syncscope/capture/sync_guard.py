"""Watch for implicit synchronizations without a recording, for `syncscope.forbid`."""

from __future__ import annotations

from syncscope.capture.cuda_start import CudaStart
from syncscope.capture.sync_filter import SyncFilter
from syncscope.forbidding import check


class SyncGuard:
    """Raises ImplicitSyncError at lines that wait, on threads for which that is forbidden.

    It has no part in the program before that has initialized CUDA.
    """

    def __init__(self) -> None:
        self._filter = SyncFilter(lambda caller: check())
        self._cuda_start = CudaStart(self._begin)
        self._watching = False

    def start(self) -> None:
        """Watch from the program's first use of CUDA on."""
        self._cuda_start.start()

    def stop(self) -> None:
        """Give torch's warnings back."""
        self._cuda_start.stop()
        if self._watching:
            self._filter.stop()

    def _begin(self) -> None:
        self._filter.start()
        self._watching = True
