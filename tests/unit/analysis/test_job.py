"""The ranks of a job, read together from recordings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from syncscope.analysis.job import Job, job_of
from syncscope.analysis.pipeline import analyze
from syncscope.recording.reader import Recording
from syncscope.recording.tables import ActivityRow
from syncscope.recording.trace_import import import_trace

MS = 1_000_000
TRACES = Path(__file__).resolve().parents[2] / "data" / "traces"
STEPS, STEP = 6, 20


def rank(builder: Any, number: int, compute: int, arrive: list[int], **changes: Any) -> Any:
    """Steps of 20 ms: a kernel of `compute` ms, an all-reduce from `arrive` to 17 ms, a wait."""
    builder.window(0, STEPS * STEP * MS)
    readback = builder.line("loss.item()", 7 + number)
    for step in range(STEPS):
        start = step * STEP * MS
        builder.kernel(start, start + MS, start + (1 + compute) * MS)
        late = start + arrive[step % len(arrive)] * MS
        builder.add(
            "activity",
            ActivityRow(0, 9, late, start + 17 * MS, "kernel", "ncclDevKernel_AllReduce", "", "",
                        -1, -1),
        )  # fmt: skip
        builder.sync(start + 16 * MS, start + 18 * MS)
        builder.warning(start + 18 * MS + 1, readback)
        builder.mark(start + STEP * MS)
    changes = {"rank": number, "world_size": 2, "origin_unix_ns": number * 3 * MS} | changes
    return analyze(builder.build(**changes))


def job(builders: Callable[[], Any], *arrive: list[int], **changes: Any) -> Job:
    return job_of(
        (number, rank(builders(), number, 3 + 4 * number, own, **changes))
        for number, own in enumerate(arrive)
    )


def test_the_rank_that_comes_last_is_named_and_what_it_does_for_longer(
    builders: Callable[[], Any],
) -> None:
    found = job(builders, [10], [15])
    assert found.straggler is not None
    slow = found.straggler
    assert (slow.rank, slow.basis, slow.others_wait_ns) == (1, "arrivals", 5 * MS)
    assert (slow.why, slow.why_ns) == ("compute", 4 * MS)
    one, other = found.ranks
    assert (one.waited_ns, one.made_wait_ns, one.last) == (5 * MS, 0, 0)
    assert (other.waited_ns, other.made_wait_ns, other.last) == (0, 5 * MS, 5)
    assert (one.compute_ns, one.collective_ns) == (3 * MS, 7 * MS)
    assert one.step.median == STEP * MS
    assert (found.collectives, found.matched, found.missing) == (5, 5, ())


def test_ranks_that_come_last_in_turn_have_no_straggler(builders: Callable[[], Any]) -> None:
    found = job(builders, [10, 15, 10, 15, 10, 12], [12, 10, 15, 10, 15, 10])
    assert found.straggler is None
    assert found.matched == 5


def test_a_site_is_the_same_on_all_ranks_whatever_its_line(builders: Callable[[], Any]) -> None:
    found = job(builders, [10], [15])
    (site,) = found.sites
    assert [cost.rank for cost in site.costs] == [0, 1]
    assert all(cost.count == STEPS and cost.blocked_ns == STEPS * 2 * MS for cost in site.costs)
    assert site.expression == "loss.item()"


def test_ranks_without_a_recording_are_named(builders: Callable[[], Any]) -> None:
    assert job(builders, [10], [15], world_size=4).missing == (2, 3)


def test_other_commands_are_noticed(builders: Callable[[], Any]) -> None:
    analyses = [rank(builders(), n, 3, [10], argv=(f"{n}.py",)) for n in range(2)]
    assert not job_of(enumerate(analyses)).same_command


def test_without_pairs_the_rank_that_waits_least_is_the_slow_one(
    builders: Callable[[], Any],
) -> None:
    far = {"origin_unix_ns": 0}
    one = rank(builders(), 0, 3, [5], **far)
    other = rank(builders(), 1, 7, [15], origin_unix_ns=10**15)
    found = job_of(enumerate([one, other]))
    assert found.straggler is not None
    assert (found.straggler.rank, found.straggler.basis) == (1, "waits")
    assert found.ranks[0].waited_ns is None


def test_a_single_rank_and_an_empty_one_are_jobs_too(builders: Callable[[], Any]) -> None:
    alone = job_of([(3, rank(builders(), 3, 3, [10], world_size=4))])
    assert (alone.missing, alone.straggler) == ((0, 1, 2), None)
    empty = job_of([(0, analyze(builders().build())), (1, analyze(builders().build()))])
    assert (empty.straggler, empty.sites, empty.collectives) == (None, (), 0)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("job")
    for number in (0, 1):
        name = f"distributed_rank{number}_sampled.json.gz"
        import_trace(TRACES / name, folder / f"rank-{number}")
    found = job_of((n, analyze(Recording(folder / f"rank-{n}"))) for n in (0, 1))
    shutil.rmtree(folder)
    return found


def test_traces_of_two_of_128_ranks_name_the_late_one(traced: Job) -> None:
    # Read by hand from the traces: of the ten collectives in each sample the kernels of four
    # end within 0.4 ms of each other on both ranks, two of them in the step that counts; rank 1
    # starts these 22.3 and 1.3 ms after rank 0.
    assert traced.world_size == 128
    assert len(traced.missing) == 126
    assert (traced.collectives, traced.matched) == (5, 2)
    assert traced.straggler is not None
    assert traced.straggler.rank == 1
    assert traced.straggler.others_wait_ns == pytest.approx(23.6 * MS, rel=0.01)
    assert [rank.last for rank in traced.ranks] == [0, 2]
