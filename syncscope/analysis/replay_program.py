"""From the tables of a recording to the program that is replayed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.hooks import native_threads
from syncscope.analysis.intervals import Ints
from syncscope.analysis.replay import Program
from syncscope.analysis.replay_waits import inside_copies, waits_of
from syncscope.analysis.replay_work import Numbers, work_of
from syncscope.analysis.windows import int64
from syncscope.recording.manifest import Manifest


def program_of(
    activity: pd.DataFrame,
    runtime: pd.DataFrame,
    windows: tuple[Ints, Ints],
    steps: pd.DataFrame,
    manifest: Manifest,
    main: int,
) -> Program | None:
    """The program with marks at the edges of `steps` and the end of the last window.

    Takes both tables as recorded, in any order, with what they hold around the windows: the
    host may have run ahead of the devices. None where one of them is empty: what the host did
    between launches, or the devices, is not known then. Time between windows counts as the
    host's own.
    """
    if not len(activity) or not len(runtime) or not len(windows[0]):
        return None
    activity, runtime = activity.reset_index(drop=True), runtime.reset_index(drop=True)
    lane = _lanes(runtime, manifest, main)
    copy_waits = inside_copies(runtime, activity)
    work = work_of(activity, runtime, lane, copy_waits)
    waits = waits_of(runtime, lane, work, copy_waits)
    edges = (int64(steps, "start_ns"), int64(steps, "end_ns"), windows[1][-1:])
    return Program(activity, runtime, work, waits, np.unique(np.concatenate(edges)))


def _lanes(runtime: pd.DataFrame, manifest: Manifest, main: int) -> Numbers:
    """The host lane of each call: 0 for the main thread and the native ones that work for
    it, one more for each other thread. An imported trace does not tell: all share lane 0."""
    native = native_threads(manifest)
    threads = int64(runtime, "thread_id")
    lane = np.zeros(len(threads), dtype=np.int32)
    if manifest.imported and not native:
        return lane
    apart = np.flatnonzero(~np.isin(threads, [main, *native]))
    lane[apart] = np.unique(threads[apart], return_inverse=True)[1] + 1
    return lane
