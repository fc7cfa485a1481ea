"""The files of an attempt on their way into the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import AttemptLost
from lakeward.protocol.attempts.attempt_files import Winner, attempt_folder, rollback_folder, temp_folder
from lakeward.protocol.attempts.folder_fencing import FolderFencing
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus, RenamingStorage
from tests.faults import FaultyStorage
from tests.processes import ScriptedProcesses

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


def fencing(storage: RenamingStorage | None = None) -> FolderFencing:
    return FolderFencing(storage or LocalStorage())


def fence_off(table: Path, *, by: int, storage: RenamingStorage | None = None) -> bool:
    owner = replace(ScriptedProcesses().new_owner(), attempt=by)
    return fencing(storage).fence_off(str(table), str(table), INSTANT, by=owner)


def winners() -> list[Winner]:
    return [
        Winner(partition, name_of(partition + file_id), replaces_base_file=True)
        for file_id in FILE_IDS
        for partition in PARTITIONS
    ]


def test_what_is_moved_in_is_there_for_good(table: Path) -> None:
    """Each folder is synced once, after all files; what is published afterwards cannot outlive them in a power cut."""
    storage = FaultyStorage()
    fencing(storage).bring_in(str(table), attempt_folder(str(table), INSTANT, 7), winners())
    calls = [call.replace(f"{table}/", "") for call in storage.calls]
    assert [call.partition(" ")[0] for call in calls] == ["move"] * 6 + ["sync"] * 2
    assert calls[-2:] == ["sync p", "sync q"]
    for winner in winners():
        assert (table / winner.partition_path / winner.file_name).exists()


def test_markers_are_there_for_good(table: Path) -> None:
    """All winners are in one list, as Hudi's timeline server writes it, which is there before its type says so; and
    both come out of the attempt's folder, as everything."""
    storage = FaultyStorage()
    temp = temp_folder(str(table), INSTANT)
    for number in (7, 7):  # and a second time
        fencing(storage).list_markers(str(table), INSTANT, number, attempt_folder(str(table), INSTANT, 7), winners())
    calls = [call.replace(f"{temp}/", "") for call in storage.calls]
    assert calls[:4] == [
        "create attempt-7/MARKERS7",
        "rename MARKERS7",
        "create attempt-7/MARKERS.type",
        "rename MARKERS.type",
    ]
    assert Path(temp, "MARKERS.type").read_text() == "TIMELINE_SERVER_BASED"
    assert sorted(Path(temp, "MARKERS7").read_text().splitlines()) == sorted(
        f"{winner.partition_path}/{winner.file_name}.marker.MERGE" for winner in winners()
    )
    assert not [name for name in Path(temp, "attempt-7").iterdir() if name.name.startswith("MARKERS")]


def test_an_attempt_that_was_fenced_off_lists_no_markers(table: Path) -> None:
    """Such markers would stay when the instant is long completed."""
    fence_off(table, by=8)
    with pytest.raises(AttemptLost):
        fencing().list_markers(str(table), INSTANT, 7, attempt_folder(str(table), INSTANT, 7), winners())
    assert [path.name for path in Path(temp_folder(str(table), INSTANT)).iterdir()] == ["dead-attempt-7-8"]


def test_a_process_that_still_rolls_back_is_fenced_off(table: Path) -> None:
    """An attempt that begins does so; the folders of attempts stay, for this one may itself be a late one."""
    rolling_back = Path(rollback_folder(str(table), INSTANT, 5))
    rolling_back.mkdir()
    fencing().fence_off_rollbacks(str(table), INSTANT, by=8)
    names = sorted(path.name for path in rolling_back.parent.iterdir())
    assert names == ["attempt-7", "dead-attempt-5-undoing-8"]


def test_a_folder_that_is_gone_need_not_be_put_aside(table: Path) -> None:
    """The process that it belonged to removed it after it was listed."""
    gone = Path(attempt_folder(str(table), INSTANT, 6))
    gone.mkdir()

    class Removing(LocalStorage):
        def list(self, folder: str) -> list[FileStatus]:
            found = super().list(folder)
            if gone.exists():
                gone.rmdir()
            return found

    assert fence_off(table, by=8, storage=Removing())
    assert [path.name for path in Path(temp_folder(str(table), INSTANT)).iterdir()] == ["dead-attempt-7-8"]


def test_nothing_comes_out_of_a_folder_that_is_another_ones(table: Path) -> None:
    """A process that takes the attempt over renames it away first. Keeps 1 of protocol/attempts/folder_fencing."""
    fence_off(table, by=8)
    assert not fencing().holds(attempt_folder(str(table), INSTANT, 7))
    with pytest.raises(AttemptLost):
        fencing().bring_in(str(table), attempt_folder(str(table), INSTANT, 7), winners())
    assert not list(table.glob("?/*.parquet"))
