"""Find a table's partitions, and the files of each, by listing.

A folder is a partition when it holds the partition metadata file, in either form: Java properties, or
`.hoodie_partition_metadata.parquet` (or `.orc`) in the table's base format. By listing Hudi's readers find none below a
partition; by the metadata table they find those that it lists (`p1` and `p1/x`). So what lies below a partition is one

    where the metadata table lists it
    or where a pending write has begun it: its files are of pending instants, and no reader sees any of them yet

and else an unlisted folder: a copy, another table, or rows of a writer whose commits no reader finds.

Touches: storage, one listing a folder; the metadata table's list, through the caller, where data files or partition
         metadata lie below a partition.
Keeps:   1. the path of a partition is the text of its folders below the base path, with nothing decoded, since
            that is how Hudi's own metadata writes it;
         2. no link is followed, and no folder is entered twice by another name (device and inode), so the walk ends
            where the table ends; what was found of such is said once;
         3. a partition whose name is no UTF-8 is left out, and each of its file groups is said to be frozen;
         4. a table without folders below its partitions costs no more than these listings;
         5. where some files suffice, partitions are those that come first by the names of their folders.
See:     docs/decisions/0089-partitions-one-below-another.md
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.errors import LinkInTable
from lakeward.base.paths import join
from lakeward.format.file_name import parse_any_data_file
from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.format.timeline.instant import comparable_time
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.file_group import FrozenGroup
from lakeward.table.found_link import FoundLink, StandsFor, format_path, is_text
from lakeward.table.table_config import HOODIE_FOLDER
from lakeward.table.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Partition:
    path: str
    """The path below the base path; empty for the one partition of an unpartitioned table."""
    files: tuple[FileStatus, ...]
    """Files and links, whatever these lead to."""


class Holds(StrEnum):
    DATA_FILES = "data files"
    TABLE = "another table"


@dataclass(frozen=True, slots=True, order=True)
class UnlistedFolder:
    """A folder below a partition that is none, and looks like one; with all that lies below it."""

    path: str
    """The path below the base path, as text."""
    partition_path: str
    """The nearest partition above it."""
    holds: Holds


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    partitions: tuple[Partition, ...]
    """Partitions in the order of their paths."""
    links: tuple[FoundLink, ...] = ()
    """Links in the order of their paths; those that lie in a partition are among its files."""
    nameless: tuple[FrozenGroup, ...] = ()
    """File groups in partitions whose names are no text."""
    unlisted: tuple[UnlistedFolder, ...] = ()
    """Unlisted folders in the order of their paths."""
    is_whole: bool = True
    """False where the table may have partitions behind these, which were not looked for."""


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    above: str | None
    """The uppermost partition above it."""
    entries: tuple[FileStatus, ...]


def find_partitions(
    storage: Storage,
    base_path: str,
    timeline: Timeline,
    *,
    list_nested: Callable[[], Collection[str]],
    native: bool = False,
    files_enough: int | None = None,
) -> FoundPartitions:
    """All partitions.

    Args:
        timeline: the table's, listed before.
        list_nested: reads the paths that the metadata table lists; none where readers do not use one.
        native: the table's version has native logs; file groups in partitions whose names are no text may be of such.
        files_enough: how many files suffice; partitions behind those that have them are not looked for. None: all are.
    """
    found: list[Partition] = []
    nameless: list[FrozenGroup] = []
    unlisted: dict[str, Holds] = {}
    links: list[FoundLink] = []
    nested: Collection[str] | None = None
    is_whole = True
    for folder in _walk(storage, base_path, links):
        if files_enough is not None and found and files_enough <= sum(len(each.files) for each in found):
            is_whole = False
            break
        path, entries = folder.path, folder.entries
        if folder.above is None:
            if not is_partition(entries):
                continue
            if is_text(path):
                found.append(Partition(path, files_of(entries)))
            else:
                nameless.extend(_nameless(path, entries, native=native))
            continue
        if _is_table(entries):
            unlisted[path] = Holds.TABLE
            continue
        instants = _instants_of(entries, native=native)
        if not instants and not is_partition(entries):
            continue
        if nested is None:
            nested = list_nested()
        if path in nested or (is_text(path) and is_partition(entries) and _is_begun(instants, timeline)):
            found.append(Partition(path, files_of(entries)))
        elif instants and not _is_later(instants, timeline):
            unlisted[path] = Holds.DATA_FILES
    found.sort(key=lambda partition: partition.path)
    return FoundPartitions(
        tuple(found),
        tuple(sorted(links)),
        tuple(nameless),
        tuple(_unlisted_folders(unlisted, {partition.path for partition in found})),
        is_whole,
    )


def count_files(storage: Storage, base_path: str) -> int:
    """How many files there are in folders that say that they are partitions, wherever they lie."""
    return sum(len(files_of(each.entries)) for each in _walk(storage, base_path, []) if is_partition(each.entries))


def nested_partitions(paths: Iterable[str]) -> tuple[str, ...]:
    """The partitions among these that lie below another one of them."""
    known = set(paths)
    return tuple(path for path in sorted(known) if any(each in known for each in paths_above(path)))


def folder_names(path: str) -> list[str]:
    """What partitions are ordered by where some are listed before others."""
    return path.split("/")


def paths_above(path: str) -> list[str]:
    """The paths of all folders above it, the base path's (which is empty) last."""
    above = []
    while path:
        path = path.rpartition("/")[0]
        above.append(path)
    return above


