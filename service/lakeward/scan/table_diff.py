"""Two tables, or two moments of one, compared by record key: rows that were added, are gone, or changed.

    before, after -> their rows -> buckets by key (`scan/row_buckets`) -> pairs (`scan/row_pairs`) -> counts, samples

    1. rows that are equal, partition and all compared columns      the same
    2. of the others, rows of one key in one partition              changed
    3. of the others, rows of a key that each side has once         changed: the row moved to another partition
    4. what is left over                                            added, gone

The key is the values of the table's record key fields; in tables without such fields it is `_hoodie_record_key`. Paths
of partitions are compared without what only their style adds (`city=lima`, `a%2Fb`). Columns are compared by value
(`scan/comparable_values`), in the wider one of their two types.

Touches: both tables, reading only; temporary files outside of them.
Keeps:   1. each row of a side is counted once: same, changed, or added or gone;
         2. what is not compared is named: columns of one side, or of types that do not compare;
         3. memory is bounded by `memory_bytes`, whatever the tables hold, unless the rows of one key are more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.base.did_you_mean import did_you_mean
from lakeward.base.errors import UsageError
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.merge.memory_budget import MEMORY_BYTES, MemoryBudget
from lakeward.merge.rows.row_hash import RowHashes
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.protocol.progress import OnStep
from lakeward.read.query.filter import FilterColumn
from lakeward.read.query.slice_query import PARTITION_FIELD
from lakeward.scan.comparable_values import comparable, plain_array
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.row_buckets import KEY_HASH, RowBuckets
from lakeward.scan.row_pairs import Places, Words, left_over, pair_among, pair_rows, repeats
from lakeward.scan.scan_plan import QueryKind, TableQuery, known_schema
from lakeward.scan.table_scan import TableScan, planned_rows
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig

SAMPLES = 5
"""Samples of each kind of difference, if nothing else is said."""

_SECOND_KEY_HASH = "lakeward key two"
_PARTITION = "lakeward partition"
_KEY = "lakeward key {}"


@dataclass(frozen=True, slots=True)
class DiffSide:
    """A table at one moment."""

    storage: Storage
    snapshot: TableSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffQuery:
    """What of two tables is compared: all rows and columns, if nothing else is said."""

    columns: tuple[str, ...] | None = None
    """Beside the key; None for all but Hudi's own."""
    where: str | None = None
    """Rows of each side; one that only one side chooses is in one side only."""
    kind: QueryKind = QueryKind.SNAPSHOT
    has_meta_columns: bool = False
    samples: int = SAMPLES


@dataclass(frozen=True, slots=True)
class DifferingRow:
    """A row that differs."""

    key: Mapping[str, Any]
    partition: str
    """Its partition path; in a row that moved that of before."""
    changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The columns that differ: before, and after."""


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    added: int = 0
    gone: int = 0
    changed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDiff:
    key: tuple[str, ...]
    """The columns by which rows are paired."""
    columns: tuple[str, ...]
    """Columns that were compared, beside the key."""
    rows_before: int
    rows_after: int
    """Rows that were read."""
    slices_shared: int
    """File slices that both moments of a table have; they were not read."""
    same: int
    changed: int
    added: int
    gone: int
    repeated_before: int
    repeated_after: int
    """Rows whose key another row of their partition has, too."""
    columns_gone: tuple[str, ...]
    columns_added: tuple[str, ...]
    """Columns of one side alone."""
    types_changed: Mapping[str, tuple[str, str]]
    """Columns of two types, which were compared as the wider one."""
    not_compared: Mapping[str, tuple[str, str]]
    """Columns of two types that do not compare."""
    changed_columns: Mapping[str, int]
    """How many of the changed rows differ in a column."""
    partitions: Mapping[str, PartitionCounts]
    """Partitions with differences."""
    changed_rows: tuple[DifferingRow, ...]
    added_rows: tuple[DifferingRow, ...]
    gone_rows: tuple[DifferingRow, ...]
    """Samples."""

    @property
    def differs(self) -> bool:
        """True where a row, or a column of one side, is not the other side's."""
        rows = self.changed or self.added or self.gone
        return bool(rows or self.columns_gone or self.columns_added or self.not_compared)


