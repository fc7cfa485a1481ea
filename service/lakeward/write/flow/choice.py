"""Choose what sorts the rows of a write: this process, or Spark.

Touches: the files of the rows, or standard input; a Spark session, where it is chosen.
Keeps:   rows that may not fit into the memory of one task are not sorted in this process, unless the operator says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from lakeward.base.errors import Refused
from lakeward.engine.dispatch.engine_rule import EngineRule, EngineSetting
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.format.avro.schema import block_schema
from lakeward.index.index_type import IndexType
from lakeward.protocol.progress import Engine
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.table.snapshot import TableSnapshot
from lakeward.write.flow.flow import Flow
from lakeward.write.flow.in_process import InProcessFlow, fits_in_process
from lakeward.write.flow.parts import InputParts
from lakeward.write.input.files import STANDARD_INPUT, open_rows
from lakeward.write.request import WriteRequest
from lakeward.write.whole_write import known_schema


@contextmanager
def open_flow(
    table: ServicedTable,
    request: WriteRequest,
    snapshot: TableSnapshot,
    files: Sequence[str],
    rule: EngineRule,
    open_spark: Callable[[], SparkDispatcher],
) -> Iterator[tuple[Flow, pa.Schema | None]]:
    """The flow of the rows of files, and their columns; without files it has no row. Raises `Refused`, `UsageError`."""
    if not files:
        yield InProcessFlow(table.storage, ()), None
        return
    known = known_schema(snapshot)
    columns = None if known is None else block_schema(known, where="the table")
    source = open_rows(files, table_columns=columns, all_columns=request.fill_missing)
    flow: Flow
    if _is_here(files, rule, memory_bytes=table.options.memory_bytes):
        table.observer.step("rows are sorted in this process")
        flow = InProcessFlow(table.storage, source.batches(), memory_bytes=table.options.memory_bytes)
    elif request.index is IndexType.POSTGRES:
        raise Refused(
            "With an index in a database, only this process can write rows.",
            why="Spark's tasks are given no credentials of the database, and the rows are for Spark: so it was said, "
            "or they may not fit.",
            remedy="Write with --engine local, or with another index.",
        )
    else:
        from lakeward.write.flow.spark import SparkFlow  # PySpark, a second of loading

        spark = open_spark()
        table.observer.step(f"rows are sorted by {spark.name}")
        flow = SparkFlow(spark.driver(), table.base_path, InputParts(source))
    try:
        yield flow, source.schema
    finally:
        flow.close()


def _is_here(files: Sequence[str], rule: EngineRule, *, memory_bytes: int) -> bool:
    """Whether this process sorts the rows: the operator says so, or nothing else does and they surely fit."""
    if rule.setting is EngineSetting.LOCAL:
        return True
    size = sum(Path(file).stat().st_size for file in files if file != STANDARD_INPUT)
    return rule.choose(size).engine is not Engine.SPARK and fits_in_process(size, memory_bytes=memory_bytes)
