"""Input in parts that tasks read each by itself.

Row groups of Parquet files are read where they lie, by this reader in the tasks and not by Spark's: a column goes from
the file into Arrow and never through Java's rows, and every type comes out as in a write without Spark. Text, and what
comes through a pipe, is read here, once, and put down in Arrow files.

Touches: the input; files in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from lakeward.write.input.files import ParquetFiles, RowSource

PART_BYTES = 64 * 1024 * 1024
"""What a task reads, uncompressed and about."""


class InputPart(Protocol):
    """Picklable."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the part, in order. Raises `UsageError`."""


@dataclass(frozen=True, slots=True)
class ArrowFile:
    path: Path

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(str(self.path)) as content, pa.ipc.open_file(content) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


class InputParts:
    """The parts of an input, in the order of its rows; a context that ends with what was put down."""

    def __init__(self, source: RowSource, *, part_bytes: int = PART_BYTES) -> None:
        self._source = source
        self._part_bytes = part_bytes
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._parts: Sequence[InputPart] | None = None

    def parts(self) -> Sequence[InputPart]:
        """Reads a source of text to its end the first time."""
        if self._parts is None:
            if isinstance(self._source, ParquetFiles):
                self._parts = self._source.parts(self._part_bytes)
            else:
                self._folder = tempfile.TemporaryDirectory(prefix="lakeward-input-")
                self._parts = list(self._put_down(Path(self._folder.name)))
        return self._parts

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _put_down(self, folder: Path) -> Iterator[ArrowFile]:
        batches = self._source.batches()
        schema = self._source.schema
        for number, first in enumerate(batches):
            path = folder / f"{number}.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                size = 0
                batch: pa.RecordBatch | None = first
                while batch is not None:
                    writer.write_batch(batch)
                    size += batch.nbytes
                    batch = next(batches, None) if size < self._part_bytes else None
            yield ArrowFile(path)
