"""The log files that a delta commit writes into one file group of the metadata table.

    before version 10     one file: a block for each run of entries, behind them blocks of deleted keys
    from version 10 on    a file for each run of entries, and files of deleted keys

        <file id>_<token>_<instant>_1.log.hfile ... _<n>.log.hfile, _<n>.deletes.hfile, _<n + 1>.deletes.hfile ...

As a rule that is one of each, with one version, as Hudi's writer makes of one flush. Readers take files of one instant
by their versions, and within a version the entries first, so what is deleted comes last, as in a file of blocks.

Touches: the attempt's folder.
Keeps:   1. no file is without an entry or a deleted key;
         2. in either form readers find the same records in the same order.
Source:  Hudi 1.2; HoodieNativeLogAppendHandle, HoodieNativeLogFormatWriter (Hudi's master of August 2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import BinaryIO, Protocol

import pyarrow as pa

from lakeward.base.paths import join
from lakeward.format.file_name import HFILE, LogFileName, NativeLogKind, NativeLogName
from lakeward.format.metadata.log_file import (
    NativeMetadataDeletes,
    write_metadata_deletes,
    write_metadata_log,
    write_native_metadata_log,
)
from lakeward.format.timeline.commit_metadata import RuntimeStats, WriteStat, file_stat, log_stat
from lakeward.storage.storage import Storage

_FIRST_VERSION = 1


class OpenLogs(Protocol):
    def add_entries(self, entries: Iterable[tuple[str, bytes]]) -> None:
        """A run of them, ascending by key; before what is deleted."""

    def add_deletes(self, keys: pa.StringArray) -> None:
        """Ascending, each once."""


@dataclass(frozen=True, slots=True)
class GroupLogs:
    """The logs of one file group: the place that they go to, and what they have in common."""

    storage: Storage
    folder: str
    """The attempt's."""
    partition: str
    file_id: str
    instant: str
    write_token: str
    schema_json: str
    """The schema of the records."""
    native: bool
    """The metadata table's version has native logs."""
    written: list[WriteStat] = field(default_factory=list)
    """What the commit says of each file, once the logs are closed; their paths end with the files' names."""

    @contextmanager
    def open(self) -> Iterator[OpenLogs]:
        with ExitStack() as files:
            if self.native:
                logs = _NativeLogs(self, files)
                yield logs
                logs.close()
            else:
                name = LogFileName(self.file_id, self.instant, _FIRST_VERSION, self.write_token).text
                inline = _InlineLog(self, files.enter_context(self.storage.open_output(join(self.folder, name))))
                yield inline
                files.close()
                assert inline.size_bytes, "a log file has a block"
                self._wrote(name, _FIRST_VERSION, inline.size_bytes, entries=inline.entries, deletes=inline.deletes)
        assert self.written, "a file group whose logs are opened has something to be written"

    def _wrote(self, name: str, version: int, size: int, *, entries: int = 0, deletes: int = 0) -> None:
        """Field by field as Hudi writes it."""
        older = tuple(file for stat in self.written[-1:] for file in stat.log_files or ())
        of_file = file_stat(self.partition, self.file_id, name, size)
        stat = replace(
            log_stat(of_file, version=version, names_before=older),
            prev_commit=self.instant,
            num_writes=entries,
            num_deletes=deletes,
            num_update_writes=entries,
            runtime_stats=RuntimeStats(total_scan_time=0, total_create_time=0, total_upsert_time=0),
        )
        self.written.append(stat)


@dataclass(slots=True)
class _InlineLog:
    of: GroupLogs
    sink: BinaryIO
    entries: int = 0
    deletes: int = 0
    size_bytes: int = 0

    def add_entries(self, entries: Iterable[tuple[str, bytes]]) -> None:
        of = self.of
        written = write_metadata_log(self.sink, instant=of.instant, schema_json=of.schema_json, entries=entries)
        self.entries += written.entries
        self.size_bytes += written.size_bytes

    def add_deletes(self, keys: pa.StringArray) -> None:
        of = self.of
        written = write_metadata_deletes(
            self.sink, instant=of.instant, schema_json=of.schema_json, partition=of.partition, keys=keys
        )
        self.deletes += written.entries
        self.size_bytes += written.size_bytes


@dataclass(slots=True)
class _Deletes:
    """An open file of deleted keys."""

    name: NativeLogName
    writer: NativeMetadataDeletes
    sink: ExitStack
    last: str


class _NativeLogs:
    def __init__(self, of: GroupLogs, files: ExitStack) -> None:
        """
        Args:
            files: closes what is open where the caller fails.
        """
        self._of = of
        self._files = files
        self._next = NativeLogName(of.file_id, of.write_token, of.instant, _FIRST_VERSION, NativeLogKind.DATA, HFILE)
        self._deletes: _Deletes | None = None

    def add_entries(self, entries: Iterable[tuple[str, bytes]]) -> None:
        of, name = self._of, self._next
        assert name.kind is NativeLogKind.DATA, "entries come before what is deleted"
        run = iter(entries)
        if (first := next(run, None)) is None:
            return
        with of.storage.open_output(join(of.folder, name.text)) as sink:
            stats = write_native_metadata_log(
                sink, instant=of.instant, schema_json=of.schema_json, entries=chain((first,), run)
            )
        of._wrote(name.text, name.version, stats.size_bytes, entries=stats.entries)
        self._next = replace(name, version=name.version + 1)

    def add_deletes(self, keys: pa.StringArray) -> None:
        if not len(keys):
            return
        first, last = keys[0].as_py(), keys[-1].as_py()
        if self._deletes is not None and self._deletes.last.encode() >= first.encode():
            self.close()
        if self._deletes is None:
            self._deletes = self._begin_deletes(last)
        self._deletes.writer.add(keys.to_pylist())
        self._deletes.last = last

    def close(self) -> None:
        """Close the file of deletes that is open, if there is one."""
        if (deletes := self._deletes) is None:
            return
        stats = deletes.writer.close()
        deletes.sink.close()
        self._of._wrote(deletes.name.text, deletes.name.version, stats.size_bytes, deletes=stats.entries)
        self._deletes = None

    def _begin_deletes(self, last: str) -> _Deletes:
        of, name = self._of, self._next
        if name.kind is NativeLogKind.DATA:
            # The first file of deletes has the version of the last one of entries.
            name = replace(name, kind=NativeLogKind.DELETES, version=max(name.version - 1, _FIRST_VERSION))
        self._next = replace(name, version=name.version + 1)
        sink = self._files.enter_context(ExitStack())
        file = sink.enter_context(of.storage.open_output(join(of.folder, name.text)))
        return _Deletes(name, NativeMetadataDeletes(file, instant=of.instant, schema_json=of.schema_json), sink, last)
