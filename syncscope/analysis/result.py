"""What an analysis yields: the summary and the tables that a timeline is drawn from."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from syncscope.analysis.replay_cures import WhatIf
from syncscope.recording.manifest import Manifest
from syncscope.records import Summary


@dataclass(frozen=True)
class Analysis:
    """Summary and event tables of one recording. Times are ns in the recording's clock.

    Tables (each a data frame, sorted by start):
      calls     thread_id, start_ns, end_ns, site_id ("" if unattributed), name, kind
                (sync, transfer, allocator or race), direction ("" or h2d/d2h), size_bytes,
                blocking, explicit: what the host did with the device, one row an occurrence
      activity  the columns of the recording's table `activity`, clipped to the windows
      gaps      device, start_ns, end_ns, cause (`records.CAUSES_OF_IDLE`), site_id ("" if none)
      steps     index, start_ns, end_ns
      host      the columns of the recording's table `host`
      nvml      the columns of the recording's table `nvml`

    `what_if` replays the recording with cures; None where there is nothing to replay.
    """

    manifest: Manifest
    summary: Summary
    calls: pd.DataFrame
    activity: pd.DataFrame
    gaps: pd.DataFrame
    steps: pd.DataFrame
    host: pd.DataFrame
    nvml: pd.DataFrame
    sources: dict[str, str]
    what_if: WhatIf | None = None
