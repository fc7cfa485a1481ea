"""The floor: all inputs decoded, and the rows that survive encoded, with nothing between the two.

Parquet goes through pyarrow alone, tuned: one file open at a time, columns that repeat stay dictionaries, those that
hold one value (partition path, file name) are not decoded; the writer has the settings of the file that Lakeward wrote
(codec, dictionary columns, row groups, statistics), and neither bloom filter nor key range. Avro blocks, which no
library decodes as fast, go through our decoder. A LOG's survivors go through our log writer.

The rows that survive are read before the clock starts, so its memory says nothing.

Touches: a file beside the slice.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.merge.files import INSTANT, SliceFiles
from benchmarks.merge.rows_of import log_batches
from benchmarks.merge.watched import Watched, watched
from lakeward.format.log.block import BlockType, LogBlock, read_content
from lakeward.format.log.data_block import read_data_block
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.read.logs.log_scan import scan_slice_heads
from lakeward.storage.local import LocalStorage

BATCH_ROWS = 16_384
WRITE_BATCH = 64
ZSTD_LEVEL = 1
ONE_VALUE = ("_hoodie_partition_path", "_hoodie_file_name")


def by_floor(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    if files.shape.is_log_operation:
        return _log_floor(files)
    metadata = pq.ParquetFile(files.survivors).metadata
    dictionaries = _dictionary_columns(metadata)
    survivors = list(_decode(files.survivors, dictionaries))
    out = files.folder / "floor.parquet"
    parts: dict[str, float] = {}

    def work() -> None:
        begin = time.process_time()
        assert files.base_file is not None
        for _ in _decode(files.base_file, dictionaries):
            pass
        parts["base_decode_cpu_seconds"] = time.process_time() - begin
        begin = time.process_time()
        parts["log_rows"] = _decode_logs(files, dictionaries)
        parts["log_decode_cpu_seconds"] = time.process_time() - begin
        begin = time.process_time()
        _encode(survivors, out, metadata, dictionaries)
        parts["encode_cpu_seconds"] = time.process_time() - begin

    cost, _ = watched(work)
    begin = time.process_time()
    for _ in _decode(out, dictionaries):
        pass
    parts["output_decode_cpu_seconds"] = time.process_time() - begin
    return cost, [out], parts


def _decode(source: Path | BinaryIO | pa.BufferReader, dictionaries: list[str]) -> Iterator[pa.RecordBatch]:
    file = pq.ParquetFile(
        source, pre_buffer=False, memory_map=False, buffer_size=256 * 1024, read_dictionary=dictionaries
    )
    columns = [name for name in file.schema_arrow.names if name not in ONE_VALUE]
    yield from file.iter_batches(batch_size=BATCH_ROWS, use_threads=False, columns=columns)


def _decode_logs(files: SliceFiles, dictionaries: list[str]) -> int:
    """Returns the rows."""
    rows = 0
    for block, file in data_blocks(files):
        if block.type is BlockType.PARQUET_DATA:
            rows += sum(batch.num_rows for batch in _decode(pa.BufferReader(read_content(file, block)), dictionaries))
        else:
            rows += sum(batch.num_rows for batch in read_data_block(file, block, bytes_max=2**27))
    return rows


def data_blocks(files: SliceFiles) -> Iterator[tuple[LogBlock, BinaryIO]]:
    names = [path.name for path in files.logs]
    scan = scan_slice_heads(LocalStorage(), str(files.table), names, instant=INSTANT)
    for block in scan.blocks:
        if block.type is not BlockType.DELETE:
            with (files.table / block.file).open("rb") as file:
                yield block, file


def _dictionary_columns(metadata: pq.FileMetaData) -> list[str]:
    """The columns that Lakeward's writer took for such as repeat."""
    group = metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return [column.path_in_schema for column in columns if column.has_dictionary_page]


def _encode(survivors: list[pa.RecordBatch], out: Path, metadata: pq.FileMetaData, dictionaries: list[str]) -> None:
    schema = survivors[0].schema
    for name in ONE_VALUE:
        schema = schema.append(pa.field(name, pa.dictionary(pa.int32(), pa.string())))
    group_rows = metadata.row_group(0).num_rows
    with pq.ParquetWriter(
        out,
        schema,
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=dictionaries,
        use_compliant_nested_type=True,
        store_schema=False,
        version="2.6",
        data_page_version="1.0",
        write_batch_size=WRITE_BATCH,
    ) as writer:
        waiting: list[pa.RecordBatch] = []
        for batch in survivors:
            for name in ONE_VALUE:
                codes = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
                batch = batch.append_column(name, pa.DictionaryArray.from_arrays(codes, pa.array([""])))
            waiting.append(batch)
            if sum(each.num_rows for each in waiting) >= group_rows:
                _write_group(writer, waiting)
        _write_group(writer, waiting)


def _write_group(writer: pq.ParquetWriter, waiting: list[pa.RecordBatch]) -> None:
    if waiting:
        table = pa.Table.from_batches(waiting)
        writer.write_table(table, row_group_size=table.num_rows)
        waiting.clear()


def _log_floor(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    survivors = list(log_batches(files.survivors))
    out = files.folder / ".floor.log"

    def work() -> None:
        _decode_logs(files, [])
        with out.open("wb") as sink:
            writer = LogFileWriter(
                sink,
                files.schema,
                instant=INSTANT,
                schema_json=log_block_schema(files.shape.schema_json),
                block_type=BlockType.PARQUET_DATA if files.shape.parquet_blocks else BlockType.AVRO_DATA,
            )
            for batch in survivors:
                writer.write(batch)
            writer.close()

    cost, _ = watched(work)
    return cost, [out], {}


def by_file_copy(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    """The base file through a buffer of 1 MiB, page cache to page cache."""
    assert files.base_file is not None
    base, out = files.base_file, files.folder / "copy"

    def work() -> None:
        with base.open("rb") as source, out.open("wb") as sink:
            while part := source.read(1024 * 1024):
                sink.write(part)

    cost, _ = watched(work)
    return cost, [], {"bytes": base.stat().st_size}
