"""A POSIX file system in memory, for simulations: like `LocalStorage`, only on a clock that a test holds.

A hard link is a second name of the same bytes, an unlinked file can still be written to by a process that has it open,
and a file that is being written is visible with what was flushed. Every change is reported to those who watch.

Keeps:   whatever `LocalStorage` answers, this answers (tests/simulation/test_memory_storage.py runs both).
"""

from __future__ import annotations

import io
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import BinaryIO

from lakeward.base.errors import AlreadyExists, NotFound
from lakeward.base.paths import parent
from lakeward.storage.storage import FileStatus


@dataclass(eq=False, slots=True)
class File:
    data: bytes
    modified: float


class MemoryStorage:
    def __init__(self, now: Callable[[], float], *, free_bytes: int | None = None) -> None:
        self._now = now
        self._free_bytes = free_bytes
        self._folders: dict[str, dict[str, File | None]] = {"/": {}}
        """Maps the path of a folder to its names and their files; None is a folder."""
        self._folder_modified: dict[str, float] = {"/": now()}
        self.watch: Callable[[str, str], None] = lambda change, path: None
        """Called after each change with `create`, `delete` or `touch` and the path of a file."""

    def list(self, folder: str) -> list[FileStatus]:
        entries = self._folders.get(folder)
        if entries is None:
            self._check_above(f"{folder}/x")
            return []
        prefix = folder if folder == "/" else f"{folder}/"
        return [self._status(prefix + name, file) for name, file in sorted(entries.items(), key=itemgetter(0))]

    def stat(self, path: str) -> FileStatus | None:
        if path in self._folders:
            return self._status(path, None)
        file = self._file(path)
        return None if file is None else self._status(path, file)

    def read(self, path: str) -> bytes:
        return self.file(path).data

    def open_input(self, path: str) -> BinaryIO:
        return io.BytesIO(self.file(path).data)

    def open_output(self, path: str) -> BinaryIO:
        return _Output(self, self._add(path, b""))

    def create(self, path: str, data: bytes) -> None:
        self._add(path, data)

    def touch(self, path: str) -> None:
        if path in self._folders:
            self._folder_modified[path] = self._now()
            return
        self._check_above(path)
        self.file(path).modified = self._now()
        self.watch("touch", path)

    def make_folder(self, path: str) -> None:
        if path in self._folders:
            return
        if self._file(path) is not None:
            raise FileExistsError(path)
        self.make_folder(parent(path))
        self._entries(parent(path))[posixpath.basename(path)] = None
        self._folders[path] = {}
        self._folder_modified[path] = self._now()

    def rename(self, source: str, target: str) -> None:
        if source not in self._folders:
            self.move(source, target)
            return
        if self.stat(target) is not None:
            raise _taken(target)
        if parent(target) not in self._folders:
            raise _missing(source)
        del self._entries(parent(source))[posixpath.basename(source)]
        self._entries(parent(target))[posixpath.basename(target)] = None
        for path in [path for path in self._folders if path == source or path.startswith(f"{source}/")]:
            moved = target + path[len(source) :]
            self._folders[moved] = self._folders.pop(path)
            self._folder_modified[moved] = self._folder_modified.pop(path)

    def move(self, source: str, target: str) -> None:
        self.link(source, target)
        self.delete_name(source)

    def put_over(self, source: str, target: str) -> None:
        file = self._file(source)
        if file is None or parent(target) not in self._folders:
            raise _missing(source)
        checksum = posixpath.join(parent(target), f".{posixpath.basename(target)}.crc")
        if self._file(checksum) is not None:
            self.delete_name(checksum)
            if checksum == source:
                raise _missing(source)
        if target in self._folders:
            raise IsADirectoryError(target)
        if self._file(target) is not file:
            self._entries(parent(target))[posixpath.basename(target)] = file
            self.watch("create", target)
            self.delete_name(source)

    def mark(self, path: str) -> None:
        self._add(path, b"")

    def sync(self, folder: str) -> None:
        """Everything is safe at once."""

    def link(self, source: str, target: str) -> None:
        file = self._file(source)
        if file is None or parent(target) not in self._folders:
            raise _missing(source)
        if self.stat(target) is not None:
            raise _taken(target)
        self._entries(parent(target))[posixpath.basename(target)] = file
        self.watch("create", target)

    def delete(self, path: str) -> bool:
        if path in self._folders:
            raise IsADirectoryError(path)
        if self._file(path) is None:
            self._check_above(path)
            return False
        self.delete_name(path)
        checksum = posixpath.join(parent(path), f".{posixpath.basename(path)}.crc")
        if self.stat(checksum) is not None:
            self.file(checksum)
            self.delete_name(checksum)
        return True

    def remove(self, path: str) -> bool:
        return self.delete(path)

    def delete_folder(self, path: str) -> bool:
        if path not in self._folders:
            self._check_above(f"{path}/x")
            return False
        for name, file in list(self._folders[path].items()):
            below = posixpath.join(path, name)
            if file is None:
                self.delete_folder(below)
            else:
                self.delete_name(below)
        del self._folders[path], self._folder_modified[path]
        del self._entries(parent(path))[posixpath.basename(path)]
        return True

    def free_bytes(self, path: str) -> int | None:
        return self._free_bytes

    # What simulations need beside the protocol.

    def file(self, path: str) -> File:
        """The bytes behind a name, the same object for every name they have. Raises `NotFound`."""
        if path in self._folders:
            raise IsADirectoryError(path)
        file = self._file(path)
        if file is None:
            raise _missing(path)
        return file

    def delete_name(self, path: str) -> None:
        del self._entries(parent(path))[posixpath.basename(path)]
        self.watch("delete", path)

    def names(self, folder: str) -> Sequence[str]:
        """Names in `folder`, sorted."""
        return sorted(self._folders.get(folder, ()))

    def walk(self, folder: str) -> Sequence[str]:
        """The paths of all files below `folder`."""
        return sorted(
            posixpath.join(path, name)
            for path, entries in self._folders.items()
            if path == folder or path.startswith(f"{folder}/")
            for name, file in entries.items()
            if file is not None
        )

    def _add(self, path: str, data: bytes) -> File:
        folder, name = parent(path), posixpath.basename(path)
        if folder not in self._folders:
            raise _missing(folder)
        entries = self._folders[folder]
        if name in entries:
            raise _taken(path)
        entries[name] = file = File(data, self._now())
        self._folder_modified[folder] = self._now()
        self.watch("create", path)
        return file

    def _file(self, path: str) -> File | None:
        folder, _, name = path.rpartition("/")
        return self._folders.get(folder or "/", {}).get(name)

    def _check_above(self, path: str) -> None:
        """Nothing can be below a file."""
        while (path := parent(path)) != "/":
            if self._file(path) is not None:
                raise NotADirectoryError(path)

    def _entries(self, folder: str) -> dict[str, File | None]:
        self._folder_modified[folder] = self._now()
        return self._folders[folder]

    def _status(self, path: str, file: File | None) -> FileStatus:
        if file is None:
            return FileStatus(path, 0, self._folder_modified[path], True)
        return FileStatus(path, len(file.data), file.modified, False)


class _Output(io.BytesIO):
    """A file that is being written; what was flushed is there for everybody."""

    def __init__(self, storage: MemoryStorage, file: File) -> None:
        super().__init__()
        self._storage = storage
        self._file = file

    def flush(self) -> None:
        self._file.data = self.getvalue()
        self._file.modified = self._storage._now()

    def close(self) -> None:
        if not self.closed:
            self.flush()
        super().close()


def _missing(path: str) -> NotFound:
    return NotFound(f"{path} does not exist.")


def _taken(path: str) -> AlreadyExists:
    return AlreadyExists(f"{path} exists already.")
