"""Which call of the runtime put an activity into its queue."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints, first_at
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64

_LAUNCHING = ("launch", "memcpy", "memset", "other")


class Launches:
    """The launches of a recording, by the correlation ids that their activities have, too."""

    def __init__(self, runtime: pd.DataFrame) -> None:
        ids = int64(runtime, "correlation_id")
        self._rows = np.flatnonzero(is_any(runtime["kind"], _LAUNCHING) & (ids > 0))
        self._ids = ids[self._rows]

    def of(self, correlation: Ints) -> Ints:
        """Row of the first call with each id, -1 where none was recorded."""
        place = first_at(correlation, self._ids)
        return np.append(self._rows, -1)[place]
