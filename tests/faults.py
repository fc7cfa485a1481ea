"""A storage that fails, dies, loses a reply or tears a write at its n-th call.

BEFORE      the call raises and did nothing
LOST_REPLY  the call was carried out, and raises
KILL        the process dies right after the call: no later call of this storage does anything
TORN        the process dies in the middle of the write: half of the bytes are there
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, TypeVar

from lakeward.storage.local import TEMPORARY_SUFFIX, LocalStorage
from lakeward.storage.storage import FileStatus, Storage

T = TypeVar("T")

WRITES = ("open_output", "close", "create", "touch", "make_folder", "rename", "link", "delete", "delete_folder")
TEARABLE = ("close", "create")


class FaultKind(StrEnum):
    BEFORE = "before"
    LOST_REPLY = "lost-reply"
    KILL = "kill"
    TORN = "torn"


@dataclass(frozen=True, slots=True)
class Fault:
    kind: FaultKind
    call: int
    """Counted from 0."""


class Killed(BaseException):
    """The process is dead; nobody may catch this."""


class FaultyStorage:
    """`LocalStorage` with at most one fault; keeps the names of all calls."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._inner: Storage = LocalStorage()
        self._fault = fault
        self._dead = False
        self.calls: list[str] = []

    def _call(self, name: str, path: str, act: Callable[[], T], tear: Callable[[], None] | None = None) -> T:
        if self._dead:
            raise Killed(name)
        number = len(self.calls)
        self.calls.append(f"{name} {path}")
        if self._fault is None or self._fault.call != number:
            return act()
        match self._fault.kind:
            case FaultKind.BEFORE:
                raise OSError(f"injected before {name} {path}")
            case FaultKind.LOST_REPLY:
                act()
                raise OSError(f"injected: reply of {name} {path} lost")
            case FaultKind.TORN if tear is not None:
                self._dead = True
                tear()
                raise Killed(name)
            case _:
                act()
                self._dead = True
                raise Killed(name)

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
        return _FaultyOutput(file, path, self)  # type: ignore[return-value]

    def create(self, path: str, data: bytes) -> None:
        def tear() -> None:
            # The real adapter writes under a temporary name, so this is all that a torn create leaves.
            temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.torn{TEMPORARY_SUFFIX}")
            with open(temporary, "wb") as file:
                file.write(data[: len(data) // 2])

        self._call("create", path, lambda: self._inner.create(path, data), tear)

    def touch(self, path: str) -> None:
        self._call("touch", path, lambda: self._inner.touch(path))

    def make_folder(self, path: str) -> None:
        self._call("make_folder", path, lambda: self._inner.make_folder(path))

    def rename(self, source: str, target: str) -> None:
        self._call("rename", target, lambda: self._inner.rename(source, target))

    def link(self, source: str, target: str) -> None:
        self._call("link", target, lambda: self._inner.link(source, target))

    def delete(self, path: str) -> bool:
        return self._call("delete", path, lambda: self._inner.delete(path))

    def delete_folder(self, path: str) -> bool:
        return self._call("delete_folder", path, lambda: self._inner.delete_folder(path))

    def free_bytes(self, path: str) -> int | None:
        return self._call("free_bytes", path, lambda: self._inner.free_bytes(path))


class _FaultyOutput(io.RawIOBase):
    """Its closing is a call of its own: that is when the bytes are there for good."""

    def __init__(self, file: BinaryIO, path: str, storage: FaultyStorage) -> None:
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

        def tear() -> None:
            self._file.flush()
            size = os.path.getsize(self._path)
            self._file.close()
            os.truncate(self._path, size // 2)

        try:
            self._storage._call("close", self._path, self._file.close, tear)
        finally:
            super().close()
