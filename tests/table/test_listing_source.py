"""A table scanned by its metadata table is the table scanned by its storage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.storage.local import LocalStorage
from lakeward.table.listing_source import ListingSource
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.watching.incremental_view import IncrementalView
from tests.clocks import SkippingClock
from tests.table.metadata.metadata_files import MetadataFiles, log_name, written_twice


@pytest.fixture
def table(tmp_path: Path) -> MetadataFiles:
    return MetadataFiles(tmp_path)


def snapshot(table: MetadataFiles, source: ListingSource, **options: Any) -> TableSnapshot:
    return take_snapshot(
        LocalStorage(),
        str(table.base),
        timezone="UTC",
        clock=SkippingClock(),
        listing=source,
        **options,
    )


def committed(snapshot: TableSnapshot) -> TableSnapshot:
    return replace(snapshot, uncommitted_files=())


def test_a_snapshot_is_the_same_but_for_files_that_no_reader_sees(table: MetadataFiles):
    """Slices, partitions and all the rest do not show where the names came from."""
    written_twice(table)
    stored, listed = (snapshot(table, source) for source in ListingSource)

    assert stored.uncommitted_files == (f"p=1/{log_name('07')}",)
    assert listed == committed(stored)
    assert len(listed.latest_slices) == 2


def test_a_snapshot_of_some_groups_asks_for_their_partitions_only(table: MetadataFiles):
    """One of them may be no partition, or not yet."""
    written_twice(table)
    only = {("p=1", "f1"), ("new", "f9")}
    stored, listed = (snapshot(table, source, only=only) for source in ListingSource)

    assert listed == committed(stored)
    assert listed.partitions == ("p=1",)


@pytest.mark.parametrize("source", ListingSource)
def test_partitions_are_listed_until_their_files_are_enough(table: MetadataFiles, source: ListingSource):
    """What is known of them is what a snapshot of these partitions has."""
    written_twice(table)
    first, both = (snapshot(table, source, files_enough=files) for files in (1, 100))

    assert (first.partitions, first.is_whole) == (both.partitions[:1], False)
    assert replace(first, is_whole=True) == snapshot(table, source, partitions=first.partitions)
    assert both == snapshot(table, source) and both.is_whole


def test_a_table_without_a_metadata_table_is_listed(table: MetadataFiles):
    """Nothing is asked that is not there, and nothing is read that is left over."""
    written_twice(table)
    properties = {**table.config.properties, "hoodie.table.metadata.partitions": ""}
    table.set_properties(table.base, properties)
    stored, listed = (snapshot(table, source) for source in ListingSource)

    assert listed == stored


def test_a_view_may_start_from_the_metadata_table(table: MetadataFiles):
    """What comes later it learns from commits, as ever."""
    written_twice(table)
    view = IncrementalView(
        LocalStorage(), str(table.base), timezone="UTC", clock=SkippingClock(), listing=ListingSource.METADATA
    )
    assert view.snapshot() == committed(snapshot(table, ListingSource.STORAGE))

    table.data_commit("07_09.deltacommit", {"p=1": {log_name("07"): 10}})
    assert view.refresh().changed
    assert view.snapshot() == snapshot(table, ListingSource.STORAGE)
