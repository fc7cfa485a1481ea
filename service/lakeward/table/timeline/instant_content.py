"""The bytes of timeline files: none is read that is larger than the table's files justify.

A plan or a commit says some hundred bytes about each file that it names, so a table of few files has no large ones.
How many files there are is asked for only when a file is larger than any table may have it.

Touches: storage, reading; one walk over the table's folders where a timeline file is very large.
Keeps:   a file above the bound is a `BrokenFile` before a byte of it is read.
"""

from __future__ import annotations

from lakeward.base.errors import BrokenFile
from lakeward.base.paths import join
from lakeward.storage.storage import Storage
from lakeward.table.partition import count_files
from lakeward.table.table_config import TableConfig, timeline_folder
from lakeward.table.timeline.timeline import Timeline

_BYTES_MIN = 16 * 1024 * 1024
"""Enough for what is said about some 30,000 files, which may be gone from the table by now."""
_BYTES_OF_A_FILE = 4 * 1024


class InstantContents:
    """Reads the files of one timeline, with the sizes in its listing."""

    def __init__(self, storage: Storage, base_path: str, config: TableConfig, timeline: Timeline) -> None:
        self._storage = storage
        self._base_path = base_path
        self._folder = timeline_folder(base_path, config)
        self._timeline = timeline
        self._bytes_max = _BYTES_MIN
        self._is_counted = False

    def path(self, file_name: str) -> str:
        return join(self._folder, file_name)

    def read(self, file_name: str) -> bytes:
        """The whole file. Raises `BrokenFile` where it is too large, `NotFound` where it is gone."""
        path = self.path(file_name)
        size = self._timeline.sizes.get(file_name, 0)
        if size > self._bytes_max and not self._is_counted:
            self._bytes_max += count_files(self._storage, self._base_path) * _BYTES_OF_A_FILE
            self._is_counted = True
        if size > self._bytes_max:
            raise BrokenFile(
                f"{path} is too large for a file of this timeline.",
                why=f"It has {size} bytes, and the files of this table justify {self._bytes_max}.",
                remedy="Find out who wrote it; restore it, or roll back the instant it belongs to.",
            )
        return self._storage.read(path)
