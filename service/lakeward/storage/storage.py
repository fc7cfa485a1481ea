"""What the service needs of a place where tables live: one protocol, every effect on a table goes through it.

Paths are absolute within a storage (`/data/orders/p=1/x.parquet`), with `/` between parts and no scheme.
Tests wrap this protocol to fail, delay, tear or lose the reply of the n-th call, so each method is one effect.

Touches: nothing itself; the adapters do.
Keeps:   1. `create` either makes the whole file or nothing, and never replaces one;
         2. a name is never reused by a rename or link: both fail when the target exists.
"""

from __future__ import annotations

import posixpath
from typing import BinaryIO, NamedTuple, Protocol


class FileStatus(NamedTuple):
    """One entry of a folder, or one file. A tuple: the timelines of many tables are listed and compared every few
    seconds, and making and comparing tuples costs a fraction of what dataclasses do."""

    path: str
    size: int
    """Bytes; 0 for a folder."""
    modified: float
    """Seconds since the epoch."""
    is_folder: bool

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
        """A writer to a new file, durable once closed. Its folder must exist. Raises `AlreadyExists`, `NotFound`."""

    def create(self, path: str, data: bytes) -> None:
        """Create the file with all of `data`, or not at all. Raises `AlreadyExists`."""

    def touch(self, path: str) -> None:
        """Set the modification time to now, which is how heartbeats and locks are renewed. Raises `NotFound`."""

    def make_folder(self, path: str) -> None:
        """Create the folder and those above it where missing."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or folder. Raises `NotFound` without the source, `AlreadyExists` with the target."""

    def link(self, source: str, target: str) -> None:
        """Give the file a second name, atomically. Raises like `rename`."""

    def delete(self, path: str) -> bool:
        """Delete one file; False when it was not there."""

    def delete_folder(self, path: str) -> bool:
        """Delete a folder and all below it; False when it was not there."""

    def free_bytes(self, path: str) -> int | None:
        """Bytes that can still be written below `path`, None where the storage cannot tell."""


def join(folder: str, *names: str) -> str:
    """`folder/name/…`, skipping empty names (the unpartitioned partition path is empty)."""
    return posixpath.join(folder, *(name for name in names if name))


def parent(path: str) -> str:
    return posixpath.dirname(path)
