"""From the files of a commit to records of the metadata table."""

from __future__ import annotations

import random
from dataclasses import replace

from lakeward.format.file_name import LogFileName
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key, file_group_index
from lakeward.format.metadata.merge import merge_records
from lakeward.format.metadata.record import ColumnStatsRecord, FileEntry, FilesRecord
from lakeward.protocol.metadata.changes import (
    DeletedFile,
    NewFile,
    bloom_filter_sources,
    by_file_group,
    column_stats_records,
    counting_files,
    deleted_filters,
    deleted_stats,
    files_records,
)
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile

BASE = "g1-0_0-1-0_20260101000000050.parquet"
LOG = ".g2-0_20260101000000050.log.1_0-1-0"
INSTANT = "20260101000000050"


def new_file(name: str, *, partition: str = "p", file_id: str = "g1-0", size: int = 10) -> NewFile:
    stats = ColumnStatsRecord(
        file_name=name,
        column="ts",
        min_value=1,
        max_value=2,
        value_count=2,
        null_count=0,
        total_size=0,
        total_uncompressed_size=0,
    )
    return NewFile(partition, file_id, name, size, (stats,))


def slice_of(instant: str, *, base: bool = True, logs: tuple[str, ...] = (), file_id: str = "g1-0") -> FileSlice:
    name = f"{file_id}_0-0-0_{instant}.parquet"
    base_file = BaseFile(file_id, instant, name, "p", 1, "0-0-0") if base else None
    log_files = tuple(LogFile(LogFileName(file_id, log, 1, "0-0-0"), "p", 1) for log in logs)
    return FileSlice("p", file_id, instant, base_file, log_files)


def test_new_files_are_listed():
    """Each touched partition is listed with its new files and their sizes, and all of them in the record of
    partitions."""
    records = files_records([new_file(BASE), new_file(LOG, file_id="g2-0", size=7), new_file(BASE, partition="")])

    assert records == {
        "__all_partitions__": FilesRecord({"p": FileEntry(0), ".": FileEntry(0)}, is_all_partitions=True),
        "p": FilesRecord({BASE: FileEntry(10), LOG: FileEntry(7)}),
        ".": FilesRecord({BASE: FileEntry(10)}),
    }


def test_statistics_are_found_by_column_partition_and_file():
    """There is a record for each file and column, and bloom filters of base files alone."""
    files = [new_file(BASE), new_file(LOG, file_id="g2-0")]

    assert set(column_stats_records(files)) == {column_stats_key("ts", "p", name) for name in (BASE, LOG)}
    assert bloom_filter_sources(files) == {bloom_filter_key("p", BASE): files[0]}


def test_entries_go_to_the_group_of_their_hash_in_the_order_of_their_bytes():
    """This is so for any keys and any number of groups. Keeps 1 of protocol/metadata/changes."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    keys = {"".join(chance.choices("aé鍵😀\uffff01", k=chance.randint(1, 6))) for _ in range(500)}
    for count in (1, 2, 7):
        groups = by_file_group({key: key for key in keys}, count)
        assert sorted(key for group in groups.values() for key, _ in group) == sorted(keys)
        for index, group in groups.items():
            assert {file_group_index(key, count) for key, _ in group} == {index}
            found = [key.encode() for key, _ in group]
            assert found == sorted(found)


def test_a_new_base_file_counts_in_place_of_what_was_merged():
    """The logs that came since the plan was made count beside it."""
    group = FileGroup("p", "g1-0", (slice_of(INSTANT, base=False, logs=("60",)), slice_of("10", logs=("20",))))

    assert counting_files([group], [new_file(BASE)], instant=INSTANT) == {"p": [BASE, ".g1-0_60.log.1_0-0-0"]}


def test_a_log_of_changes_is_listed_and_counts_for_nothing():
    """Neither a new one, wherever it stands among the new files, nor those of the slice. Keeps 2 of
    protocol/metadata/changes."""
    old, new = LogFileName("g1-0", "10", 1, "0-0-0", ".cdc"), LogFileName("g1-0", INSTANT, 1, "0-0-0", ".cdc").text
    before = slice_of("10", logs=("20",))
    group = FileGroup("p", "g1-0", (replace(before, log_files=(LogFile(old, "p", 1), *before.log_files)),))
    files = [new_file(BASE), new_file(new)]

    assert files_records(files)["p"] == FilesRecord({BASE: FileEntry(10), new: FileEntry(10)})
    for each in (files, files[::-1]):
        assert counting_files([group], each, instant=INSTANT) == {"p": [BASE]}
    log = new_file(LogFileName("g1-0", "30", 1, "0-0-0").text)
    (names,) = counting_files([group], [log], instant="30").values()
    assert not [name for name in names if name.endswith(".cdc")]


def test_a_new_log_counts_beside_all_that_is_there():
    """It counts beside those that it was merged from, too, which are still in the slice. Keeps 2 of
    protocol/metadata/changes."""
    group = FileGroup("p", "g2-0", (slice_of("10", logs=("20", "30"), file_id="g2-0"),))

    (found,) = counting_files([group], [new_file(LOG, file_id="g2-0")], instant=INSTANT).values()
    logs = [".g2-0_20.log.1_0-0-0", ".g2-0_30.log.1_0-0-0"]
    assert sorted(found) == sorted([LOG, *logs, "g2-0_0-0-0_10.parquet"])


def test_of_other_groups_the_newest_slice_counts():
    """The one before it counts, too, as long as that one has no base file. Other partitions do not matter."""
    groups = [
        FileGroup("p", "a-0", (slice_of("30", file_id="a-0"), slice_of("10", logs=("20",), file_id="a-0"))),
        FileGroup("p", "b-0", (slice_of("30", base=False, logs=("40",), file_id="b-0"), slice_of("10", file_id="b-0"))),
        FileGroup("q", "c-0", (slice_of("30", file_id="c-0"),)),
    ]

    (found,) = counting_files(groups, [new_file(BASE)], instant=INSTANT).values()
    assert sorted(found) == sorted([BASE, "a-0_0-0-0_30.parquet", ".b-0_40.log.1_0-0-0", "b-0_0-0-0_10.parquet"])


def test_deleted_files_are_taken_out():
    """A clean's records take a file out of the listing of its partition, and what is known of it with it; the record of
    partitions is not among them. Keeps 3 of protocol/metadata/changes."""
    gone = [DeletedFile("p", BASE), DeletedFile("p", LOG), DeletedFile("", BASE)]

    assert files_records([], gone) == {
        "p": FilesRecord({BASE: FileEntry(0, is_deleted=True), LOG: FileEntry(0, is_deleted=True)}),
        ".": FilesRecord({BASE: FileEntry(0, is_deleted=True)}),
    }
    wanted = {column_stats_key(column, file.partition_path, file.name) for file in gone for column in ("ts", "v")}
    assert set(deleted_stats(gone, ["ts", "v"])) == wanted
    assert set(deleted_filters(gone)) == {bloom_filter_key("p", BASE), bloom_filter_key("", BASE)}


def test_a_listing_without_deleted_files_is_what_it_was():
    """What a commit lists and a clean takes out again leaves nothing, whatever else is in the partition."""
    (listed,) = (files_records([new_file(BASE), new_file(LOG, file_id="g2-0")])["p"],)
    left = merge_records(listed, files_records([], [DeletedFile("p", BASE)])["p"], where="files")

    assert left == files_records([new_file(LOG, file_id="g2-0")])["p"]
