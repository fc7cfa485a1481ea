"""The golden table with a metadata table: where things are in it, and how to change them."""

from __future__ import annotations

import zlib
from pathlib import Path

from lakeward.format.avro.container import write_record
from lakeward.format.java_properties import dump_properties, parse_properties
from lakeward.format.timeline.instant import Instant, parse_instant

GOLDEN = "v9_metadata"
METADATA = ".hoodie/metadata"
DATA_TIMELINE = ".hoodie/timeline"
METADATA_TIMELINE = f"{METADATA}/.hoodie/timeline"
PARTITION_PROPERTY = "hoodie.table.metadata.partitions"


def timeline(base: Path, folder: str) -> list[Instant]:
    """Each file of the timeline in this folder, by name."""
    names = sorted(path.name for path in (base / folder).iterdir() if path.is_file())
    return [instant for name in names if (instant := parse_instant(name, 2)) is not None]


def set_property(base: Path, name: str, value: str) -> None:
    """Sets a property of the table; the checksum follows."""
    file = base / ".hoodie" / "hoodie.properties"
    properties = dict(parse_properties(file.read_bytes())) | {name: value}
    properties["hoodie.table.checksum"] = str(zlib.crc32(f".{properties['hoodie.table.name']}".encode()))
    file.write_bytes(dump_properties(properties))


def write_rollback_plan(base: Path, time: str, target: str, folder: str = METADATA_TIMELINE) -> None:
    """A rollback of `target` has begun on that timeline."""
    (base / folder / f"{time}.rollback.requested").write_bytes(rollback_plan(target))


def rollback_plan(target: str) -> bytes:
    """What a requested rollback says first of all."""
    instant = {
        "type": "record",
        "name": "HoodieInstantInfo",
        "fields": [{"name": "commitTime", "type": "string"}, {"name": "action", "type": "string"}],
    }
    schema = {
        "type": "record",
        "name": "HoodieRollbackPlan",
        "fields": [{"name": "instantToRollback", "type": ["null", instant]}],
    }
    record = {"instantToRollback": {"commitTime": target, "action": "deltacommit"}}
    return write_record(schema, record)
