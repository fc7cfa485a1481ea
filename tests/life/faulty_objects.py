"""The storage in memory as one process reaches it that takes it for an object store: as `faulty_memory.py` otherwise.

There are no folders but in names, a file is seen once it is closed, and one that was read is replaced if it is still
the same. What is `/t` in the storage is `s3://lake/t` to the process: only such a table has its lock in the store.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import BinaryIO, TypeVar, cast

from lakeward.base.errors import AlreadyExists, NotFound, VersionChanged
from lakeward.base.paths import parent
from lakeward.storage.storage import FileStatus, Version
from tests.faults import Fault, Faulted
from tests.simulation.memory_storage import MemoryStorage

T = TypeVar("T")

LAKE = "s3://lake"


class FaultyObjects(Faulted):
    def __init__(self, inner: MemoryStorage, fault: Fault | None = None) -> None:
        self._inner = inner
        self._fault = fault
        self.calls: list[str] = []

    def list(self, folder: str) -> list[FileStatus]:
        def found() -> list[FileStatus]:
            return [seen for each in self._inner.list(_inside(folder)) if (seen := self._seen(each)) is not None]

        return self._call("list", folder, found)

    def stat(self, path: str) -> FileStatus | None:
        return self._call("stat", path, lambda: self._seen(self._inner.stat(_inside(path))))

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self._read(path))

    def read_version(self, path: str) -> tuple[bytes, Version]:
        data = self.read(path)
        return data, _version(data)

    def open_input(self, path: str) -> BinaryIO:
        return self._call("open_input", path, lambda: io.BytesIO(self._read(path)))

    def open_output(self, path: str) -> BinaryIO:
        self._call("open_output", path, lambda: self._check_free(path))
        return cast(BinaryIO, _Upload(self, path))

    def create(self, path: str, data: bytes) -> None:
        self._call("create", path, lambda: self._put(path, data))

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        def put() -> Version:
            if expected is None:
                self._put(path, data)
            elif not self._is_file(path) or not _version(self._read(path)).is_same(expected):
                raise VersionChanged(f"{path} is another one than was read.")
            else:
                self._inner.file(_inside(path)).data = data
                self._inner.touch(_inside(path))
            return _version(data)

        return self._call("replace", path, put)

    def make_folder(self, path: str) -> None:
        self._live()

    def delete(self, path: str) -> bool:
        return self._call("delete", path, lambda: self._is_file(path) and self._inner.delete(_inside(path)))

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:  # one by one, so that a process can die between any two
            self.delete(path)

    def delete_folder(self, path: str) -> bool:
        below = self._inner.walk(_inside(path))
        for name in below:  # one by one, as it is there
            self.delete(f"{LAKE}{name}")
        return bool(below)

    def free_bytes(self, path: str) -> int | None:
        return None

    def _call(self, name: str, path: str, act: Callable[[], T]) -> T:
        return self._carry_out(self.calls, f"{name} {path}", act)

    def _put(self, path: str, data: bytes) -> None:
        self._check_free(path)
        self._inner.make_folder(parent(_inside(path)))
        self._inner.create(_inside(path), data)

    def _check_free(self, path: str) -> None:
        if self._is_file(path):
            raise AlreadyExists(f"{path} exists already.")

    def _read(self, path: str) -> bytes:
        if not self._is_file(path):
            raise NotFound(f"{path} does not exist.")
        return self._inner.read(_inside(path))

    def _is_file(self, path: str) -> bool:
        status = self._inner.stat(_inside(path))
        return status is not None and not status.is_folder

    def _seen(self, status: FileStatus | None) -> FileStatus | None:
        """A folder is there as long as there is anything in it."""
        if status is None or (status.is_folder and not self._inner.walk(status.path)):
            return None
        path = f"{LAKE}{status.path}"
        return FileStatus(path, 0, 0.0, True) if status.is_folder else status._replace(path=path)


def _inside(path: str) -> str:
    return path.removeprefix(LAKE)


def _version(data: bytes) -> Version:
    return Version(hashlib.md5(data).hexdigest(), None)


class _Upload(io.BytesIO):
    """Seen when it is closed, and never when its block ends with an error."""

    def __init__(self, store: FaultyObjects, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        self._store._call("close", self._path, lambda: self._store._put(self._path, data))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()
