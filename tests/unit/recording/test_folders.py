"""Where recordings go: numbered folders, and the folder that the ranks of a job share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from syncscope.errors import UsageError
from syncscope.recording.folders import (
    holds_events,
    rank_and_size,
    rank_folders,
    recording_folder,
    recordings_in,
)
from syncscope.recording.manifest import MANIFEST_NAME, Manifest, write_manifest


def ranks(size: int, **environ: str) -> list[dict[str, str]]:
    return [{"RANK": str(rank), "WORLD_SIZE": str(size), **environ} for rank in range(size)]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("rank", "size", "expected"),
    [
        ("3", "8", (3, 8)),
        ("0", "1", (0, 1)),
        ("", "8", (0, 1)),
        ("8", "8", (0, 1)),
        ("-1", "8", (0, 1)),
        ("one", "two", (0, 1)),
        ("²", "8", (0, 1)),
        ("1", "9" * 30, (0, 1)),
    ],
)
def test_rank_and_size_are_those_of_torchrun(
    rank: str, size: str, expected: tuple[int, int]
) -> None:
    assert rank_and_size({"RANK": rank, "WORLD_SIZE": size}) == expected
    assert rank_and_size({}) == (0, 1)


def test_a_run_alone_goes_where_it_was_told_or_into_the_next_number() -> None:
    assert recording_folder("train", Path("here"), {}) == Path("here")
    assert recording_folder("train", None, {}) == Path("syncscope-runs/train-1")
    Path("syncscope-runs/train-1").mkdir(parents=True)
    assert recording_folder("train", None, {"RANK": "0", "WORLD_SIZE": "1"}).name == "train-2"


@pytest.mark.parametrize(
    "environ",
    [
        {"TORCHELASTIC_RUN_ID": "7a9", "MASTER_PORT": "4711"},
        {"TORCHELASTIC_RUN_ID": "none", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "3"},
        {"MASTER_ADDR": "node1", "MASTER_PORT": "29500", "LOCAL_WORLD_SIZE": "1"},
        {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": "0"},
        {},
    ],
)
def test_all_ranks_find_the_same_folder_again_and_again(environ: dict[str, str]) -> None:
    jobs = []
    for _ in range(3):
        folders = []
        for rank in ranks(3, **environ):  # each one after the other has made its folder
            folder = recording_folder("train", None, rank)
            folder.mkdir(parents=True)
            folders.append(folder)
        assert [folder.name for folder in folders] == ["rank-0", "rank-1", "rank-2"]
        (job,) = {folder.parent for folder in folders}
        jobs.append(job)
    assert len(set(jobs)) == 3
    assert all(job.parent == Path("syncscope-runs") for job in jobs)


def test_other_jobs_go_elsewhere() -> None:
    one, other = (
        recording_folder("train", None, ranks(2, TORCHELASTIC_RUN_ID=name)[0])
        for name in ("one", "other")
    )
    assert one.parent != other.parent


def test_a_restarted_job_does_not_write_into_the_one_that_failed() -> None:
    first, second = (
        recording_folder("train", Path("runs/a"), ranks(2, TORCHELASTIC_RESTART_COUNT=count)[1])
        for count in ("0", "1")
    )
    assert (first, second) == (Path("runs/a/rank-1"), Path("runs/a-restart-1/rank-1"))
    assert recording_folder("t", Path("."), ranks(2)[1]) == Path("rank-1")


def test_ranks_do_not_write_into_a_recording() -> None:
    Path("run").mkdir()
    Path("run", MANIFEST_NAME).write_text("{}")
    with pytest.raises(UsageError, match="not empty"):
        recording_folder("train", Path("run"), ranks(2)[1])


def test_a_job_is_told_from_a_recording_by_its_manifest() -> None:
    for rank in ("rank-10", "rank-2", "rank-0", "rank-x", "other"):
        Path("job", rank).mkdir(parents=True)
        Path("job", rank, MANIFEST_NAME).write_text("{}")
    Path("job", "rank-3").mkdir()  # began, and has written nothing
    assert list(rank_folders(Path("job"))) == [0, 2, 10]
    Path("job", MANIFEST_NAME).write_text("{}")
    assert rank_folders(Path("job")) == {}
    assert rank_folders(Path("missing")) == {}
    assert rank_folders(Path("job", "rank-0", MANIFEST_NAME)) == {}


def test_a_long_name_and_odd_bytes_still_make_a_folder() -> None:
    odd = os.fsdecode(b"\xff")
    folder = recording_folder("x" * 500, None, ranks(2, TORCHELASTIC_RUN_ID=odd)[0])
    assert len(folder.parent.name) < 100


def begun(folder: str, time_s: float) -> None:
    Path(folder).mkdir(parents=True)
    manifest = Path(folder, MANIFEST_NAME)
    manifest.write_text("{}")
    os.utime(manifest, (time_s, time_s))


def test_the_latest_recording_of_a_folder_may_be_a_job() -> None:
    begun("runs/a-1", 30)
    begun("runs/job/rank-0", 20)
    begun("runs/job/rank-1", 40)
    Path("runs/notes.txt").write_text("no recording")
    assert recordings_in(Path("runs")) == [Path("runs/job"), Path("runs/a-1")]
    assert recordings_in(Path("runs/a-1")) == [Path("runs/a-1")]
    assert recordings_in(Path("runs/job")) == [Path("runs/job")]


def test_a_folder_without_recordings_has_none() -> None:
    Path("empty").mkdir()
    assert recordings_in(Path("empty")) == []
    assert recordings_in(Path("missing")) == []


@pytest.mark.parametrize(
    ("table", "expected"),
    [("steps.parquet", True), ("blocking.arrows", True), ("host.parquet", False), ("", False)],
)
def test_a_recording_holds_something_once_a_step_or_a_call_has_a_file(
    table: str, expected: bool
) -> None:
    begun("runs/a", 1)
    begun("runs/job/rank-0", 1)
    begun("runs/job/rank-1", 1)
    for folder in ("runs/a/rank-0", "runs/job/rank-1/rank-0"):
        Path(folder).mkdir()
        if table:
            Path(folder, table).write_bytes(b"")
    assert holds_events(Path("runs/a")) == expected
    assert holds_events(Path("runs/job")) == expected


def test_a_numbered_folder_is_the_first_without_a_recording() -> None:
    def chosen(name: str = "runs/a") -> Path:
        return recording_folder("train", Path(name), {}, numbered=True)

    Path("runs/a").mkdir(parents=True)
    assert chosen() == Path("runs/a")
    begun("runs/a/rank-0", 1)  # a job
    assert chosen() == Path("runs/a-2")
    begun("runs/a-2", 1)
    assert chosen() == Path("runs/a-3")
    begun("here", 1)
    os.chdir("here")
    assert chosen(".").name == "here-2"


def test_ranks_agree_on_a_numbered_folder_whatever_ran_before() -> None:
    for number, size in enumerate((2, 2, 4, 3, 4), 1):
        expected = Path("runs/a" if number == 1 else f"runs/a-{number}")
        for rank, environ in enumerate(ranks(size)):
            folder = recording_folder("train", Path("runs/a"), environ, numbered=True)
            assert folder == expected / f"rank-{rank}"
            folder.mkdir(parents=True)
            write_manifest(
                folder, Manifest("r", (), True, False, 0, {}, rank=rank, world_size=size)
            )
