"""A task's work: file slices in, their rows as Spark takes them out.

Touches: reads the slices' files; spill files of merges, outside of the table.
Keeps:   rows are those that the same scan gives in one process; memory is bounded by a slice's merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.scan.scan_plan import ScanPlan
from lakeward.scan.table_scan import planned_rows
from lakeward.spark.row_types import SparkBatches
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_group import FileSlice


@dataclass(frozen=True, slots=True)
class SliceWork:
    """What all tasks of a read have in common. Travels to executors."""

    plan: ScanPlan
    """`ScanPlan.shared`."""
    memory_bytes: int

    def __call__(self, slices: tuple[FileSlice, ...]) -> Iterator[pa.RecordBatch]:
        storage, _ = open_storage(self.plan.reading.base_path)
        assert self.plan.reading.schema is not None, "a table without a schema is refused"
        spark = SparkBatches(self.plan.schema, self.plan.reading.schema)
        for slice_ in slices:
            where = f"File group {slice_.file_id} in partition {slice_.partition_path or '(none)'}"
            rows = planned_rows(storage, self.plan, slice_, memory_bytes=self.memory_bytes, meter=ReadMeter())
            for batch in rows:
                yield spark.of(batch, where=where)
