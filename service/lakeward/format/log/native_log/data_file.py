"""Write a native log of rows: the Parquet file that a base file would be, with the log's footer in place of the keys'.

`_hoodie_file_name` is the file's id in every row, as in all logs. Bloom filter and range of keys are left out: the
index never reads them from logs. Row groups, pages, dictionaries and codec are those of base files.

Touches: the sink it is given, by appending; it is never read or closed.
Keeps:   1. rows are in the order of their keys' bytes, no key twice, or the writer stops: readers of an `lsm_tree`
            table trust the order of each file;
         2. positions are written only where that of each row is known;
         3. what is written is held for two row groups and a quarter (`parquet/base_file.py`), and a number for each row
            where positions are written.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.format.avro.program import compile_schema
from lakeward.format.avro.schema import parse_schema, required_columns
from lakeward.format.log.log_tail import LogTailBuilder
from lakeward.format.log.native_log.footer import NativeLogFooter, RecordPositions, encode_footer
from lakeward.format.parquet.base_file import ROW_GROUP_BYTES, BaseFileWriter

_KEY_COLUMN = "_hoodie_record_key"


@dataclass(frozen=True, slots=True)
class NativeLogStats:
    """What was written."""

    rows: int
    """Rows, deletes or changes."""
    size_bytes: int


class NativeDataWriter:
    """Writes one log of rows. Close it, or the sink holds no file. A context manager, as `BaseFileWriter` is."""

    def __init__(
        self,
        sink: BinaryIO,
        schema: pa.Schema,
        *,
        file_id: str,
        footer: NativeLogFooter,
        positions_in: str | None = None,
        codec: str = "zstd",
        dictionaries: Collection[str] = (),
        row_group_bytes: int = ROW_GROUP_BYTES,
        tail: LogTailBuilder | None = None,
    ) -> None:
        """
        Args:
            schema: of every batch: the meta columns, then those of the table or, in a partial file, some of them.
            footer: without positions. Its schema is the same in Avro.
            positions_in: the instant of the base file in which the positions of rows count; None to write none.
            dictionaries: columns of strings that come as dictionaries.
            tail: gets the keys, and is written into the footer.
        """
        program = compile_schema(parse_schema(footer.schema_json, where="the native log"))
        assert program.schema.names == schema.names and program.schema.types == schema.types
        self._footer = footer
        self._tail = tail
        self._positions = PositionsOfRows(positions_in)
        self._order = AscendingKeys()
        self._writer = BaseFileWriter(
            sink,
            schema,
            file_name=file_id,
            codec=codec,
            required=required_columns(footer.schema_json),
            row_group_bytes=row_group_bytes,
            dictionaries=dictionaries,
            has_keys=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, traceback)

    def write(
        self, batch: pa.RecordBatch, positions: npt.NDArray[np.int64] | None = None, *, keys: pa.Array | None = None
    ) -> None:
        """Append rows; the column of the file's name may be missing.

        Args:
            positions: of these rows in the base file, -1 where a row is not in it.
            keys: of these rows, where they carry none.
        """
        keys = batch.column(_KEY_COLUMN) if keys is None else keys
        self._order.add(keys)
        if self._tail is not None:
            self._tail.add(keys)
        self._positions.add(positions, batch.num_rows)
        self._writer.write(batch)

    def estimate_size(self) -> int:
        """About how many bytes the file would have if it were closed now, as `BaseFileWriter` estimates it."""
        return self._writer.estimate_size()

    def close(self) -> NativeLogStats:
        """Write what is left, then the footer. The sink stays open, since it is the caller's."""
        footer = replace(self._footer, positions=self._positions.found)
        entries = encode_footer(footer)
        if self._tail is not None:
            entries |= self._tail.close_as_entry(bytes_before=self._writer.end_rows())
        stats = self._writer.close(entries=entries)
        return NativeLogStats(stats.rows, stats.size_bytes)


class AscendingKeys:
    """Sees to it that keys come in the order of their UTF-8 bytes, each once."""

    def __init__(self) -> None:
        self._last: str | None = None

    def add(self, keys: pa.Array) -> None:
        if not len(keys):
            return
        assert keys.null_count == 0, "a row without a key cannot be merged"
        # Arrow compares text by its bytes.
        first = keys[0].as_py()
        assert self._last is None or first.encode() > self._last.encode(), "keys do not ascend"
        is_greater = pc.all(pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py()
        assert is_greater is not False, "keys do not ascend"
        self._last = keys[-1].as_py()


class PositionsOfRows:
    """Gathers the positions of all rows of a file, until one of them is not known."""

    def __init__(self, base_instant: str | None) -> None:
        self._base_instant = base_instant
        self._parts: list[npt.NDArray[np.int64]] = []

    def add(self, positions: npt.NDArray[np.int64] | None, rows: int) -> None:
        if self._base_instant is None or not rows:
            return
        if positions is None or bool((positions < 0).any()):
            self._base_instant, self._parts = None, []
            return
        assert len(positions) == rows
        self._parts.append(np.asarray(positions, dtype=np.int64))

    @property
    def found(self) -> RecordPositions | None:
        """None where they are not written."""
        if self._base_instant is None:
            return None
        return RecordPositions.of(self._base_instant, np.concatenate([np.zeros(0, dtype=np.int64), *self._parts]))