def _walk(storage: Storage, base_path: str, links: list[FoundLink]) -> Iterator[_Folder]:
    """The table's folders, those above before those below, and else by their names; each is listed when it is due.

    Args:
        links: what is found of them is added.
    """
    entered: dict[tuple[int, int], str] = {}
    open_paths: list[tuple[str, str | None]] = [("", None)]
    while open_paths:
        path, above = open_paths.pop()
        entries = tuple(storage.list(join(base_path, path)))
        yield _Folder(path, above, entries)
        if above is not None and _is_table(entries):
            continue
        if above is None and is_partition(entries):
            above = path
        for entry in reversed(entries):
            below = join(path, entry.name)
            if entry.name == HOODIE_FOLDER:
                continue
            if entry.is_link:
                if above is None:
                    stands_for = StandsFor.PARTITION if entry.is_folder else StandsFor.NOTHING
                    links.append(FoundLink(format_path(below), stands_for))
            elif entry.is_folder:
                first = below if entry.identity is None else entered.setdefault(entry.identity, below)
                if first == below:
                    open_paths.append((below, above))
                else:
                    links.append(FoundLink(format_path(below), StandsFor.PARTITION, same_as=format_path(first)))


def _unlisted_folders(unlisted: Mapping[str, Holds], partitions: Collection[str]) -> Iterator[UnlistedFolder]:
    """What lies below an unlisted folder is part of it."""
    for path in sorted(unlisted):
        if unlisted.keys().isdisjoint(paths_above(path)):
            above = next((each for each in paths_above(path) if each in partitions), "")
            yield UnlistedFolder(format_path(path), above, unlisted[path])


def _is_table(entries: Iterable[FileStatus]) -> bool:
    return any(entry.name == HOODIE_FOLDER and entry.is_folder for entry in entries)


def _instants_of(entries: Iterable[FileStatus], *, native: bool) -> set[str]:
    names = [parse_any_data_file(entry.name, native=native) for entry in files_of(entries)]
    return {name.instant for name in names if name is not None}


def _is_begun(instants: Collection[str], timeline: Timeline) -> bool:
    """True for files of pending writes alone."""
    pending = {instant.time for instant in timeline.pending}
    return not pending.isdisjoint(instants) and _is_later(set(instants) - pending, timeline)


def _is_later(instants: Iterable[str], timeline: Timeline) -> bool:
    """True when all of them began since the timeline was listed."""
    latest = timeline.latest_time
    return latest is None or all(comparable_time(instant) > comparable_time(latest) for instant in instants)


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
