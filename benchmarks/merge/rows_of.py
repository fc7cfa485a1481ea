"""What a side wrote: how many rows, and a digest of them that any order and cut gives.

Meta columns are left out: not every engine has them.

Touches: reads the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.merge.files import BATCH_ROWS
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.merge.digest import Digest
from lakeward.read.logs.log_scan import read_heads
from lakeward.storage.local import LocalStorage


def rows_of(paths: Sequence[Path], schema: pa.Schema) -> tuple[int, str]:
    wanted = without_meta_columns(schema)
    return digest_of(
        (
            batch
            for path in paths
            for batch in (parquet_batches(path, wanted.names) if path.suffix == ".parquet" else log_batches(path))
        ),
        wanted,
    )


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in META_COLUMNS])


def digest_of(batches: Iterable[pa.RecordBatch], wanted: pa.Schema) -> tuple[int, str]:
    digest = Digest()
    for batch in batches:
        columns = [_plain(batch.column(field.name)).cast(field.type) for field in wanted]
        digest.update(pa.RecordBatch.from_arrays(columns, schema=wanted))
    return digest.rows, digest.hexdigest


def parquet_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    yield from pq.ParquetFile(path).iter_batches(batch_size=BATCH_ROWS, columns=columns)


def log_batches(path: Path) -> Iterator[pa.RecordBatch]:
    for block, file in read_heads(LocalStorage(), str(path.parent), path.name):
        assert isinstance(block, LogBlock)
        if block.type in (BlockType.AVRO_DATA, BlockType.PARQUET_DATA):
            yield from read_data_block(file, block)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
