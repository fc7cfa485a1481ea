"""The files of an attempt on their way into the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.commit.attempt import Attempt, Winner, attempt_folder, put_aside, strays, undoing_folder
from lakeward.errors import AttemptLost
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from tests.faults import FaultyStorage

INSTANT = "20270101000000000"
PARTITIONS = ("p", "q")
FILE_IDS = ("a-0", "b-0", "c-0")


def name_of(file_id: str, *, token: str = "0-7-0", instant: str = INSTANT) -> str:
    return f"{file_id}_{token}_{instant}.parquet"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """With an attempt's folder, in which every group of both partitions has a file."""
    folder = Path(attempt_folder(str(tmp_path), INSTANT, 7))
    folder.mkdir(parents=True)
    for partition in PARTITIONS:
        (tmp_path / partition).mkdir()
        for file_id in FILE_IDS:
            (folder / name_of(partition + file_id)).touch()
    return tmp_path


def winners() -> list[Winner]:
    return [
        Winner(partition, name_of(partition + file_id), replaces_base_file=True)
        for file_id in FILE_IDS
        for partition in PARTITIONS
    ]


def test_what_is_moved_in_is_there_for_good(table: Path) -> None:
    """Each folder is synced once, after all files; what is published afterwards cannot outlive them in a power cut."""
    storage = FaultyStorage()
    Attempt(storage, str(table), INSTANT, 7).move_in(winners())
    calls = [call.replace(f"{table}/", "") for call in storage.calls]
    assert [call.partition(" ")[0] for call in calls] == ["move"] * 6 + ["sync"] * 2
    assert calls[-2:] == ["sync p", "sync q"]
    for winner in winners():
        assert (table / winner.partition_path / winner.file_name).exists()


def test_markers_are_there_for_good(table: Path) -> None:
    """One for each winner, and each folder of them is synced once: all of them are there before a file moves in."""
    storage = FaultyStorage()
    Attempt(storage, str(table), INSTANT, 7).write_markers(winners())
    calls = [call.replace(f"{table}/.hoodie/.temp/{INSTANT}/", "") for call in storage.calls]
    assert [call.partition(" ")[0] for call in calls] == ["make_folder"] * 2 + ["mark"] * 6 + ["sync"] * 2
    assert calls[-2:] == ["sync p", "sync q"]
    markers = [path.relative_to(table) for path in table.rglob("*.marker.MERGE")]
    assert sorted(f"{path.parent.name}/{path.name}" for path in markers) == sorted(
        f"{winner.partition_path}/{winner.file_name}.marker.MERGE" for winner in winners()
    )


def test_who_still_takes_an_earlier_attempt_back_is_shut_out(table: Path) -> None:
    """By an attempt that begins; the folders of attempts stay, for this one may itself be a late one."""
    undoing = Path(undoing_folder(str(table), INSTANT, 5))
    undoing.mkdir()
    Attempt(FaultyStorage(), str(table), INSTANT, 8).start()
    names = sorted(path.name for path in undoing.parent.iterdir())
    assert names == ["attempt-7", "attempt-8", "dead-attempt-5-undoing-8"]


def test_a_folder_that_is_gone_need_not_be_put_aside(table: Path) -> None:
    """Whoever it belonged to removed it after it was listed."""
    gone = Path(attempt_folder(str(table), INSTANT, 6))
    gone.mkdir()

    class Removing(LocalStorage):
        def list(self, folder: str) -> list[FileStatus]:
            found = super().list(folder)
            if gone.exists():
                gone.rmdir()
            return found

    aside = put_aside(Removing(), str(table), INSTANT, by=8)
    assert [path.rpartition("/")[2] for path in aside] == ["dead-attempt-7-8"]


def test_nothing_comes_out_of_a_folder_that_is_another_ones(table: Path) -> None:
    """Whoever takes the attempt over renames it away first."""
    folder = Path(attempt_folder(str(table), INSTANT, 7))
    folder.rename(folder.with_name("dead"))
    with pytest.raises(AttemptLost):
        Attempt(FaultyStorage(), str(table), INSTANT, 7).move_in(winners())
    assert not list(table.glob("?/*.parquet"))


def test_strays_are_of_the_instant_and_of_the_plan(table: Path) -> None:
    """Base files and logs alike; neither another instant's, nor a file of another group, nor one that is kept."""
    kept, stray = name_of("a-0"), name_of("a-0", token="0-7-1")
    log = f".a-0_{INSTANT}.log.1_0-7-0"
    others = (name_of("a-0", instant="20260101000000000"), name_of("z-0"), f"{INSTANT}.parquet", f"{stray}.crc")
    for name in (kept, stray, log, *others):
        (table / "p" / name).touch()
    (table / "q" / stray).touch()
    found = strays(FaultyStorage(), str(table), INSTANT, [("p", "a-0")], keep=frozenset({kept}))
    assert [status.path for status in found] == [f"{table}/p/{log}", f"{table}/p/{stray}"]
