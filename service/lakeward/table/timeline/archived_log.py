"""The end of the archive of a timeline of layout 1, and what was added to it since.

Archivers write what they are about to delete from the timeline, so that an instant which is on it no more is here.

    t1 the archive is listed; t2 the timeline is listed; t3 …; t4 what was added to the archive since t1 is read

What completed behind t2 and was archived by t4 is among that, since it was archived behind t1.

Touches: storage, reading: one listing, and the files with a greater number or another size.
Keeps:   no entry is passed over that was added to the archive since it was listed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.storage.storage import Storage, join
from lakeward.table.table_config import TableConfig, hoodie_folder
from lakeward.table.timeline.archived_entries import ArchivedEntry, parse_archive_number, read_archived_entries


@dataclass(frozen=True, slots=True, order=True)
class ArchiveEnd:
    """The archive as it was once: its file of the greatest number, which alone is appended to."""

    number: int = 0
    size: int = 0


def load_archive_end(storage: Storage, base_path: str, config: TableConfig) -> ArchiveEnd:
    return max((end for end, _ in _files(storage, base_path, config)), default=ArchiveEnd())


def load_entries_since(
    storage: Storage, base_path: str, config: TableConfig, end: ArchiveEnd
) -> Iterator[ArchivedEntry]:
    """What was archived since, and maybe some that was there. Raises `BrokenFile`, `Unsupported`; `NotFound`
    where files were merged meanwhile."""
    for found, path in sorted(_files(storage, base_path, config)):
        if found.number >= end.number and found != end:
            with storage.open_input(path) as file:
                behind = end.size if found.number == end.number and found.size > end.size else 0
                yield from read_archived_entries(file, found.size, name=path, behind=behind)


def _files(storage: Storage, base_path: str, config: TableConfig) -> Iterator[tuple[ArchiveEnd, str]]:
    folder = join(hoodie_folder(base_path), config.archive_folder)
    for status in storage.list(folder):
        if not status.is_folder and (number := parse_archive_number(status.name)) is not None:
            yield ArchiveEnd(number, status.size), status.path
