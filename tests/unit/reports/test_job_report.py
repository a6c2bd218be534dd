"""The reports of a job: who is slow, why, and what each line costs on each rank."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from syncscope.analysis.job import Job, JobSite, RankCost, RankFigures, Straggler
from syncscope.analysis.spread import Spread
from syncscope.reports.job_html import render_job_html, write_job_html
from syncscope.reports.job_text import render_job_text
from syncscope.reports.json_report import record_json

MS = 1_000_000


def rank(number: int) -> RankFigures:
    return RankFigures(
        rank=number, device="NVIDIA H200", steps=10,
        step=Spread(20.0 * MS, 19.0 * MS, 21.0 * MS, 10), idle_fraction=0.25,
        idle_by_cause_ns={"launch": 5.0 * MS}, blocked_ns=2.0 * MS, compute_ns=8.0 * MS,
        collective_ns=7.0 * MS, waited_ns=1.0 * MS, made_wait_ns=2.0 * MS, last=4,
    )  # fmt: skip


def site(ranks: int, expression: str = "loss.item()") -> JobSite:
    costs = tuple(RankCost(n, 10, n * MS, 10 * MS) for n in range(ranks))
    return JobSite(
        "train.py", 7, "train", expression, "sync", "scalar_readback", True, "fix", costs
    )


def job(ranks: int = 2, **changes: object) -> Job:
    made = Job(
        argv=("train.py",), simulated=False, same_command=True, world_size=ranks, missing=(),
        ranks=tuple(rank(n) for n in range(ranks)), collectives=12, matched=12,
        straggler=Straggler(1, "arrivals", 2.0 * MS, "compute", 3.0 * MS), sites=(site(ranks),),
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def test_the_slow_rank_is_named_with_its_reason() -> None:
    text = render_job_text(job())
    assert "Rank 1 is the slow one: the other one waits 2 ms a step." in text
    assert "It came last to 4 of the 12 collectives compared." in text
    assert "Its GPU computes for 3 ms more a step." in text
    assert re.search(r"\n1 +NVIDIA H200 +10 +20 ms \[19 ms .. 21 ms\] +25 % +8 ms +7 ms", text)
    assert "costs a step: rank 0: 0 ms, rank 1: 1 ms" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"straggler": None}, "no rank keeps the others waiting"),
        ({"straggler": None, "collectives": 0}, "who waits for whom is not known"),
        ({"straggler": None, "simulated": True}, "who would wait for whom is not simulated"),
        ({"straggler": Straggler(1, "waits", 2.0 * MS, "", 0.0)}, "take least time"),
        ({"straggler": Straggler(1, "waits", 2.0 * MS, "", 0.0)}, "Nothing that was recorded"),
        ({"straggler": Straggler(1, "waits", MS, "dataloader", MS)}, "waiting for the DataLoader"),
        ({"missing": (2, 3)}, "No recording here of rank 2, 3."),
        ({"missing": tuple(range(2, 99))}, "rank 2, 3, 4, 5, 6, 7, 8, 9 and 89 more."),
        ({"same_command": False}, "different commands"),
        ({"matched": 3}, "3 of 12 collectives were found on all ranks"),
        ({"sites": ()}, "No line was flagged on any rank."),
    ],
)
def test_what_is_known_and_what_is_not(changes: dict[str, object], words: str) -> None:
    made = job(**changes)
    assert words in " ".join(render_job_text(made).split())
    assert words.replace("'", "&#39;") in render_job_html(made, {})


def test_many_ranks_are_summed_up() -> None:
    text = render_job_text(job(16, sites=(site(9),)))
    assert "the others wait 2 ms" in text
    assert "costs a step: 0 ms (rank 0) to 8 ms (rank 8), on 9 of 16 ranks" in text


def test_more_lines_than_fit_are_counted() -> None:
    text = render_job_text(job(sites=tuple(site(2, f"x{n}.item()") for n in range(14))))
    assert "4 more flagged lines not shown." in text


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    odd = "</script><b>\x1b[31m\u202e'\"🐍\udcff"
    made = job(argv=(odd,), sites=(replace(site(2, odd * 300), file=odd, function=odd),))
    text, page = render_job_text(made), render_job_html(made, {})
    assert not (set(text) | set(page)) & set("\x1b\u202e\udcff")
    assert "<script" not in page
    assert not re.search(r"(src|href)=|url\(|@import", page)
    write_job_html(made, {}, tmp_path / "job.html")
    assert json.loads(record_json(made))["ranks"][1]["rank"] == 1
