"""What the service needs of a place where tables live: one protocol, every effect on a table goes through it.

Paths are absolute, with `/` between parts: `/data/orders/p=1/x.parquet` in a file system, and in an object store with
what it lies in, `s3://lake/orders/p=1/x.parquet`, which is how its tables are named elsewhere too.

Every storage creates files that were not there, and that is enough to publish something once. To exclude a process
that still believes in its attempt something more is needed, and storages differ in what they have of it:

    RenamingStorage     a file or folder changes its name at once, and gets a second one: file systems
    VersionedStorage    a file is replaced if it is still the one that was read: object stores
    AppendingStorage    a file grows, and a lock goes with its process: file systems

Code that needs one asks for it (`isinstance`), and none imitates another: a rename in an object store is a copy
and a deletion, between which anything can happen.

Tests wrap this protocol to fail, delay, tear or lose the reply of the n-th call, so each method is one effect.

Touches: nothing itself; the adapters do.
Keeps:   1. `create` either makes the whole file or nothing, and never replaces one;
         2. a name is never reused by a rename, move or link: each fails when the target exists; `put_over` is for the
            few files that change in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable


class FileStatus(NamedTuple):
    """One entry of a folder, or one file. A tuple: the timelines of many tables are listed and compared every few
    seconds, and making and comparing tuples costs a fraction of what dataclasses do."""

    path: str
    size: int
    """Bytes; 0 for a folder."""
    modified: float
    """Seconds since the epoch; of a folder 0 where it is but a part of names."""
    is_folder: bool
    is_link: bool = False
    """True for a name that leads elsewhere; the rest is said of where it leads, if anywhere."""
    identity: tuple[int, int] | None = None
    """Device and inode of a folder, where there are such: a folder that is met by two ways has one."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class Storage(Protocol):
    def list(self, folder: str) -> list[FileStatus]:
        """The entries of `folder`, by name; empty when there is no such folder."""

    def stat(self, path: str) -> FileStatus | None:
        """The file or folder at `path`, or None."""

    def read(self, path: str) -> bytes:
        """The whole file. Raises `NotFound`."""

    def open_input(self, path: str) -> BinaryIO:
        """A seekable reader. Raises `NotFound`."""

    def open_output(self, path: str) -> BinaryIO:
        """A writer to a new file, durable once closed. Raises `AlreadyExists`, also when it is closed.

        A file system shows the file from the beginning, and its folder must exist (`NotFound`). An object store shows
        it when it is closed, and not at all when its `with` block ends with an error.
        """

    def create(self, path: str, data: bytes) -> None:
        """Create the file with all of `data`, or not at all. Raises `AlreadyExists`."""

    def make_folder(self, path: str) -> None:
        """Create the folder and those above it where missing; nothing where folders are but parts of names."""

    def delete(self, path: str) -> bool:
        """Delete one file; False when it was not there."""

    def delete_folder(self, path: str) -> bool:
        """Delete a folder and all below it; False when it was not there."""

    def free_bytes(self, path: str) -> int | None:
        """Bytes that can still be written below `path`, None where the storage cannot know."""


@runtime_checkable
class RenamingStorage(Storage, Protocol):
    """A file system: names are moved and added in one step, folders too."""

    def touch(self, path: str) -> None:
        """Set the modification time to now, which is how heartbeats and locks are renewed. Raises `NotFound`."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder. Raises `NotFound` without the source, `AlreadyExists` with the target."""

    def move(self, source: str, target: str) -> None:
        """Rename a file that is one of many: its new name survives a power cut when `sync` of its folder returned.
        Raises like `rename`."""

    def put_over(self, source: str, target: str) -> None:
        """Move a file to the place of another one, in one step: a reader finds the one or the other, and never nothing.
        Raises `NotFound` without the source."""

    def mark(self, path: str) -> None:
        """Create an empty file that is one of many, likewise. Raises `AlreadyExists`."""

    def remove(self, path: str) -> bool:
        """Delete a file that is one of many, likewise; False when it was not there."""

    def sync(self, folder: str) -> None:
        """What was moved into the folder, marked or removed there survives a power cut."""

    def link(self, source: str, target: str) -> None:
        """Give the file a second name, atomically. Raises like `rename`."""


@runtime_checkable
class AppendingStorage(Storage, Protocol):
    """A file system: files grow, which takes a lock among those who append."""

    def try_lock(self, path: str) -> AbstractContextManager[bool]:
        """Hold the lock of that name, which a process that dies lets go; False where another process has it, or the
        file system has no locks. Raises `NotFound` without its folder."""

    def append(self, path: str, data: bytes, *, at: int) -> None:
        """Cut the file to its first `at` bytes, and write all of `data` behind them; durable on return. Raises
        `NotFound`, and `BrokenFile` for a file that is shorter. Any other error leaves anything behind `at`."""


@dataclass(frozen=True, slots=True)
class Version:
    """Which content of a file was read or written."""

    e_tag: str | None
    generation: str | None
    """The generation, of stores that count; some return it with one answer and not with another."""

    def is_same(self, other: Version) -> bool:
        if self.e_tag is not None and other.e_tag is not None:
            return self.e_tag == other.e_tag
        return self.generation is not None and self.generation == other.generation


@runtime_checkable
class VersionedStorage(Storage, Protocol):
    """An object store with conditional writes: of two who replace the same version one is refused."""

    def read_version(self, path: str) -> tuple[bytes, Version]:
        """The whole file, and which one it is. Raises `NotFound`."""

    def replace(self, path: str, data: bytes, *, expected: Version | None) -> Version:
        """Write the whole file if it is still the `expected` one; None: if there is none.

        Raises `VersionChanged` or `AlreadyExists` where it is another one. Any other error leaves the outcome open.
        """

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete files, those that are there, in any order and with as few requests as the store takes. After an error
        any of them may be gone."""


def is_absolute(path: str) -> bool:
    return path.startswith("/") or "://" in path


def is_of_storage(error: BaseException) -> bool:
    """True for what a storage failed with, which says nothing about the file and may be over the next time.

    For bytes that it cannot make sense of Arrow raises errors of the same class; those have no number.
    """
    return isinstance(error, OSError) and error.errno is not None
