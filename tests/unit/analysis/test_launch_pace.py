"""How fast kernels come, and what of the idle time is other work of the host."""

from __future__ import annotations

import pandas as pd
import pytest

from syncscope.analysis.launch_pace import OTHER_WORK_NS, is_other_work, launch_pace

MS = 1_000_000


def table(columns, rows):
    return pd.DataFrame(rows, columns=columns.split())


def activity(*rows):
    return table("device start_ns end_ns kind", rows)


def gaps(*rows):
    return table("device start_ns end_ns cause", rows)


STEADY = table("start_ns end_ns", [(0, 10 * MS), (10 * MS, 20 * MS), (20 * MS, 30 * MS)])


def test_kernels_of_steady_steps_are_counted_and_timed():
    rows = [(0, step * 10 * MS + n * 20_000, step * 10 * MS + n * 20_000 + 3_000, "kernel")
            for step in range(4) for n in range(10)]  # fmt: skip
    rows.append((0, 29 * MS, 29 * MS + 1, "memcpy"))
    pace = launch_pace(activity(*rows), gaps(), STEADY)
    assert (pace.kernels_per_step, pace.kernel_ns, pace.interval_ns) == (10, 3_000, 20_000)
    assert pace.other_work_ns_per_step == 0


def test_each_device_has_a_pace_of_its_own():
    rows = [(n % 2, n * 10_000, n * 10_000 + 1_000, "kernel") for n in range(60)]
    pace = launch_pace(activity(*rows), gaps(), STEADY)
    assert (pace.kernels_per_step, pace.interval_ns) == (10, 20_000)


def test_a_long_gap_between_launches_is_other_work():
    idle = gaps(
        (0, 0, OTHER_WORK_NS, "launch"), (0, 5 * MS, 5 * MS + OTHER_WORK_NS - 1, "launch"),
        (0, 8 * MS, 12 * MS, "launch"), (0, 25 * MS, 28 * MS, "sync"),
    )  # fmt: skip
    assert is_other_work(idle).tolist() == [True, False, True, False]
    pace = launch_pace(activity((0, 1, 2, "kernel")), idle, STEADY)
    assert pace.other_work_ns_per_step == 2 * MS  # 3, 2 and 0 ms


@pytest.mark.parametrize("rows", [[], [(0, 40 * MS, 41 * MS, "kernel")], [(0, 0, 1, "memset")]])
def test_steps_without_kernels_have_no_pace(rows):
    assert launch_pace(activity(*rows), gaps(), STEADY) is None
