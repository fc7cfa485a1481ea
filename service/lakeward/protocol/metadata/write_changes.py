"""What a write brings to the metadata table beside its files: keys that came and went, file groups that it replaced.

    the record index     a record for each key that came to a file group, a deletion of each key that is gone
    secondary indexes    the same of pairs of a value and a key (`secondary_pairs.py`)
    partition_stats      what is known of partitions that were deleted goes
    index definitions    columns that the table has from this write on are indexed from it on

A service has none of it: it moves no key and brings no column.

Touches: nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.table.file_system_view import GroupId


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """What one target of the write did to keys (`write/target.TargetResult.key_changes`)."""

    partition_path: str
    path: str
    """The Arrow IPC file, in the attempt's folder, with `key` (text), `file_id` (text; null: the key is gone)."""


@dataclass(frozen=True, slots=True)
class WriteChanges:
    schema: str
    """Avro JSON without meta columns: the table's from this write on."""
    keys: tuple[ChangedKeys, ...] = ()
    """Updates in place are not in them. A key that is gone in one file group and came to another one stays,
    where it came to."""
    replaced: tuple[GroupId, ...] = ()
    """The file groups that go as a whole, those of deleted partitions too."""
    deleted_partitions: tuple[str, ...] = ()
    """The paths that delete_partition took."""
