"""Damage to the metadata table of tests/golden/v9_metadata: a record that one more log file puts there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lakeward.format.metadata.codec import metadata_codec
from lakeward.format.metadata.key import file_group_index
from lakeward.format.metadata.log_file import write_metadata_log
from lakeward.format.metadata.record import MetadataRecord
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import MetadataTable, load_metadata_table
from tests.clocks import SkippingClock
from tests.our_reader import scan

INSTANT = "20261121142629303"
"""The instant of the last write."""


def load(base: Path) -> MetadataTable:
    snapshot = scan(base)
    return load_metadata_table(LocalStorage(), str(base), snapshot.config, snapshot.timeline, clock=SkippingClock())


def records(base: Path, partition: str) -> dict[str, MetadataRecord]:
    return dict(MetadataReader(LocalStorage(), load(base)).scan(partition))


def put_record(base: Path, partition: str, key: str, record: MetadataRecord) -> None:
    """Puts the record there like the last write would have."""
    schema = take_metadata_snapshot(LocalStorage(), scan(base), clock=SkippingClock()).schema_json
    slices = load(base).slices[partition]
    group = slices[file_group_index(key, len(slices))].file_id
    path = base / ".hoodie/metadata" / partition / f".{group}_{INSTANT}.log.9_9-9-9"
    with path.open("wb") as sink:
        write_metadata_log(
            sink, instant=INSTANT, schema_json=schema, entries=[(key, metadata_codec(schema).encode(record))]
        )


def change_record(
    base: Path,
    partition: str,
    pick: Callable[[MetadataRecord], bool],
    change: Callable[[MetadataRecord], MetadataRecord],
) -> str:
    """Changes the first record that is picked. Returns its key."""
    key, record = next((key, record) for key, record in records(base, partition).items() if pick(record))
    put_record(base, partition, key, change(record))
    return key
