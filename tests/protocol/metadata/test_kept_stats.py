"""Statistics of files that a clean takes out, kept and read again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.protocol.metadata.kept_stats import collect_stats, read_stats
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN
from tests.our_reader import scan


def test_what_is_kept_is_what_the_metadata_table_says(tmp_path: Path):
    """Each record of each file comes back as it was; once other columns are indexed, none does. Keeps of
    protocol/metadata/kept_stats."""
    base = copy_golden(GOLDEN, tmp_path / "table")
    snapshot, clock = scan(base), SkippingClock()
    files = {
        (slice_.partition_path, name)
        for slice_ in snapshot.latest_slices
        for name in (
            *([slice_.base_file.name] if slice_.base_file else []),
            *(log.name.text for log in slice_.log_files),
        )
    }
    metadata = take_metadata_snapshot(LocalStorage(), snapshot, clock=clock)
    assert metadata.indexed is not None and files
    content = collect_stats(LocalStorage(), snapshot, files, clock=clock)
    assert content is not None

    reader = MetadataReader(LocalStorage(), metadata.table)
    expected = {
        file: {
            record
            for column in metadata.indexed.columns
            if (record := reader.lookup(COLUMN_STATS, [key := column_stats_key(column, *file)]).get(key)) is not None
        }
        for file in files
    }
    found = read_stats(content, files, metadata.indexed, file="kept")
    assert {file: set(records) for file, records in found.items()} == expected and any(expected.values())

    fewer = dict(list(metadata.indexed.columns.items())[1:])
    assert read_stats(content, files, replace(metadata.indexed, columns=fewer), file="kept") == {}
