"""Partitions are the folders that say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.format.timeline.instant import Instant, State
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_system_view import sort_files
from lakeward.table.found_link import FoundLink, StandsFor
from lakeward.table.partition import (
    FoundPartitions,
    Holds,
    UnlistedFolder,
    find_partitions,
    list_partitions,
    nested_partitions,
)
from lakeward.table.timeline.timeline import Timeline
from tests.mounted_storage import Mounted

COMPLETED, PENDING, LATER = "20260101000000000", "20260102000000000", "20260103000000000"
TIMELINE = Timeline(
    (
        Instant(COMPLETED, "deltacommit", State.COMPLETED, COMPLETED, f"{COMPLETED}_{COMPLETED}.deltacommit"),
        Instant(PENDING, "deltacommit", State.REQUESTED, None, f"{PENDING}.deltacommit.requested"),
    )
)


def find(base: Path, storage: Storage | None = None, listed: tuple[str, ...] = ()) -> FoundPartitions:
    return find_partitions(storage or LocalStorage(), str(base), TIMELINE, list_nested=lambda: listed)


@pytest.mark.parametrize("metadata", [".hoodie_partition_metadata", ".hoodie_partition_metadata.parquet"])
def test_partitions_by_either_form_of_metadata(tmp_path: Path, metadata: str) -> None:
    """Paths are kept as they are formatted on disk, whatever is encoded in them; folders without metadata are none."""
    for folder in ("part=a b%2Fü", "2024/01", "2024/02", "日本", "no partition", ".hoodie/.temp"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("x")
        if "no " not in folder:
            (tmp_path / folder / metadata).write_text("x")

    partitions = find(tmp_path).partitions

    assert [partition.path for partition in partitions] == ["2024/01", "2024/02", "part=a b%2Fü", "日本"]
    assert {status.name for partition in partitions for status in partition.files} == {"file", metadata}


def test_an_unpartitioned_table_has_one_partition(tmp_path: Path) -> None:
    """Its path is empty, and nothing below it is read."""
    (tmp_path / ".hoodie_partition_metadata").write_text("x")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / ".hoodie_partition_metadata").write_text("x")

    assert [partition.path for partition in find(tmp_path).partitions] == [""]


def test_an_empty_table_has_none(tmp_path: Path) -> None:
    """Before the first write there is no partition."""
    (tmp_path / ".hoodie").mkdir()
    assert find(tmp_path) == FoundPartitions(())


def make_partitions(base: Path, *paths: str) -> None:
    for path in paths:
        (base / path).mkdir(parents=True)
        (base / path / ".hoodie_partition_metadata").touch()


@pytest.mark.parametrize("base_path", [None, "bound"])
def test_links_are_found_once_and_not_followed(tmp_path: Path, base_path: str | None) -> None:
    """A link in a circle ends the walk no later than no link; a link that is a partition is reported."""
    table = tmp_path / "table"
    make_partitions(table, "p=1", "y/p=2", ".hoodie/p=3")
    make_partitions(tmp_path, "other/p=4")
    for name, target in {
        "here": ".",
        "up": "..",
        "y/again": "../p=1",
        "other": "../other",
        "readme": "p=1/.hoodie_partition_metadata",
        "nowhere": "nothing",
    }.items():
        (table / name).symlink_to(target)

    found = find(table, LocalStorage(base_path and str(table)))

    assert [partition.path for partition in found.partitions] == ["p=1", "y/p=2"]
    stands_for = {link.path: link.stands_for for link in found.links}
    assert [path for path, role in stands_for.items() if role is StandsFor.PARTITION] == [
        "here",
        "other",
        "up",
        "y/again",
    ]
    assert [path for path, role in stands_for.items() if role is StandsFor.NOTHING] == ["nowhere", "readme"]


def test_a_folder_that_is_mounted_twice(tmp_path: Path) -> None:
    """It is entered once, also where it is mounted into itself; the other place is named with the first."""
    make_partitions(tmp_path, "a/p=1", "b/p=2", "b/p=3")
    (tmp_path / "b/p=3/.hoodie_partition_metadata").unlink()
    (tmp_path / "b/p=9").mkdir()
    storage = Mounted({str(tmp_path / "b/p=9"): str(tmp_path / "a/p=1"), str(tmp_path / "b/p=3"): str(tmp_path)})

    found = find(tmp_path, storage)

    assert len({partition.path.rpartition("/")[2] for partition in found.partitions}) == len(found.partitions) == 2
    assert FoundLink("b/p=9", StandsFor.PARTITION, same_as="a/p=1") in found.links
    assert all(link.stands_for is StandsFor.PARTITION and link.same_as is not None for link in found.links)


def test_a_partition_that_is_a_link_is_none_of_those_asked_for(tmp_path: Path) -> None:
    """It is named instead, whether it is the last folder or one above it."""
    table = tmp_path / "table"
    make_partitions(table, "p=1", "y/p=2")
    (table / "p=3").symlink_to("p=1")
    (table / "z").symlink_to("y")
    found = list_partitions(LocalStorage(str(table)), str(table), ["p=1", "p=3", "z/p=2", "p=4"])
    assert [partition.path for partition in found.partitions] == ["p=1"]
    assert [link.path for link in found.links] == ["p=3", "z/p=2"]


def test_links_in_a_partition(tmp_path: Path) -> None:
    """A link with the name of a data file, or of the file that makes the partition one, stands for a file; others do
    not."""
    make_partitions(tmp_path, "p")
    base, log = "a_0-0-0_20260101000000000.parquet", ".a_20260101000000000.log.1_0-0-0"
    for name in (base, log, "x.parquet.tmp", ".hoodie_partition_metadata.parquet", "readme", "folder", "dangling"):
        (tmp_path / "p" / name).symlink_to({"folder": "/tmp", "dangling": "nothing"}.get(name, "/etc/passwd"))

    (partition,) = find(tmp_path).partitions
    files = sort_files("p", partition.files)

    assert (files.base_files, files.log_files, files.unrecognised) == ((), (), ())
    names = {
        role: {link.path.removeprefix("p/") for link in files.links if link.stands_for is role} for role in StandsFor
    }
    assert names[StandsFor.DATA_FILE] == {base, log, "x.parquet.tmp", ".hoodie_partition_metadata.parquet"}
    assert names[StandsFor.NOTHING] == {"readme", "folder", "dangling"}


def put(base: Path, path: str, *instants: str, is_partition: bool = True) -> None:
    (base / path).mkdir(parents=True, exist_ok=True)
    if is_partition:
        (base / path / ".hoodie_partition_metadata").touch()
    for instant in instants:
        (base / path / f"a_0-0-0_{instant}.parquet").touch()


def test_partitions_below_another_one_are_those_that_the_metadata_table_lists(tmp_path: Path) -> None:
    """So are folders of pending writes alone, since no reader sees a row of them; others are unlisted folders."""
    for path in ("p", "p/listed/deep", "p/_bak", "q/.keep"):
        put(tmp_path, path, COMPLETED)
    put(tmp_path, "p/begun", PENDING)
    put(tmp_path, "p/copied", COMPLETED, is_partition=False)
    put(tmp_path, "p/mixed", COMPLETED, PENDING)
    put(tmp_path, "p/unknown", "20251231000000000")
    put(tmp_path, "p/later", LATER)
    put(tmp_path, "p/emptied")
    put(tmp_path, "p/other/.hoodie", is_partition=False)
    put(tmp_path, "p/other/x", COMPLETED)
    (tmp_path / "p/_temporary/0").mkdir(parents=True)

    found = find(tmp_path, listed=("p", "p/listed/deep"))

    assert [each.path for each in found.partitions] == ["p", "p/begun", "p/listed/deep", "q/.keep"]
    unlisted = {folder.path: folder for folder in found.unlisted}
    assert sorted(unlisted) == ["p/_bak", "p/copied", "p/mixed", "p/other", "p/unknown"]
    assert unlisted["p/_bak"] == UnlistedFolder("p/_bak", "p", Holds.DATA_FILES)
    assert unlisted["p/other"] == UnlistedFolder("p/other", "p", Holds.TABLE)


class Listed(LocalStorage):
    def __init__(self) -> None:
        super().__init__()
        self.folders: list[str] = []

    def list(self, folder: str) -> list[FileStatus]:
        self.folders.append(folder.rstrip("/"))
        return super().list(folder)


def test_the_list_is_asked_for_once_and_only_where_it_is_needed(tmp_path: Path) -> None:
    """A table without folders below its partitions costs one listing a folder. Keeps 4 of table/partition."""
    asked: list[str] = []

    def ask() -> tuple[str, ...]:
        asked.append("asked")
        return ()

    for path in ("p/a", "p/b", "q"):
        put(tmp_path, path, COMPLETED)
    storage = Listed()
    find_partitions(storage, str(tmp_path), TIMELINE, list_nested=ask)
    assert (asked, sorted(storage.folders)) == ([], [str(tmp_path / each) for each in ("", "p", "p/a", "p/b", "q")])

    put(tmp_path, "q/x", COMPLETED)
    put(tmp_path, "q/y", COMPLETED)
    find_partitions(storage, str(tmp_path), TIMELINE, list_nested=ask)
    assert asked == ["asked"]


def test_partitions_below_another_one_of_these() -> None:
    """Whatever lies in between; that of an unpartitioned table lies above all."""
    assert nested_partitions(["p", "p/x", "pq", "r/s", "p/y/z"]) == ("p/x", "p/y/z")
    assert nested_partitions(["", "a"]) == ("a",)


def test_the_first_partitions_where_some_files_suffice(tmp_path: Path) -> None:
    """Keeps 5: `a` and what is in it come before `a-b`; no folder behind those that are enough is looked into."""
    make_partitions(tmp_path, "a/x", "a/y", "a-b", "b")
    for path in ("a/x", "a/y", "a-b", "b"):
        (tmp_path / path / "one").touch()
    listed: list[str] = []

    class Seen(LocalStorage):
        def list(self, folder: str) -> list[FileStatus]:
            listed.append(folder.removeprefix(str(tmp_path)).lstrip("/"))
            return super().list(folder)

    found = find_some(tmp_path, 3, Seen())
    assert [each.path for each in found.partitions] == ["a/x", "a/y"] and not found.is_whole
    assert "b" not in listed
    assert find_some(tmp_path, 100, Seen()) == find(tmp_path)


def find_some(base: Path, files_enough: int, storage: Storage) -> FoundPartitions:
    timeline = Timeline((), (), (), ())
    return find_partitions(storage, str(base), timeline, list_nested=frozenset, files_enough=files_enough)
