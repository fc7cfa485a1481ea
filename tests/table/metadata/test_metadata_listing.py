"""Partitions and files from the metadata table, in place of listing the storage, and where the two differ."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.metadata.key import ALL_PARTITIONS
from lakeward.format.metadata.record import ColumnStatsRecord, FileEntry, FilesRecord, RecordIndexRecord
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from lakeward.table.metadata.metadata_listing import (
    DifferenceKind,
    MetadataListing,
    compare_with_storage,
    find_differences,
    load_listing,
)
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline import load_timeline
from tests.clocks import SkippingClock
from tests.golden_tables import GOLDEN
from tests.table.metadata.metadata_files import (
    MetadataFiles,
    all_partitions,
    base_name,
    files,
    log_name,
    put,
    time,
    written_twice,
)
from tests.table.timeline.test_timeline import timeline


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path)


def listing(table: MetadataFiles) -> MetadataListing:
    storage = LocalStorage()
    return load_listing(storage, str(table.base), table.config, table.timeline(), clock=SkippingClock())


def test_partitions_and_files_are_those_of_completed_writes(table: MetadataFiles):
    """They come by name, with their sizes and where they lie."""
    written_twice(table)
    found = listing(table)

    assert found.partitions() == ("a/b", "p=1")
    assert found.files("p=1") == [
        FileStatus(f"{table.base}/p=1/{name}", 10, 0.0, False) for name in (log_name("04"), base_name("01"))
    ]
    assert found.files("no such partition") == []


def test_the_one_partition_of_an_unpartitioned_table_is_empty_text(table: MetadataFiles):
    """The metadata table writes it as a dot."""
    table.delta("01", "02", files={ALL_PARTITIONS: all_partitions("."), ".": files(**{base_name("01"): 10})})

    assert listing(table).partitions() == ("",)
    assert [status.path for status in listing(table).files("")] == [f"{table.base}/{base_name('01')}"]


def test_what_is_deleted_is_not_listed(table: MetadataFiles):
    """Files and partitions, also where the deletion is all that there is."""
    table.delta("01", "02", files={
        ALL_PARTITIONS: FilesRecord({"p": FileEntry(0), "q": FileEntry(0, True)}, is_all_partitions=True),
        "p": files(**{base_name("01"): None, log_name("01"): 3}),
    })  # fmt: skip

    assert listing(table).partitions() == ("p",)
    assert [status.name for status in listing(table).files("p")] == [log_name("01")]


def test_a_table_without_writes_has_no_partitions(table: MetadataFiles):
    """There is no record of any then."""
    table.delta("01", "02", files={})
    assert listing(table).partitions() == ()


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", ".", "a\\b", "x\n"])
def test_names_that_could_lead_elsewhere_are_refused(table: MetadataFiles, name: str):
    """A process that opens or deletes a file of this listing stays inside of the partition."""
    table.delta("01", "02", files={"p": files(**{name: 1})})
    with pytest.raises(UntrustedName):
        listing(table).files("p")


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", ".hoodie/x", "."])
def test_partitions_that_could_lead_elsewhere_are_refused(table: MetadataFiles, path: str):
    """They could lead out of the table, or into its metadata. A dot is the one partition of a table that has no
    others."""
    table.delta("01", "02", files={ALL_PARTITIONS: all_partitions(path, "p")})
    with pytest.raises(UntrustedName):
        listing(table).partitions()


def test_a_record_of_another_kind_is_broken(table: MetadataFiles):
    """The list of partitions is no list of files."""
    table.delta("01", "02", files={"p": all_partitions("q"), ALL_PARTITIONS: files(a=1)})
    with pytest.raises(BrokenFile, match="list of files"):
        listing(table).files("p")
    with pytest.raises(BrokenFile, match="list of files"):
        listing(table).partitions()


def test_equal_listings_do_not_differ(table: MetadataFiles):
    """Files of pending writes are in the storage only."""
    written_twice(table)
    found = listing(table)
    assert compare_with_storage(LocalStorage(), str(table.base), found, found.partitions(), table.timeline()) == ()


def test_every_difference_has_its_kind(table: MetadataFiles):
    """What readers would miss, what they would fail on, and what they would read wrongly."""
    written_twice(table)
    put(table, "p=1", base_name("01", "lost"))
    (table.base / "p=1" / log_name("04")).write_bytes(b"x" * 11)
    (table.base / "a" / "b" / base_name("01", "f2")).unlink()
    found = listing(table)

    different = compare_with_storage(LocalStorage(), str(table.base), found, ["p=1", "a/b"], table.timeline())
    assert [(d.partition_path, d.name, d.kind, d.listed_size, d.stored_size) for d in different] == [
        ("a/b", base_name("01", "f2"), DifferenceKind.NOT_STORED, 10, None),
        ("p=1", log_name("04"), DifferenceKind.OTHER_SIZE, 10, 11),
        ("p=1", base_name("01", "lost"), DifferenceKind.NOT_LISTED, None, 10),
    ]


def test_files_of_archived_instants_must_be_listed():
    """They completed before everything that the timeline still has."""
    known = timeline(f"{time('05')}_{time('06')}.commit")
    stored = [FileStatus(f"/t/{base_name(number)}", 10, 1.0, False) for number in ("03", "05", "07")]

    different = find_differences("", [], stored, known)
    assert {d.name for d in different} == {base_name("03"), base_name("05")}


def test_native_logs_must_be_listed_in_the_version_that_has_them():
    """In others such a file is no file of the table, and is refused by its name."""
    known = timeline(f"{time('05')}_{time('06')}.deltacommit")
    names = [f"f1_0-0-0_{time(number)}_1.{kind}.parquet" for number in ("05", "07") for kind in ("log", "deletes")]
    stored = [FileStatus(f"/t/{name}", 10, 1.0, False) for name in names]

    assert [d.name for d in find_differences("", [], stored, known, native=True)] == sorted(names[:2])
    assert find_differences("", [], stored, known) == ()


def test_a_table_of_the_oldest_supported_version(tmp_path: Path):
    """Written by Hudi 1.0.2: its listing is the storage's, its record index says where its query finds each row."""
    with tarfile.open(GOLDEN / "v8_metadata" / "table.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = json.loads((GOLDEN / "v8_metadata" / "expected.json").read_text())
    storage, clock = LocalStorage(), SkippingClock()
    config = load_table_config(storage, str(tmp_path), clock=clock).config
    found = load_metadata_table(
        storage, str(tmp_path), config, load_timeline(storage, str(tmp_path), config), clock=clock
    )
    reader = MetadataReader(storage, found)
    listed = MetadataListing(reader, str(tmp_path))

    assert {path: {s.name: s.size for s in listed.files(path)} for path in listed.partitions()} == expected["files"]
    for partition in found.slices:
        records = dict(reader.scan(partition))
        assert reader.lookup(partition, records) == records
    rows = {key: record for key, record in reader.scan("record_index") if isinstance(record, RecordIndexRecord)}
    assert {key: [row.partition, row.file_id] for key, row in rows.items()} == expected["locations"]
    stats = [record for _, record in reader.scan("column_stats") if isinstance(record, ColumnStatsRecord)]
    assert {record.file_name for record in stats} == {name for names in expected["files"].values() for name in names}
