"""A table that is listed by its metadata table is merged as the storage has it, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.format.metadata.record import FileEntry, FilesRecord
from lakeward.table.damaged_file import DamageKind
from lakeward.table.listing_source import ListingSource, listing_source
from tests.crash.compacting import instants
from tests.golden_tables import copy_golden, expected_rows
from tests.metadata_golden import GOLDEN
from tests.our_reader import read_rows
from tests.services.bench import Bench
from tests.services.verification.metadata_damage import change_record


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden(GOLDEN, tmp_path / "table"))


def test_both_listings_make_the_same_plan(bench: Bench, tmp_path: Path) -> None:
    """A plan does not show by which listing a table was compacted, if the metadata table is in step."""
    other = Bench(copy_golden(GOLDEN, tmp_path / "other"))
    stored = other.compactor(listing=ListingSource.STORAGE).compact().outcome
    listed = bench.compactor(listing=ListingSource.METADATA).compact().outcome
    assert listed.operations == stored.operations != ()
    assert read_rows(bench.base) == read_rows(other.base) == expected_rows(GOLDEN)


@pytest.mark.parametrize(
    ("damage", "kind"),
    [("a log file is not listed", DamageKind.MISSING), ("a file that is gone is listed", DamageKind.ORPHAN)],
)
def test_a_group_that_the_listing_has_wrong_is_in_no_plan(bench: Bench, damage: str, kind: DamageKind) -> None:
    """A plan would miss rows for good, or name files that do not exist: the group is frozen, and no instant begins.
    The Keeps of services/compaction/run/group_selection."""

    def is_partition(record: object) -> bool:
        return isinstance(record, FilesRecord) and not record.is_all_partitions

    def changed(record: FilesRecord) -> FilesRecord:
        log = max(name for name in record.entries if name.startswith("."))
        if damage == "a log file is not listed":
            return replace(record, entries={log: FileEntry(0, is_deleted=True)})
        name, _, token = log.rpartition("_")
        return replace(record, entries={f"{name}_9{token}": record.entries[log]})

    change_record(bench.base, "files", is_partition, changed)  # type: ignore[arg-type]
    before = instants(bench.base)
    report = bench.compactor(listing=ListingSource.METADATA).compact()
    assert kind in {file.kind for file in report.damage}
    assert instants(bench.base) == before
    bench.compactor(listing=ListingSource.STORAGE).compact()


def test_a_group_that_only_the_storage_shows_as_damaged_is_in_no_plan(bench: Bench) -> None:
    """The metadata table lists no orphan log, so the group is chosen, and left out before any plan is written."""
    before = instants(bench.base)
    for log in [path for path in bench.base.rglob(".*.log.*") if ".hoodie" not in path.parts]:
        name, _, token = log.name.rpartition("_")
        (log.parent / f"{name}_9{token}").write_bytes(log.read_bytes())
    report = bench.compactor(listing=ListingSource.METADATA).compact()
    assert {file.kind for file in report.damage} == {DamageKind.ORPHAN}
    assert instants(bench.base) == before


def test_object_stores_are_listed_by_the_metadata_table() -> None:
    """File systems are listed by their folders."""
    assert listing_source("s3://lake/t") is ListingSource.METADATA
    assert listing_source("/lake/t") is ListingSource.STORAGE
