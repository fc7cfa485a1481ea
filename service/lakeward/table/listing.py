"""The source of the names of a table's files: the storage, or the table's metadata table.

A file system is listed unless the operator says otherwise: that needs nothing to be in step, and it also finds files of
instants that never completed. In an object store each partition is a request or more, and the metadata table is a few.

Touches: storage, reading only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from lakeward.clock import Clock
from lakeward.storage.storage import Storage
from lakeward.table.metadata.metadata_table import has_metadata_table
from lakeward.table.partition import FoundPartitions, find_partitions, list_partitions
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.timeline import Timeline


class ListingSource(StrEnum):
    STORAGE = "storage"
    METADATA = "metadata"
    """The metadata table where the table has one, else the storage."""


def listing_source(base_path: str, said: ListingSource | None) -> ListingSource:
    """The source to list by: the operator's word, or the one that suits the storage."""
    return said or (ListingSource.METADATA if "://" in base_path else ListingSource.STORAGE)


def find_table_partitions(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    timeline: Timeline,
    *,
    source: ListingSource,
    clock: Clock,
    only: Iterable[str] | None = None,
) -> FoundPartitions:
    """The partitions of the table and their files. `timeline` was read before.

    Args:
        only: the partitions that matter; those of them that are none are left out.
    """
    if source is ListingSource.METADATA and has_metadata_table(config):
        # Imported here: a daemon that watches tables by listing them needs no Arrow and no Numba in memory.
        from lakeward.table.metadata.listing import load_listing

        listing = load_listing(storage, base_path, config, timeline, clock=clock)
        known = listing.partitions()
        return FoundPartitions(listing.list_partitions(known if only is None else set(only).intersection(known)))
    if only is not None:
        return list_partitions(storage, base_path, only)
    return find_partitions(storage, base_path, native=config.version.has_native_logs)
