"""A storage each call of which goes through one place, where a subclass lets things go wrong."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TypeVar

from lakeward.base.paths import join, parent
from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from lakeward.storage.storage import FileStatus

T = TypeVar("T")

WRITES = (
    "open_output",
    "close",
    "append",
    "create",
    "touch",
    "make_folder",
    "rename",
    "move",
    "put_over",
    "mark",
    "remove",
    "sync",
    "link",
    "delete",
    "delete_folder",
)
TEARABLE = ("close", "create", "append")


class CalledStorage(ABC):
    _torn = "torn"
    """What the name of a file ends in that a process died over, before the suffix of temporary files."""

    def __init__(self, inner: LocalStorage) -> None:
        self._inner = inner

    @abstractmethod
    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        """Carry the call out, or what goes wrong with it; `tear` leaves what a process that dies over it leaves."""

    def _tear_create(self, path: str, data: bytes) -> None:
        # Real storage writes under a temporary name, so this is all that a torn create leaves.
        temporary = join(parent(path), f".{path.rpartition('/')[2]}.{self._torn}{TEMPORARY_SUFFIX}")
        if self._inner.stat(temporary) is None:
            self._inner.create(temporary, data[: len(data) // 2])

    @abstractmethod
    def _tear_output(self, path: str, file: BinaryIO) -> None: ...

    def list(self, folder: str) -> list[FileStatus]:
        return self._call("list", folder, lambda: self._inner.list(folder))

    def stat(self, path: str) -> FileStatus | None:
        return self._call("stat", path, lambda: self._inner.stat(path))

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self._inner.read(path))

    def open_input(self, path: str) -> BinaryIO:
        return self._call("open_input", path, lambda: self._inner.open_input(path))

    def open_output(self, path: str) -> BinaryIO:
        file = self._call("open_output", path, lambda: self._inner.open_output(path))
        return _CalledOutput(file, path, self)  # type: ignore[return-value]

    @contextmanager
    def try_lock(self, path: str) -> Iterator[bool]:
        held = self._call("try_lock", path, lambda: self._inner.try_lock(path))
        with held as is_held:
            yield is_held

    def append(self, path: str, data: bytes, *, at: int) -> None:
        self._call(
            "append",
            path,
            lambda: self._inner.append(path, data, at=at),
            lambda: self._inner.append(path, data[: len(data) // 2], at=at),
        )

    def create(self, path: str, data: bytes) -> None:
        self._call("create", path, lambda: self._inner.create(path, data), lambda: self._tear_create(path, data))

    def touch(self, path: str) -> None:
        self._call("touch", path, lambda: self._inner.touch(path))

    def make_folder(self, path: str) -> None:
        self._call("make_folder", path, lambda: self._inner.make_folder(path))

    def rename(self, source: str, target: str) -> None:
        self._call("rename", target, lambda: self._inner.rename(source, target))

    def move(self, source: str, target: str) -> None:
        self._call("move", target, lambda: self._inner.move(source, target))

    def put_over(self, source: str, target: str) -> None:
        self._call("put_over", target, lambda: self._inner.put_over(source, target))

    def mark(self, path: str) -> None:
        self._call("mark", path, lambda: self._inner.mark(path))

    def remove(self, path: str) -> bool:
        return self._call("remove", path, lambda: self._inner.remove(path))

    def sync(self, folder: str) -> None:
        self._call("sync", folder, lambda: self._inner.sync(folder))

    def link(self, source: str, target: str) -> None:
        self._call("link", target, lambda: self._inner.link(source, target))

    def delete(self, path: str) -> bool:
        return self._call("delete", path, lambda: self._inner.delete(path))

    def delete_folder(self, path: str) -> bool:
        return self._call("delete_folder", path, lambda: self._inner.delete_folder(path))

    def free_bytes(self, path: str) -> int | None:
        return self._call("free_bytes", path, lambda: self._inner.free_bytes(path))


class _CalledOutput(io.RawIOBase):
    """Its closing is a call of its own: that is when the bytes are there for good."""

    def __init__(self, file: BinaryIO, path: str, storage: CalledStorage) -> None:
        self._file = file
        self._path = path
        self._storage = storage

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return self._file.write(data)  # type: ignore[arg-type]

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        if not self._file.closed:
            self._file.flush()

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._storage._call(
                "close", self._path, self._file.close, lambda: self._storage._tear_output(self._path, self._file)
            )
        finally:
            super().close()
