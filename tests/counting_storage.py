"""A storage that counts the bytes read of files that are opened in place."""

from __future__ import annotations

import io
from typing import BinaryIO

from lakeward.storage.local import LocalStorage


class CountingStorage(LocalStorage):
    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open_input(self, path: str) -> BinaryIO:
        return _CountingFile(super().open_input(path), self)


class _CountingFile(io.BufferedReader):
    def __init__(self, file: BinaryIO, storage: CountingStorage) -> None:
        super().__init__(file)  # type: ignore[arg-type]
        self._storage = storage

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self._storage.bytes_read += len(data)
        return data
