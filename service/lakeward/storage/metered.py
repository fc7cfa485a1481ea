"""A storage that counts the files and bytes that are read through it, and reports them as they are read.

Touches: what the storage below it does.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, cast

from lakeward.storage.storage import FileStatus, Storage


class MeteredStorage:
    """The storage below with a tally. What renames or replaces is asked of the storage below itself."""

    def __init__(self, storage: Storage, *, on_read: Callable[[int], None] = lambda size: None) -> None:
        """
        Args:
            on_read: called after each reading with the number of bytes.
        """
        self._storage = storage
        self._on_read = on_read
        self.files_opened = 0
        self.bytes_read = 0

    def list(self, folder: str) -> list[FileStatus]:
        return self._storage.list(folder)

    def stat(self, path: str) -> FileStatus | None:
        return self._storage.stat(path)

    def read(self, path: str) -> bytes:
        data = self._storage.read(path)
        self.files_opened += 1
        self.took(len(data))
        return data

    def took(self, size: int) -> None:
        """So many bytes were read."""
        self.bytes_read += size
        self._on_read(size)

    def open_input(self, path: str) -> BinaryIO:
        file = self._storage.open_input(path)
        self.files_opened += 1
        return cast(BinaryIO, MeteredFile(file, self))

    def open_output(self, path: str) -> BinaryIO:
        return self._storage.open_output(path)

    def create(self, path: str, data: bytes) -> None:
        self._storage.create(path, data)

    def make_folder(self, path: str) -> None:
        self._storage.make_folder(path)

    def delete(self, path: str) -> bool:
        return self._storage.delete(path)

    def delete_folder(self, path: str) -> bool:
        return self._storage.delete_folder(path)

    def free_bytes(self, path: str) -> int | None:
        return self._storage.free_bytes(path)


class MeteredFile(io.RawIOBase):
    def __init__(self, file: BinaryIO, meter: MeteredStorage) -> None:
        self._file = file
        self._meter = meter

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int | None = -1) -> bytes:
        data = self._file.read(-1 if size is None else size)
        self._meter.took(len(data))
        return data

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
