"""The column statistics of a log file that a LOG operation wrote, from the rows that went into it.

Hudi's own log compaction (1.2.0, table version 9) writes into the partitions of the metadata table:

    files               the partitions with a new log file, and the log file with its size
    column_stats        a record for each indexed column of each new log file: ranges and counts of its rows, no sizes
    partition_stats     as for every commit (`partition_stats.py`): the merged logs count beside the new one
    bloom_filters       nothing, since a log file has no filter
    record_index        a deletion of each key whose delete the log file keeps; nothing where the writers switched
                        streaming writes of the metadata table off
    secondary_index_*   nothing

The deletions in the record index are not for us to write. The index learned of each delete when it was written; since
then the key may have come back in another file group. Deleting it once more hides the row that is there, and Hudi's
next upsert of the key makes a second one, as it does after Hudi's own log compaction.

A log file of deletes alone has records without a type, range or row.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.stats.column_range import ColumnRange, cut
from lakeward.format.stats.stats_value import StatsVersion, ValueKind, ValueType, value_type_of


def log_column_stats(
    file_name: str, ranges: Mapping[str, ColumnRange], *, columns: Mapping[str, Any], version: StatsVersion
) -> list[ColumnStatsRecord]:
    """A record for each of `columns`.

    Args:
        ranges: of the rows of the log file, by `ColumnRangeAccumulator`; deletes are no rows.
        columns: the indexed columns with their Avro types, by `format/stats/indexed_columns.py`.
    """
    return [_record(file_name, name, ranges.get(name, ColumnRange()), columns[name], version) for name in columns]


def _record(
    file_name: str, column: str, found: ColumnRange, avro_type: Any, version: StatsVersion
) -> ColumnStatsRecord:
    kind = value_type_of(avro_type, where=f"The column {column}")
    if found.value_count == 0:
        kind = ValueType(ValueKind.NULL)
    is_v1 = version is StatsVersion.V1
    found = cut(found)
    return ColumnStatsRecord(
        file_name=file_name,
        column=column,
        min_value=found.min_value,
        max_value=found.max_value,
        value_count=found.value_count,
        null_count=found.null_count,
        total_size=0,
        total_uncompressed_size=0,
        value_type=None if is_v1 else kind,
        wrapper=kind.v1_wrapper if is_v1 and found.min_value is not None else None,
    )
