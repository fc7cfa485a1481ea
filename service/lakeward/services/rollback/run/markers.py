"""The markers of a write: which data files it may have put into the table, and so into which partitions.

    .hoodie/.temp/<instant>/<partition>/<file>.marker.<CREATE|MERGE|APPEND>   one file each: direct markers
    .hoodie/.temp/<instant>/MARKERS<n>                                        the same as lines of lists, where
    .hoodie/.temp/<instant>/MARKERS.type                                      says TIMELINE_SERVER_BASED

A writer creates a marker before its data file. They are written for another engine's rollback, so what they name is
checked: the partitions only, whose files are then told by the instant in their names.

Touches: the folder of one instant, reading only.
Keeps:   1. a partition that leads out of the table is refused (`UntrustedName`);
         2. where there is no marker the answer is None, never "no partition".
Source:  MarkerBasedRollbackUtils, MarkerUtils, WriteMarkers (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.base.errors import BrokenFile
from lakeward.format.file_name import check_relative_path
from lakeward.protocol.attempts.attempt_files import MARKER, MARKERS, MARKERS_IN_LISTS, MARKERS_TYPE, temp_folder
from lakeward.storage.storage import Storage, join


def marked_partitions(storage: Storage, base_path: str, instant: str) -> frozenset[str] | None:
    """The partitions that markers of `instant` name. None where it has no markers."""
    folder = temp_folder(base_path, instant)
    entries = {status.name: status for status in storage.list(folder)}
    if MARKERS_TYPE in entries:
        kind = storage.read(entries[MARKERS_TYPE].path)
        if kind.strip() != MARKERS_IN_LISTS:
            raise BrokenFile(
                f"{entries[MARKERS_TYPE].path} says {kind[:40]!r}.",
                why=f"What names the files of the write is {MARKERS_IN_LISTS.decode()}, or nothing says so.",
                remedy="Find out which program wrote it; nothing was deleted.",
            )
        lists = [status.path for name, status in entries.items() if name.startswith(MARKERS) and name != MARKERS_TYPE]
        named: Iterator[str] = (line for path in lists for line in storage.read(path).decode().splitlines())
    else:
        named = _direct_markers(storage, folder)
    partitions = frozenset(marker.rpartition("/")[0] for marker in named if MARKER in marker)
    return frozenset(check_relative_path(path) for path in partitions) or None


def _direct_markers(storage: Storage, folder: str) -> Iterator[str]:
    """Their paths below the folder."""
    folders = [""]
    while folders:
        below = folders.pop()
        for status in storage.list(join(folder, below)):
            path = join(below, status.name)
            if status.is_folder:
                folders.append(path)
            else:
                yield path
