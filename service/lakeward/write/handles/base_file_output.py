"""A base file of the table's rows that is written, and read back before it is anything.

Touches: the file, where `engine/task/operation_output` says.
Keeps:   it is finished only if it reads back as what it was given.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from lakeward.engine.task.operation_output import (
    FileStatistics,
    OutputPlace,
    SizeWatch,
    open_operation_output,
    output_path,
)
from lakeward.engine.task.operation_spec import ChangeLog
from lakeward.engine.task.verification import check_digest
from lakeward.format.avro.schema import table_schema
from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.base_file import BaseFileWriter, open_base_file
from lakeward.format.timeline.commit_metadata import WriteStat
from lakeward.merge.digest import Digest
from lakeward.merge.rules.merge_rules import FILE_NAME_FIELD
from lakeward.storage.storage import Storage
from lakeward.write.target import WriteContext, WrittenFile


@dataclass(frozen=True, slots=True)
class FinishedBaseFile:
    name: str
    rows: int
    size_bytes: int
    column_stats: tuple[ColumnStatsRecord, ...]
    bloom_error_rate: float | None
    digest: str
    """Hexadecimal, over the rows without the file's name; without verification over those that brought hashes."""

    def written(
        self, stat: WriteStat, *, replaces_base_file: bool = False, change_log: ChangeLog | None = None
    ) -> WrittenFile:
        return WrittenFile(
            self.name,
            self.size_bytes,
            stat,
            self.column_stats,
            replaces_base_file=replaces_base_file,
            change_log=change_log,
            bloom_error_rate=self.bloom_error_rate,
        )


class BaseFileOutput:
    """One file. A context manager; `finish` it, or it is no result."""

    def __init__(
        self,
        storage: Storage,
        context: WriteContext,
        place: OutputPlace,
        name: str,
        *,
        required: Collection[str],
        bloom_type: str = TYPE_CODE,
        keys_expected: int | None = None,
        dictionaries: Collection[str] = (),
        replaces_base_file: bool = False,
    ) -> None:
        """
        Args:
            required: columns that hold no null, and are written so.
            keys_expected: sizes the bloom filter; without it all keys are held in memory.
            dictionaries: columns that come as dictionaries.
        """
        self._storage = storage
        self._context = context
        self._place = place
        self._name = name
        self._required = required
        self._bloom_type = bloom_type
        self._keys_expected = keys_expected
        self._dictionaries = dictionaries
        self._replaces_base_file = replaces_base_file
        self._schema = table_schema(context.schema)
        self._digest = Digest()
        self._size = SizeWatch(context.sizes.max_file)
        self._open = ExitStack()
        self._statistics = FileStatistics(context.indexed, self._schema)

    def __enter__(self) -> Self:
        sink = self._open.enter_context(
            open_operation_output(self._storage, self._place, self._name, replaces_base_file=self._replaces_base_file)
        )
        self._writer = self._open.enter_context(
            BaseFileWriter(
                sink,
                self._schema,
                file_name=self._name,
                codec=self._context.codec,
                keys_expected=self._keys_expected,
                bloom_type=self._bloom_type,
                bloom_bytes_max=min(self._context.bloom_bytes_max, self._context.budget.bloom_filter),
                required=self._required,
                row_group_bytes=self._context.budget.row_group,
                dictionaries=self._dictionaries,
            )
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, traceback)

    @property
    def is_full(self) -> bool:
        """It is as large as files should be, as far as can be known without asking all the time."""
        return self._size.is_full(self._writer.estimate_size)

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows of the table; the column of the file's name may be missing."""
        if self._context.verify:
            self._digest.update(rows)
        self._append(rows)

    def write_hashed(self, rows: pa.RecordBatch) -> None:
        """The same for rows that bring along the hashes that they had when they were read."""
        self._append(self._digest.take_hashes(rows))

    def _append(self, rows: pa.RecordBatch) -> None:
        self._statistics.add(rows)
        self._writer.write(rows)
        self._size.add(rows.nbytes)

    def finish(self, *, is_sorted: bool) -> FinishedBaseFile:
        """Write the footer, and read the file back. Raises `VerificationFailed`.

        Args:
            is_sorted: the rows were written in the order of their keys' bytes, no key twice.
        """
        stats = self._writer.close(is_sorted=is_sorted)
        self._open.close()
        path = output_path(self._storage, self._place, self._name)
        if self._context.verify:
            self._verify(path)
        records = self._statistics.records(self._storage, path)
        return FinishedBaseFile(
            self._name, stats.rows, stats.size_bytes, records, stats.bloom_error_rate, self._digest.hexdigest
        )

    def _verify(self, path: str) -> None:
        read_back = Digest()
        columns = pa.schema([column for column in self._schema if column.name != FILE_NAME_FIELD])
        budget = self._context.budget
        # What could be written can be read back: its pages are no larger than a row group and the batch that filled it.
        bytes_max = budget.row_group + budget.batch
        with self._storage.open_input(path) as source:
            for batch in open_base_file(source, columns, name=self._name, bytes_max=bytes_max):
                read_back.update(batch)
        check_digest(merged=self._digest.hexdigest, written=read_back.hexdigest)
        assert read_back.rows == self._digest.rows
