"""A file slice of a shape on disk: in a Hudi table, and as Parquet runs for engines that know no Hudi.

    <folder>/table    a table of version 9 with one file group: timeline, base file, logs
    <folder>/runs     what the logs hold as Parquet, sorted by key, then newest first; deletes are rows with `_deleted`
    <folder>/shape    the shape as it was written, scale included

Touches: the folder it is given.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.indexed_table import complete, write_properties
from benchmarks.merge.rows import Numbers, make_keys, make_rows, random_text
from benchmarks.merge.shape import ORDERING_COLUMN, Shape, Spread
from lakeward.format.avro.schema import table_schema
from lakeward.format.file_name import LogFileName, NativeLogKind, NativeLogName
from lakeward.format.log.block import BlockType
from lakeward.format.log.log_writer import LogFileWriter, log_block_schema
from lakeward.format.log.native_log.data_file import NativeDataWriter
from lakeward.format.log.native_log.delete_file import NativeDeleteWriter
from lakeward.format.log.native_log.footer import NativeLogFooter
from lakeward.format.parquet.base_file import BaseFileWriter
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.merge.rules.tombstones import Tombstones

FILE_ID = "f6b2a3c0-0000-4000-8000-000000000000-0"
FIRST_INSTANT = 20260101000000000
INSTANT = "20260701000000000"
"""The instant of our compaction, later than all."""
DELETED_COLUMN = "_deleted"
LARGE_COLUMN = "body"
BATCH_ROWS = 16_384
_TOKEN = "0-1-0"
VERSIONS_APART = 10_000_000
"""Between the ordering values of two logs: those of all records differ."""

PROPERTIES = {
    "hoodie.table.name": "bench",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.ordering.fields": ORDERING_COLUMN,
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
}


@dataclass(frozen=True, slots=True)
class SliceFiles:
    folder: Path
    shape: Shape

    @classmethod
    def open(cls, folder: Path) -> SliceFiles:
        return cls(folder, pickle.loads((folder / "shape").read_bytes()))

    @property
    def table(self) -> Path:
        return self.folder / "table"

    @property
    def survivors(self) -> Path:
        """What the first side wrote; the floor encodes its rows."""
        return self.folder / "survivors"

    @property
    def base_file(self) -> Path | None:
        return None if self.shape.is_log_operation else self.table / f"{FILE_ID}_0-1-0_{FIRST_INSTANT}.parquet"

    @property
    def logs(self) -> list[Path]:
        """Oldest first; a native log of deletes behind that of the rows."""
        return [path for number in range(self.shape.logs) for path in self.log_paths(number)]

    def log_paths(self, number: int) -> list[Path]:
        instant = log_instant(number)
        if not self.shape.native:
            return [self.table / LogFileName(FILE_ID, instant, 1, _TOKEN).text]
        kinds = [NativeLogKind.DATA, NativeLogKind.DELETES] if self.shape.deletes else [NativeLogKind.DATA]
        return [self.table / NativeLogName(FILE_ID, _TOKEN, instant, 1, kind).text for kind in kinds]

    @property
    def runs(self) -> list[Path]:
        return sorted((self.folder / "runs").iterdir())

    @property
    def input_bytes(self) -> int:
        base = [] if self.base_file is None else [self.base_file]
        return sum(path.stat().st_size for path in [*base, *self.logs])

    @property
    def schema(self) -> pa.Schema:
        return table_schema(self.shape.schema_json)


def log_instant(number: int) -> str:
    hours, minutes = divmod(number + 1, 60)
    return str(FIRST_INSTANT + hours * 10_000_000 + minutes * 100_000)


def write_slice(folder: Path, shape: Shape, *, with_runs: bool = True, seed: int = 1) -> SliceFiles:
    chance = np.random.default_rng(seed)
    files = SliceFiles(folder, shape)
    (folder / "runs").mkdir(parents=True)
    (folder / "shape").write_bytes(pickle.dumps(shape))
    write_properties(files.table, PROPERTIES)
    (files.table / ".hoodie_partition_metadata").write_text(f"commitTime={FIRST_INSTANT}\npartitionDepth=0\n")
    if files.base_file is not None:
        _write_base(files, files.base_file, chance)
        _commit(files, files.base_file, str(FIRST_INSTANT), shape.base_rows)
    for number in range(shape.logs):
        paths = _write_log(files, number, chance, with_runs=with_runs)
        if not shape.native:  # no release of Hudi reads the table
            _commit(files, paths[0], log_instant(number), shape.log_rows)
    return files


def _write_base(files: SliceFiles, path: Path, chance: np.random.Generator) -> None:
    shape, schema = files.shape, files.schema
    numbers = np.arange(shape.base_rows, dtype=np.int64) * 2
    if not shape.base_sorted:
        chance.shuffle(numbers)
    with path.open("wb") as sink:
        writer = BaseFileWriter(sink, schema, file_name=path.name, keys_expected=shape.base_rows)
        for start in range(0, shape.base_rows, BATCH_ROWS):
            some = numbers[start : start + BATCH_ROWS]
            writer.write(make_rows(schema, shape.columns, some, np.zeros_like(some), str(FIRST_INSTANT), chance))
        writer.close(is_sorted=shape.base_sorted)


def _write_log(files: SliceFiles, number: int, chance: np.random.Generator, *, with_runs: bool = True) -> list[Path]:
    shape, schema, instant = files.shape, files.schema, log_instant(number)
    numbers = log_numbers(shape, number, chance)
    ts = np.arange(len(numbers), dtype=np.int64) + VERSIONS_APART * (number + 1)
    deleted = chance.random(len(numbers)) < shape.deletes
    if shape.parquet_blocks:
        order = np.lexsort((-ts, numbers))
        numbers, ts, deleted = numbers[order], ts[order], deleted[order]
    parts = []

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(numbers), BATCH_ROWS):
            at = slice(start, start + BATCH_ROWS)
            rows = make_rows(schema, shape.columns, numbers[at], ts[at], instant, chance)
            if shape.large_row_bytes and number == start == 0:
                rows = _with_large_row(rows, shape.large_row_bytes, chance)
            if with_runs:
                parts.append(rows.append_column(DELETED_COLUMN, pa.array(deleted[at])))
            yield rows.filter(pa.array(~deleted[at])) if shape.deletes else rows

    paths = files.log_paths(number)
    write = _write_native if shape.native else _write_inline
    write(files, paths, instant, batches(), Tombstones(make_keys(numbers[deleted]), pa.array(ts[deleted])))
    if with_runs:
        run = pa.Table.from_batches(parts).take(pa.array(np.lexsort((-ts, numbers))))
        pq.write_table(run, files.folder / "runs" / f"{number:03}.parquet", compression="zstd", row_group_size=122_880)
    return paths


def _write_inline(
    files: SliceFiles, paths: Sequence[Path], instant: str, batches: Iterable[pa.RecordBatch], deletes: Tombstones
) -> None:
    with paths[0].open("wb") as sink:
        writer = LogFileWriter(
            sink,
            files.schema,
            instant=instant,
            schema_json=log_block_schema(files.shape.schema_json),
            block_type=BlockType.PARQUET_DATA if files.shape.parquet_blocks else BlockType.AVRO_DATA,
        )
        for rows in batches:
            writer.write(rows)
        if len(deletes.keys):
            writer.write_deletes(deletes.keys, deletes.ordering, partition_path="")
        writer.close()


def _write_native(
    files: SliceFiles, paths: Sequence[Path], instant: str, batches: Iterable[pa.RecordBatch], deletes: Tombstones
) -> None:
    footer = NativeLogFooter(instant, log_block_schema(files.shape.schema_json))
    with paths[0].open("wb") as sink, NativeDataWriter(sink, files.schema, file_id=FILE_ID, footer=footer) as writer:
        for rows in batches:
            writer.write(rows)
        writer.close()
    for path in paths[1:]:
        with (
            path.open("wb") as sink,
            NativeDeleteWriter(sink, footer=footer, ordering_fields=[ORDERING_COLUMN]) as of_deletes,
        ):
            of_deletes.write(deletes.keys, deletes.ordering)
            of_deletes.close()


def _with_large_row(rows: pa.RecordBatch, length: int, chance: np.random.Generator) -> pa.RecordBatch:
    texts = pa.concat_arrays([random_text(1, length, chance), rows.column(LARGE_COLUMN).slice(1)])
    return rows.set_column(rows.schema.get_field_index(LARGE_COLUMN), rows.schema.field(LARGE_COLUMN), texts)


def log_numbers(shape: Shape, log: int, chance: np.random.Generator) -> Numbers:
    """What makes the keys of a log's rows: those of the base have even numbers. No key twice, but the hot one."""
    rows = shape.log_rows
    if shape.is_log_operation:
        # A quarter of each log's keys are in the log before it, too.
        return chance.permutation(np.arange(rows, dtype=np.int64) + rows * 3 // 4 * log)
    if shape.spread is Spread.DISJOINT:
        return chance.permutation(np.arange(rows, dtype=np.int64) + 2 * shape.base_rows + rows * log)
    if shape.spread is Spread.CLUSTERED:
        apart = max(rows, shape.base_rows // shape.logs)
        return chance.permutation((np.arange(rows, dtype=np.int64) + apart * log) % shape.base_rows) * 2
    hot = rows // 2 if shape.spread is Spread.HOT else 0
    known = _drawn(shape.base_rows, (rows - hot) * 4 // 5, chance) * 2
    new = _drawn(shape.base_rows, rows - hot - len(known), chance) * 2 + 1
    return chance.permutation(np.concatenate([known[known != 0] if hot else known, new, np.zeros(hot, dtype=np.int64)]))


def _drawn(below: int, count: int, chance: np.random.Generator) -> Numbers:
    return chance.choice(below, size=min(count, below), replace=False).astype(np.int64)


def _commit(files: SliceFiles, path: Path, instant: str, rows: int) -> None:
    stat = WriteStat(
        file_id=FILE_ID,
        path=path.name,
        prev_commit="null" if path == files.base_file else str(FIRST_INSTANT),
        num_writes=rows,
        partition_path="",
        file_size_in_bytes=path.stat().st_size,
    )
    done_at = str(int(instant) + 1_000)
    complete(
        files.table, instant, done_at, "deltacommit", "deltacommit", {"": [stat]}, "UPSERT", files.shape.schema_json
    )
