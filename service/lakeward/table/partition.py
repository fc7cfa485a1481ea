"""Find a table's partitions, and the files of each, by listing.

A folder is a partition when it holds the partition metadata file, in either form: Java properties, or
`.hoodie_partition_metadata.parquet` (or `.orc`) in the table's base format. Below a partition there are no others.

Touches: storage, one listing a folder.
Keeps:   1. the path of a partition is the text of its folders below the base path, with nothing decoded, since
            that is how Hudi's own metadata writes it;
         2. no link is followed, and no folder is entered twice by another name (device and inode), so the walk ends
            where the table ends; what was found of such is said once;
         3. a partition whose name is no UTF-8 is left out, and each of its file groups is said to be frozen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.errors import LinkInTable
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.storage.storage import FileStatus, Storage, join
from lakeward.table.file_group import FrozenGroup
from lakeward.table.found_link import FoundLink, StandsFor, format_path, is_text
from lakeward.table.table_config import HOODIE_FOLDER


@dataclass(frozen=True, slots=True)
class Partition:
    path: str
    """The path below the base path; empty for the one partition of an unpartitioned table."""
    files: tuple[FileStatus, ...]
    """Files and links, whatever these lead to."""


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    partitions: tuple[Partition, ...]
    """Partitions in the order of their paths."""
    links: tuple[FoundLink, ...] = ()
    """Links in the order of their paths; those that lie in a partition are among its files."""
    nameless: tuple[FrozenGroup, ...] = ()
    """File groups in partitions whose names are no text."""


def find_partitions(storage: Storage, base_path: str, *, native: bool = False) -> FoundPartitions:
    """All partitions.

    Args:
        native: the table's version has native logs; file groups in partitions whose names are no text may be of such.
    """
    found: list[Partition] = []
    links: list[FoundLink] = []
    nameless: list[FrozenGroup] = []
    entered: dict[tuple[int, int], str] = {}
    open_paths = [""]
    while open_paths:
        path = open_paths.pop()
        entries = storage.list(join(base_path, path))
        if is_partition(entries):
            if is_text(path):
                found.append(Partition(path, files_of(entries)))
            else:
                nameless.extend(_nameless(path, entries, native=native))
            continue
        for entry in reversed(entries):
            below = join(path, entry.name)
            if entry.name == HOODIE_FOLDER:
                continue
            if entry.is_link:
                stands_for = StandsFor.PARTITION if entry.is_folder else StandsFor.NOTHING
                links.append(FoundLink(format_path(below), stands_for))
            elif entry.is_folder:
                first = below if entry.identity is None else entered.setdefault(entry.identity, below)
                if first == below:
                    open_paths.append(below)
                else:
                    links.append(FoundLink(format_path(below), StandsFor.PARTITION, same_as=format_path(first)))
    found.sort(key=lambda partition: partition.path)
    return FoundPartitions(tuple(found), tuple(sorted(links)), tuple(nameless))


def list_partitions(storage: Storage, base_path: str, paths: Iterable[str]) -> FoundPartitions:
    """Partitions among these paths; the rest of the table is not listed."""
    found = []
    links = []
    for path in sorted(set(paths)):
        try:
            entries = storage.list(join(base_path, path))
        except LinkInTable:
            links.append(FoundLink(format_path(path), StandsFor.PARTITION))
            continue
        if is_partition(entries):
            found.append(Partition(path, files_of(entries)))
    return FoundPartitions(tuple(found), tuple(links))


def _nameless(path: str, entries: Iterable[FileStatus], *, native: bool) -> list[FrozenGroup]:
    """The file groups of a partition that no plan can name, with the newest instant of each."""
    instants: dict[str, str] = {}
    for entry in entries:
        if (name := parse_any_data_file(entry.name, native=native)) is not None:
            instants[name.file_id] = max(name.instant, instants.get(name.file_id, ""))
    why = "the name of its partition is no UTF-8, so neither a plan nor any program of Hudi's can name it"
    return [FrozenGroup(format_path(path), *group, why, is_nameable=False) for group in sorted(instants.items())]


def is_partition(entries: Iterable[FileStatus]) -> bool:
    return any(is_partition_metadata(entry.name) for entry in entries if not entry.is_folder)


def files_of(entries: Iterable[FileStatus]) -> tuple[FileStatus, ...]:
    """What a partition is made of, of the entries of its folder."""
    return tuple(entry for entry in entries if entry.is_link or not entry.is_folder)
