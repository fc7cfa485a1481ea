"""What the data frames of a write are made with: schemas, names, and work on Arrow batches whose errors find back.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from lakeward.base.errors import LakewardError
from lakeward.engine.dispatch.spark_failure import carry

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

MapBatches = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def carrying(work: MapBatches) -> MapBatches:
    """The same work in a task, whose errors of Lakeward arrive as they are."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from work(batches)
        except LakewardError as error:
            carry(error)
            raise

    return run


def spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(
        pa.schema([pa.field(field.name, field.type) for field in schema]), prefer_timestamp_ntz=True
    )


def quoted(names: Iterable[str]) -> list[str]:
    """Names as Spark takes them for columns, also with dots in them."""
    return [f"`{name.replace('`', '``')}`" for name in names]


def numbers_of(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of the parts that a task has."""
    for batch in batches:
        yield from batch.column(0).to_pylist()
