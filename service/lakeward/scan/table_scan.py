"""The rows of a table that a query chooses, as a stream of Arrow batches.

    plan (`scan/scan_plan`) -> slice after slice (`scan/slice_scan`) -> columns in their order -> no more than the limit

Touches: the table, reading only.
Keeps:   1. rows come by partition and file group, and of one query on one snapshot always in the same order;
         2. where a file group cannot be read nothing is given out, and the error says so; with `skips_damaged` the
            others are read, and `damage` says what is missing;
         3. memory is bounded by one slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeward.base.errors import DamagedFiles
from lakeward.base.paths import join
from lakeward.format.parquet.base_file import read_shape
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.read.query.slice_query import SliceQuery
from lakeward.scan.scan_plan import ScanPlan, TableQuery, plan_scan
from lakeward.scan.slice_scan import read_slice
from lakeward.storage.storage import Storage
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import FileSlice, FrozenGroup
from lakeward.table.snapshot import TableSnapshot

_COUNTED = "_hoodie_record_key"


@dataclass(slots=True)
class TableScan:
    """A query on a table at one moment; each iteration reads it once more."""

    storage: Storage
    snapshot: TableSnapshot
    query: TableQuery
    skips_damaged: bool = False
    memory_bytes: int = MEMORY_BYTES
    plan: ScanPlan = field(init=False)
    meter: ReadMeter = field(default_factory=ReadMeter)
    """What was read so far."""

    def __post_init__(self) -> None:
        """Raises what `plan_scan` does."""
        self.plan = plan_scan(self.snapshot, self.query)

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return _plain(self.plan.schema)

    @property
    def damage(self) -> DamagedFiles | None:
        """What is missing in the rows, where file groups cannot be read."""
        return _unreadable(self.plan.damaged) if self.plan.damaged else None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The rows; `damage` says what is missing. Raises what `read_slice` does, and `DamagedFiles`."""
        self._check_damage()
        left = self.query.limit
        schema = self.schema
        if left != 0:
            for slice_ in self.plan.slices:
                for batch in self._read(slice_):
                    rows = batch if left is None else batch.slice(0, left)
                    yield pa.RecordBatch.from_arrays([rows.column(name) for name in schema.names], schema=schema)
                    if left is not None:
                        left -= rows.num_rows
                        if left == 0:
                            return

    def count(self) -> int:
        """How many rows there are. Of base files without logs the footer says it, where there is no filter."""
        self._check_damage()
        counted = replace(self.plan.slice_query, columns=frozenset({_COUNTED}))
        rows = 0
        for slice_ in self.plan.slices:
            if self.query.limit is not None and rows >= self.query.limit:
                return self.query.limit
            if slice_.base_file is not None and not slice_.log_files and self.query.where is None:
                with self.storage.open_input(join(self.snapshot.base_path, slice_.base_file.path)) as source:
                    rows += read_shape(source, name=slice_.base_file.path).rows
            else:
                rows += sum(batch.num_rows for batch in self._read(slice_, counted))
        return rows if self.query.limit is None else min(rows, self.query.limit)

    def count_all(self) -> int:
        """The same without the limit."""
        return replace(self, query=replace(self.query, limit=None)).count()

    def _read(self, slice_: FileSlice, query: SliceQuery | None = None) -> Iterator[pa.RecordBatch]:
        chosen = self.plan.slice_query if query is None else query
        return read_slice(
            self.storage, self.plan.reading, slice_, chosen, memory_bytes=self.memory_bytes, meter=self.meter
        )

    def _check_damage(self) -> None:
        if (damage := self.damage) is not None and not self.skips_damaged:
            raise damage


def _unreadable(groups: tuple[FrozenGroup, ...]) -> DamagedFiles:
    """What stops a query, or is missing in it; there is at least one file group."""
    first = groups[0]
    more = f" {len(groups) - 1} more file groups cannot be read, too." if len(groups) > 1 else ""
    if first.damage:
        error = damaged_error(first.damage, file_group=(first.partition_path, first.file_id))
        return DamagedFiles(error.what, why=f"Rows of it would be missing.{more}", remedy=error.remedy)
    return DamagedFiles(
        f"File group {first.file_id} in partition {first.partition_path or '(none)'} cannot be read: {first.why}",
        why=f"Which of its rows count is not known.{more}",
        remedy="`lakeward verify` says more; --skip-damaged reads the others.",
        file_group=(first.partition_path, first.file_id),
    )


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema without the entries that Lakeward keeps beside its fields."""
    return pa.schema([pa.field(each.name, each.type, each.nullable) for each in schema])
