"""Find a table's partitions, and the files of each, by listing.

A folder is a partition when it holds the partition metadata file, in either form: Java properties, or
`.hoodie_partition_metadata.parquet` (or `.orc`) in the table's base format. Below a partition there are no others.

Touches: storage, one listing a folder.
Keeps:   the path of a partition is the text of its folders below the base path, with nothing decoded, since
         that is how Hudi's own metadata spells it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.storage.storage import FileStatus, Storage, join
from lakeward.table.table_config import HOODIE_FOLDER


@dataclass(frozen=True, slots=True)
class Partition:
    path: str
    """Below the base path; empty for the one partition of an unpartitioned table."""
    files: tuple[FileStatus, ...]


def find_partitions(storage: Storage, base_path: str) -> tuple[Partition, ...]:
    """All partitions, by path."""
    found: list[Partition] = []
    open_paths = [""]
    while open_paths:
        path = open_paths.pop()
        entries = storage.list(join(base_path, path))
        if any(is_partition_metadata(entry.name) for entry in entries if not entry.is_folder):
            found.append(Partition(path, tuple(entry for entry in entries if not entry.is_folder)))
            continue
        open_paths.extend(
            join(path, entry.name) for entry in entries if entry.is_folder and entry.name != HOODIE_FOLDER
        )
    return tuple(sorted(found, key=lambda partition: partition.path))


def list_partitions(storage: Storage, base_path: str, paths: Iterable[str]) -> tuple[Partition, ...]:
    """Those of these paths that are partitions, by path; the rest of the table is not listed."""
    found = []
    for path in sorted(set(paths)):
        files = tuple(entry for entry in storage.list(join(base_path, path)) if not entry.is_folder)
        if any(is_partition_metadata(entry.name) for entry in files):
            found.append(Partition(path, files))
    return tuple(found)
