"""An object store in memory, with faults: as `ObjectStore` answers, only that its n-th write can go wrong.

BEFORE      the write raises and did nothing
LOST_REPLY  the write was carried out, and raises
KILL        the process dies right after the write: no later call of it does anything

Several processes share the objects and have a `MemoryObjects` each.

Keeps:   whatever `ObjectStore` answers, this answers (tests/storage/test_memory_objects.py runs both).
"""

from __future__ import annotations

import io
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO, TypeVar, cast

from lakeward.base.errors import AlreadyExists, NotFound, VersionChanged
from lakeward.storage.storage import FileStatus, Version
from tests.faults import Fault, Faulted

T = TypeVar("T")


@dataclass(slots=True)
class Objects:
    """What is in the store."""

    data: dict[str, tuple[bytes, Version, float]] = field(default_factory=dict)
    versions: itertools.count[int] = field(default_factory=itertools.count)

    def put(self, path: str, data: bytes) -> Version:
        version = Version(str(next(self.versions)), None)
        self.data[path] = (data, version, time.time())
        return version


class MemoryObjects(Faulted):
    """The store, as one process reaches it; keeps the names of its writes."""

    def __init__(self, objects: Objects, fault: Fault | None = None) -> None:
        self._objects = objects
        self._fault = fault
        self.writes: list[str] = []
        self.before: Callable[[str], None] = lambda write: None
        """Called with each write, before it is carried out: what others do meanwhile."""

    def list(self, folder: str) -> list[FileStatus]:
        self._live()
        found: dict[str, FileStatus] = {}
        for path in self._objects.data:
            if path.startswith(f"{folder}/"):
                name, deeper, _ = path[len(folder) + 1 :].partition("/")
                below = f"{folder}/{name}"
                found[below] = FileStatus(below, 0, 0.0, True) if deeper else self._status(path)
        return sorted(found.values())

    def stat(self, path: str) -> FileStatus | None:
        self._live()
        if path in self._objects.data:
            return self._status(path)
        return FileStatus(path, 0, 0.0, True) if self.list(path) else None

    def read(self, path: str) -> bytes:
        return self.read_version(path)[0]

    def read_version(self, path: str) -> tuple[bytes, Version]:
        self._live()
        if path not in self._objects.data:
            raise NotFound(f"{path} does not exist.")
        data, version, _ = self._objects.data[path]
        return data, version

    def open_input(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def open_output(self, path: str) -> BinaryIO:
        self._live()
        if path in self._objects.data:
            raise AlreadyExists(f"{path} exists already.")
        return cast(BinaryIO, _Upload(self, path))

    def create(self, path: str, data: bytes) -> None:
        self.replace(path, data, expected=None)

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        def put() -> Version:
            found = self._objects.data.get(path)
            if expected is None and found is not None:
                raise AlreadyExists(f"{path} exists already.")
            if expected is not None and (found is None or found[1] != expected):
                raise VersionChanged(f"{path} is another one than was read.")
            return self._objects.put(path, data)

        return self._write("create" if expected is None else "replace", path, put)

    def make_folder(self, path: str) -> None:
        self._live()

    def delete(self, path: str) -> bool:
        return self._write("delete", path, lambda: self._objects.data.pop(path, None) is not None)

    def delete_many(self, paths: Sequence[str]) -> None:
        for path in paths:  # one by one, so that a process can die between any two
            self.delete(path)

    def delete_folder(self, path: str) -> bool:
        below = [name for name in self._objects.data if name.startswith(f"{path}/")]
        for name in below:  # one by one, as it is there
            self.delete(name)
        return bool(below)

    def free_bytes(self, path: str) -> int | None:
        return None

    def _status(self, path: str) -> FileStatus:
        data, _, modified = self._objects.data[path]
        return FileStatus(path, len(data), modified, False)

    def call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        """One call of the process to what else it reaches; those that change it are counted with the writes."""
        self._live()
        return act() if name == "read" else self._carry_out(self.writes, f"{name} {path}", act, tear)

    def _write(self, name: str, path: str, act: Callable[[], T]) -> T:
        self._live()
        self.before(f"{name} {path}")
        return self._carry_out(self.writes, f"{name} {path}", act)


class _Upload(io.BytesIO):
    """Seen when it is closed, and never when its block ends with an error."""

    def __init__(self, store: MemoryObjects, path: str) -> None:
        super().__init__()
        self._store = store
        self._path = path

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()

        def put() -> None:
            if self._path in self._store._objects.data:
                raise AlreadyExists(f"{self._path} exists already.")
            self._store._objects.put(self._path, data)

        self._store._write("close", self._path, put)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()