def diff_tables(
    before: DiffSide,
    after: DiffSide,
    query: DiffQuery = DiffQuery(),
    *,
    memory_bytes: int = MEMORY_BYTES,
    on_step: OnStep = lambda text: None,
) -> TableDiff:
    """Compare two tables. Raises what reading them does, `SpillFailed`, and `UsageError` where their keys differ.

    Args:
        on_step: takes a sentence about how far it is, now and then.
    """
    shape = _shape_of(before, after, query)
    sides = [_SideRows(each, shape, query, memory_bytes=memory_bytes) for each in (before, after)]
    shared = _shared_slices(before, after, sides) if shape.is_read_alike else frozenset()
    codes = _PartitionCodes()
    counter = _DiffCounter(shape, codes, query.samples)
    buckets = RowBuckets(shape.schema, MemoryBudget(memory_bytes).rows // 4)
    streams = [side.batches(codes, without=shared, on_step=on_step) for side in sides]
    for number, (earlier, later) in enumerate(buckets.buckets(*streams)):
        on_step(f"compared {counter.rows:,} rows in {number:,} parts")
        counter.add(earlier, later)
    return counter.result(slices_shared=len(shared))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What is compared, as columns of the rows in buckets."""

    key_fields: tuple[str, ...]
    key_types: tuple[pa.DataType, ...]
    compared: pa.Schema
    columns_gone: tuple[str, ...]
    columns_added: tuple[str, ...]
    types_changed: Mapping[str, tuple[str, str]]
    not_compared: Mapping[str, tuple[str, str]]
    is_read_alike: bool
    """A base file gives both sides the same values: the columns have one type and one default each, and one id."""

    @property
    def key_names(self) -> list[str]:
        """The columns in buckets that hold the key."""
        return [_KEY.format(number) for number in range(len(self.key_fields))]

    @property
    def schema(self) -> pa.Schema:
        own = [(KEY_HASH, pa.uint64()), (_SECOND_KEY_HASH, pa.uint64()), (_PARTITION, pa.int32())]
        return pa.schema([*own, *zip(self.key_names, self.key_types, strict=True), *self.compared])


def _shape_of(before: DiffSide, after: DiffSide, query: DiffQuery) -> _Shape:
    first, second = known_schema(before.snapshot), known_schema(after.snapshot)
    key_fields = _key_fields(before.snapshot.config, after.snapshot.config)
    key_types = []
    for name in key_fields:
        one, other = _type_at(first, name), _type_at(second, name)
        common = _common_type(one, other)
        if common is None:
            raise UsageError(
                f"The tables cannot be compared by their record key: {name} is of type {one} and {other}.",
                remedy="Compare tables whose record keys have one type.",
            )
        key_types.append(common)
    names = _chosen_names(first, second, query)
    compared, types_changed, not_compared = [], {}, {}
    for name in names:
        if name in (*key_fields, PARTITION_FIELD) or name not in first.names or name not in second.names:
            continue
        one, other = first.field(name).type, second.field(name).type
        common = _common_type(one, other)
        if common is None:
            not_compared[name] = (str(one), str(other))
            continue
        if one != other:
            types_changed[name] = (str(one), str(other))
        compared.append(pa.field(name, common))
    return _Shape(
        key_fields=key_fields,
        key_types=tuple(key_types),
        compared=pa.schema(compared),
        columns_gone=tuple(name for name in names if name not in second.names),
        columns_added=tuple(name for name in names if name not in first.names),
        types_changed=types_changed,
        not_compared=not_compared,
        is_read_alike=_is_read_alike(before.snapshot, after.snapshot),
    )


def _is_read_alike(before: TableSnapshot, after: TableSnapshot) -> bool:
    if before.schema_on_read or after.schema_on_read:
        return before.latest_schema == after.latest_schema
    first, second = known_schema(before), known_schema(after)
    both = [name for name in first.names if name in second.names]
    return all(first.field(name).equals(second.field(name), check_metadata=True) for name in both)


def _key_fields(before: TableConfig, after: TableConfig) -> tuple[str, ...]:
    one, other = before.record_key_fields, after.record_key_fields
    if one != other:
        raise UsageError(
            f"The tables have different record keys: {_named(one)} and {_named(other)}.",
            remedy="Compare tables with one record key.",
        )
    return one or (RECORD_KEY_FIELD,)


def _named(fields: tuple[str, ...]) -> str:
    return ",".join(fields) or "made by Hudi"


def _chosen_names(before: pa.Schema, after: pa.Schema, query: DiffQuery) -> list[str]:
    """Names of columns of either side, those of `before` first."""
    known = list(dict.fromkeys([*before.names, *after.names]))
    if query.columns is None:
        return known if query.has_meta_columns else [name for name in known if name not in META_COLUMNS]
    for name in query.columns:
        if name not in known:
            raise UsageError(
                f"Neither table has a column {name!r}.",
                remedy=did_you_mean(name, known) or f"Their columns are {', '.join(known)}.",
            )
    return list(dict.fromkeys(query.columns))


def _type_at(schema: pa.Schema, path: str) -> pa.DataType:
    """The type of a column, or of a field within structs."""
    name, *inner = path.split(".")
    if name not in schema.names:
        raise UsageError(f"The record key field {path!r} is no column of the table.", remedy="Run `lakeward inspect`.")
    kind = schema.field(name).type
    for each in inner:
        kind = kind.field(each).type
    return kind


def _common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The wider one of two types, in which each value of either is itself; None where there is none."""
    if one == other:
        return one
    kinds = [pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_temporal, pa.types.is_nested]
    if any(is_kind(one) != is_kind(other) for is_kind in kinds):
        return None
    try:
        schemas = [pa.schema([pa.field("column", kind)]) for kind in (one, other)]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None


class _PartitionCodes:
    """A number for each partition of either side."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]


class _SideRows:
    """The rows of one side as the columns of the buckets."""

    def __init__(self, side: DiffSide, shape: _Shape, query: DiffQuery, *, memory_bytes: int) -> None:
        schema = known_schema(side.snapshot)
        tops = [name.split(".")[0] for name in shape.key_fields]
        read = TableQuery(
            columns=tuple(dict.fromkeys([*tops, *shape.compared.names])),
            where=None if query.where is None else parse_filter(query.where, schema),
            kind=query.kind,
        )
        self.scan = TableScan(side.storage, side.snapshot, read, memory_bytes=memory_bytes)
        self._config = side.snapshot.config
        self._base_path = side.snapshot.base_path
        self._shape = shape

    def batches(self, codes: _PartitionCodes, *, without: frozenset[str], on_step: OnStep) -> Iterator[pa.RecordBatch]:
        scan, rows = self.scan, 0
        slices = [each for each in scan.plan.slices if _base_path_of(each) not in without]
        if (damage := scan.damage) is not None:
            raise damage
        for done, slice_ in enumerate(slices):
            code = codes.number(_plain_partition(self._config, slice_.partition_path))
            found = planned_rows(scan.storage, scan.plan, slice_, memory_bytes=scan.memory_bytes, meter=scan.meter)
            for batch in found:
                on_step(f"read {rows:,} rows in {done:,} of {len(slices):,} file slices of {self._base_path}")
                rows += batch.num_rows
                yield self._bucket_rows(batch, code)

    def _bucket_rows(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        shape = self._shape
        keys = [
            comparable(FilterColumn(tuple(name.split("."))).values(batch).cast(kind))
            for name, kind in zip(shape.key_fields, shape.key_types, strict=True)
        ]
        values = [comparable(plain_array(batch.column(each.name)).cast(each.type)) for each in shape.compared]
        hashes = RowHashes.of(batch.num_rows, keys)
        own = [pa.array(hashes.first), pa.array(hashes.second), pa.array(np.full(batch.num_rows, partition, np.int32))]
        return pa.RecordBatch.from_arrays([*own, *keys, *values], schema=shape.schema)


def _plain_partition(config: TableConfig, path: str) -> str:
    """The partition path without what its style adds."""
    fields = config.partition_fields
    parts = [path] if len(fields) == 1 else path.split("/")
    if config.hive_style and len(parts) == len(fields):
        parts = [part.removeprefix(f"{name}=") for part, name in zip(parts, fields, strict=True)]
    return "/".join(unquote(part) if config.url_encode else part for part in parts)


def _shared_slices(before: DiffSide, after: DiffSide, sides: Sequence[_SideRows]) -> frozenset[str]:
    """The base files, without logs, that two moments of one table both read: nothing of them differs.

    What counts in a log may change while its files stay, where a block of it is rolled back.
    """
    if before.snapshot.base_path != after.snapshot.base_path:
        return frozenset()
    earlier, later = (
        frozenset(_base_path_of(each) for each in side.scan.plan.slices if not each.log_files) for side in sides
    )
    return earlier & later


def _base_path_of(slice_: FileSlice) -> str:
    return "" if slice_.base_file is None else slice_.base_file.path


class _DiffCounter:
    """What is found, bucket after bucket."""

    def __init__(self, shape: _Shape, codes: _PartitionCodes, samples: int) -> None:
        self._shape = shape
        self._codes = codes
        self._samples = samples
        self.rows = 0
        self._counts: Counter[str] = Counter()
        self._changed_columns: Counter[str] = Counter()
        self._by_partition: dict[str, Counter[int]] = {"added": Counter(), "gone": Counter(), "changed": Counter()}
        self._sampled: dict[str, list[DifferingRow]] = {"added": [], "gone": [], "changed": []}

    def add(self, before: pa.Table, after: pa.Table) -> None:
        sides = [_BucketSide(rows, self._shape) for rows in (before, after)]
        one, other = sides
        self.rows += before.num_rows + after.num_rows
        self._counts["rows_before"] += before.num_rows
        self._counts["rows_after"] += after.num_rows
        self._counts["repeated_before"] += _repeated(one.placed_key)
        self._counts["repeated_after"] += _repeated(other.placed_key)
        equal = pair_rows([*one.placed_key, *one.values], [*other.placed_key, *other.values])
        self._counts["same"] += len(equal[0])
        left = [left_over(len(side.partitions), paired) for side, paired in zip(sides, equal, strict=True)]
        in_place, left = pair_among(left, one.placed_key, other.placed_key)
        moved, left = self._moved(left, one, other)
        self._add_changed(np.concatenate([in_place[0], moved[0]]), np.concatenate([in_place[1], moved[1]]), one, other)
        self._add_single("gone", one, left[0])
        self._add_single("added", other, left[1])

    def _moved(
        self, left: list[Places], one: _BucketSide, other: _BucketSide
    ) -> tuple[tuple[Places, Places], list[Places]]:
        """Rows of a key that both sides have once, in different partitions; and what is left over."""
        lonely = [
            places[~np.isin(one_key, _repeated_values(side.key[0]))]
            for side, places, one_key in zip(
                (one, other), left, (one.key[0][left[0]], other.key[0][left[1]]), strict=True
            )
        ]
        pairs, _ = pair_among(lonely, one.key, other.key)
        return pairs, [np.setdiff1d(places, paired) for places, paired in zip(left, pairs, strict=True)]

    def _add_changed(self, earlier: Places, later: Places, one: _BucketSide, other: _BucketSide) -> None:
        self._counts["changed"] += len(earlier)
        self._by_partition["changed"].update(_counted(one.partitions[earlier]))
        if not len(earlier):
            return
        differing = {PARTITION_FIELD: one.partitions[earlier] != other.partitions[later]}
        before, after = one.rows.take(pa.array(earlier)), other.rows.take(pa.array(later))
        for name in self._shape.compared.names:
            sides = [RowHashes.of(len(earlier), [plain_array(rows.column(name))]) for rows in (before, after)]
            differing[name] = (sides[0].first != sides[1].first) | (sides[0].second != sides[1].second)
        for name, mask in differing.items():
            self._changed_columns[name] += int(np.count_nonzero(mask))
        for place in range(min(len(earlier), self._samples - len(self._sampled["changed"]))):
            changes: dict[str, tuple[Any, Any]] = {}
            for name, mask in differing.items():
                if not mask[place]:
                    continue
                if name == PARTITION_FIELD:
                    pair = [side.partitions[at[place]] for side, at in ((one, earlier), (other, later))]
                    changes[name] = (self._codes.names[pair[0]], self._codes.names[pair[1]])
                else:
                    changes[name] = (before.column(name)[place].as_py(), after.column(name)[place].as_py())
            self._sampled["changed"].append(self._sample(one, int(earlier[place]), changes))

    def _add_single(self, kind: str, side: _BucketSide, places: Places) -> None:
        self._counts[kind] += len(places)
        self._by_partition[kind].update(_counted(side.partitions[places]))
        for place in places[: self._samples - len(self._sampled[kind])].tolist():
            self._sampled[kind].append(self._sample(side, place, {}))

    def _sample(self, side: _BucketSide, place: int, changes: Mapping[str, tuple[Any, Any]]) -> DifferingRow:
        key = {
            field_name: side.rows.column(name)[place].as_py()
            for field_name, name in zip(self._shape.key_fields, self._shape.key_names, strict=True)
        }
        return DifferingRow(key, self._codes.names[side.partitions[place]], changes)

    def result(self, *, slices_shared: int) -> TableDiff:
        counts, names = self._counts, self._codes.names
        numbers = sorted(set().union(*self._by_partition.values()), key=names.__getitem__)
        return TableDiff(
            key=self._shape.key_fields,
            columns=tuple(self._shape.compared.names),
            rows_before=counts["rows_before"],
            rows_after=counts["rows_after"],
            slices_shared=slices_shared,
            same=counts["same"],
            changed=counts["changed"],
            added=counts["added"],
            gone=counts["gone"],
            repeated_before=counts["repeated_before"],
            repeated_after=counts["repeated_after"],
            columns_gone=self._shape.columns_gone,
            columns_added=self._shape.columns_added,
            types_changed=self._shape.types_changed,
            not_compared=self._shape.not_compared,
            changed_columns={name: count for name, count in self._changed_columns.items() if count},
            partitions={
                names[number]: PartitionCounts(**{kind: found[number] for kind, found in self._by_partition.items()})
                for number in numbers
            },
            changed_rows=tuple(self._sampled["changed"]),
            added_rows=tuple(self._sampled["added"]),
            gone_rows=tuple(self._sampled["gone"]),
        )


class _BucketSide:
    """One side of a bucket, with the words by which its rows are paired."""

    def __init__(self, rows: pa.Table, shape: _Shape) -> None:
        self.rows = rows.combine_chunks()
        self.partitions: npt.NDArray[np.int32] = _words(self.rows, _PARTITION)
        self.key: list[Words] = [_words(self.rows, KEY_HASH), _words(self.rows, _SECOND_KEY_HASH)]
        self.placed_key: list[Words] = [*self.key, self.partitions.astype(np.uint64)]
        hashes = RowHashes.of(rows.num_rows, [plain_array(self.rows.column(name)) for name in shape.compared.names])
        self.values: list[Words] = [hashes.first, hashes.second]


def _repeated(words: list[Words]) -> int:
    """How many rows have words that other rows have, too."""
    later = repeats(words)
    return len(later) + len(np.unique(words[0][later]))


def _repeated_values(words: Words) -> Words:
    values, counts = np.unique(words, return_counts=True)
    return values[counts > 1]


def _counted(codes: npt.NDArray[np.int32]) -> dict[int, int]:
    values, counts = np.unique(codes, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def _words(rows: pa.Table, name: str) -> Any:
    return rows.column(name).to_numpy()
