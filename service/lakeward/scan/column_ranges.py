"""The range of a column in each file group of a table, without reading a row: what `layout_depth` measures.

    column_stats of the metadata table    the range of a base file and of its logs, where it has both
    footers of base files                 where the table has no column_stats; logs have no range then

These ranges choose nothing that a query reads (`file_statistics` does, and believes less), so that text that Hudi cut
and floating point count, too.

Touches: the metadata table or footers, reading only.
Keeps:   a range is over the files of the newest slice that have statistics; without those of its base file there is
         none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, UsageError
from lakeward.base.paths import join
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.metadata.key import column_stats_key
from lakeward.format.metadata.partition import COLUMN_STATS
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.read.newest_slice import newest_slice
from lakeward.scan.file_statistics import find_column_stats, slice_files
from lakeward.scan.layout_depth import GroupRange
from lakeward.scan.scan_plan import check_columns, known_schema
from lakeward.storage.storage import Storage, is_of_storage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot

_Ends = tuple[Any, Any]
_FOOTERS_A_REPORT = 200


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    slices: tuple[FileSlice, ...]
    of_column: Mapping[str, tuple[GroupRange, ...]]
    """A range for each slice, in their order."""
    is_of_metadata: bool
    """They are of the metadata table; else of footers."""
    logs_without: int
    """Logs that have no statistics, of any of the columns."""


def measured_columns(snapshot: TableSnapshot, names: Sequence[str]) -> tuple[str, ...]:
    """These columns, or all that values can be in order. Raises `UsageError` for one that is not there or has none."""
    schema = known_schema(snapshot)
    own = [name for name in schema.names if name not in META_COLUMNS]
    if not names:
        return tuple(name for name in own if not pa.types.is_nested(schema.field(name).type))
    check_columns(schema, names)
    for name in names:
        if pa.types.is_nested(schema.field(name).type):
            raise UsageError(
                f"The column {name!r} is of type {schema.field(name).type}, whose values have no order.",
                remedy="Name a column of numbers, text, dates or times.",
            )
    return tuple(dict.fromkeys(names))


def column_ranges(
    storage: Storage,
    snapshot: TableSnapshot,
    columns: Sequence[str],
    *,
    clock: Clock,
    done: Callable[[int, int], None] = lambda done, of: None,
) -> ColumnRanges:
    """The ranges of the newest slices of all file groups that have files.

    Args:
        done: hears how many footers of how many were read, where these are read.
    """
    found = (newest_slice(group.slices) for group in snapshot.file_groups)
    slices = tuple(each for each in found if each is not None and not each.is_empty)
    recorded = _of_metadata(storage, snapshot, slices, columns, clock=clock)
    of_files = recorded if recorded is not None else _of_footers(storage, snapshot, slices, columns, done)
    of_column = {
        column: tuple(
            _comparable([_of_slice(each, of_files.get((column, each.partition_path), {})) for each in slices])
        )
        for column in columns
    }
    return ColumnRanges(
        slices,
        of_column,
        is_of_metadata=recorded is not None,
        logs_without=sum(
            all(log.name.text not in of_files.get((column, each.partition_path), {}) for column in columns)
            for each in slices
            for log in each.row_logs
        ),
    )


_Found = Mapping[tuple[str, str], Mapping[str, _Ends | None]]
"""The ends of a column in the files of a partition, by their names; None where they have nulls alone."""


def _of_metadata(
    storage: Storage, snapshot: TableSnapshot, slices: Sequence[FileSlice], columns: Sequence[str], *, clock: Clock
) -> _Found | None:
    if COLUMN_STATS not in snapshot.config.built_metadata_partitions:
        return None
    keys = {
        column_stats_key(column, each.partition_path, name): (column, each.partition_path, name)
        for each in slices
        for name in slice_files(each)
        for column in columns
    }
    if (records := find_column_stats(storage, snapshot, keys, clock=clock)) is None:
        return None
    found: defaultdict[tuple[str, str], dict[str, _Ends | None]] = defaultdict(dict)
    for key, record in records.items():
        if isinstance(record, ColumnStatsRecord) and not record.is_deleted:
            column, partition, name = keys[key]
            if (ends := (record.min_value, record.max_value)) != (None, None):
                found[column, partition][name] = ends
            elif record.null_count == record.value_count:
                found[column, partition][name] = None
    return found


def _of_footers(
    storage: Storage,
    snapshot: TableSnapshot,
    slices: Sequence[FileSlice],
    columns: Sequence[str],
    done: Callable[[int, int], None],
) -> _Found:
    found: defaultdict[tuple[str, str], dict[str, _Ends | None]] = defaultdict(dict)
    bases = [(each.partition_path, each.base_file) for each in slices if each.base_file is not None]
    for number, (partition, base) in enumerate(bases):
        if number % _FOOTERS_A_REPORT == _FOOTERS_A_REPORT - 1:
            done(number, len(bases))
        with storage.open_input(join(snapshot.base_path, base.path)) as file:
            for column, ends in _of_footer(file, columns, base.path):
                found[column, partition][base.name] = ends
    return found


def _of_footer(file: Any, columns: Sequence[str], path: str) -> Iterator[tuple[str, _Ends | None]]:
    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError) as broken:
        if is_of_storage(broken):
            raise
        raise BrokenFile(
            f"The footer of {path} cannot be read.", why=str(broken), remedy="Restore the file from a copy."
        ) from broken
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    places = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    for column in columns:
        if column not in places:
            continue
        chunks = [group.column(places[column]) for group in groups]
        statistics = [chunk.statistics for chunk in chunks if _says_its_range(chunk)]
        if len(statistics) == len(chunks):
            ends = [(each.min, each.max) for each in statistics if each.has_min_max]
            yield column, _joined(ends) if ends else None


def _says_its_range(chunk: Any) -> bool:
    found = chunk.statistics
    return found is not None and (found.has_min_max or (found.has_null_count and found.null_count == chunk.num_values))


def _of_slice(slice_: FileSlice, of_files: Mapping[str, _Ends | None]) -> GroupRange | None:
    """None where the column has nulls alone, which no filter on a value reads."""
    names = slice_files(slice_)
    base = names[0] if slice_.base_file is not None else None
    known = [of_files[name] for name in names if name in of_files]
    if not known or (base is not None and base not in of_files):
        return GroupRange(slice_.partition_path, slice_.bytes, None)
    ends = [each for each in known if each is not None]
    return GroupRange(slice_.partition_path, slice_.bytes, _joined(ends)) if ends else None


def _joined(ends: Sequence[_Ends]) -> _Ends | None:
    """None where they cannot be compared: NaN, or values of two types after a change of the schema."""
    flat = [value for pair in ends for value in pair]
    if len({type(value) for value in flat}) > 1 or any(value != value for value in flat):
        return None
    return min(low for low, _ in ends), max(high for _, high in ends)


def _comparable(ranges: Iterable[GroupRange | None]) -> Iterator[GroupRange]:
    """Values of the type that most file groups have; those of another one are not known."""
    there = [each for each in ranges if each is not None]
    types = [type(each.ends[0]) for each in there if each.ends is not None]
    usual = max(set(types), key=types.count, default=None)
    for each in there:
        is_usual = each.ends is None or type(each.ends[0]) is usual
        yield each if is_usual else GroupRange(each.partition_path, each.bytes, None)
