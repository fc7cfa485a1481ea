"""A task's work: file slices, or what commits changed in file groups, in; their rows as Spark takes them out.

Touches: reads the files; spill files of merges, outside of the table.
Keeps:   rows are those that the same query gives in one process; memory is bounded by a slice's merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.scan.change_plan import ChangeSource
from lakeward.scan.change_rows import ChangeReading
from lakeward.scan.scan_plan import ScanPlan
from lakeward.scan.table_scan import planned_rows
from lakeward.spark.row_types import SparkBatches, column_types, image_types
from lakeward.spark.slice_parts import SliceRange
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_system_view import GroupId


@dataclass(frozen=True, slots=True)
class SliceWork:
    """What all tasks of a read have in common. Travels to executors."""

    plan: ScanPlan
    """`ScanPlan.shared`."""
    memory_bytes: int

    def __call__(self, parts: tuple[SliceRange, ...]) -> Iterator[pa.RecordBatch]:
        storage, _ = open_storage(self.plan.reading.base_path)
        assert self.plan.reading.schema is not None, "a table without a schema is refused"
        spark = SparkBatches(self.plan.schema, column_types(self.plan.reading.schema))
        for part in parts:
            plan, slice_ = part.planned(self.plan), part.slice
            for batch in planned_rows(storage, plan, slice_, memory_bytes=self.memory_bytes, meter=ReadMeter()):
                yield spark.of(batch, where=_named(slice_.group_id))


@dataclass(frozen=True, slots=True)
class ChangeWork:
    """The same of a query of changes."""

    reading: ChangeReading

    def __call__(self, sources: tuple[ChangeSource, ...]) -> Iterator[pa.RecordBatch]:
        table = self.reading.reading
        storage, _ = open_storage(table.base_path)
        assert table.schema is not None, "a table without a schema is refused"
        spark = SparkBatches(self.reading.schema, image_types(self.reading.schema, table.schema))
        for source in sources:
            for batch in self.reading.changes(storage, source, ReadMeter()):
                yield spark.of(batch, where=_named(source.group_id))


def _named(group_id: GroupId) -> str:
    partition, file_id = group_id
    return f"File group {file_id} in partition {partition or '(none)'}"
