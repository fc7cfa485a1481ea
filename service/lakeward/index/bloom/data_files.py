"""The data files of which the cache of filters knows keys, and what is known of the keys of each.

    base file    range and filter of its footer
    log          the keys of all its rows and deletes, whatever became of them: their range, and a filter as Hudi makes
                 one for a base file. Logs themselves say neither

Touches: base files, of which the footer is read; logs, which are read whole.
Memory:  the keys of one log.
Source:  RFC-06 (bloom filters and ranges of log files)
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.format.bloom_lookup import TYPE_CODE
from lakeward.format.parquet.key_summary import KeySummary
from lakeward.index.base_files import BaseFiles
from lakeward.index.bloom.file_keys import FileKeys
from lakeward.read.newest_slice import newest_slice
from lakeward.read.slice_keys import log_keys
from lakeward.storage.storage import Storage, join
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True, order=True)
class DataFile:
    path: str
    """Relative to the base path."""
    size: int
    is_log: bool = False


def data_files(snapshot: TableSnapshot, *, with_logs: bool) -> list[DataFile]:
    """The files that lookups ask, in the order of their paths: neighbours are in one file of the cache."""
    bases = [DataFile(file.path, file.size) for files in BaseFiles.of(snapshot).files.values() for file in files]
    if not with_logs:
        return sorted(bases)
    slices = (newest_slice(group.slices) for group in snapshot.file_groups)
    logs = {log for slice_ in slices if slice_ is not None for log in slice_.row_logs}
    return sorted([*bases, *(DataFile(log.path, log.size, is_log=True) for log in logs)])


def read_file_keys(storage: Storage, snapshot: TableSnapshot, file: DataFile) -> FileKeys:
    """Raises `BrokenFile`, `NotFound`, and of a log `Unsupported`."""
    if not file.is_log:
        return FileKeys.of_file(storage, join(snapshot.base_path, file.path))
    summary = KeySummary(keys_expected=None, bloom_type=TYPE_CODE)
    for keys in log_keys(storage, snapshot, file.path):
        if len(keys):
            summary.add(keys)
    return FileKeys.of_footer({name.encode(): value.encode() for name, value in summary.entries().items()})
