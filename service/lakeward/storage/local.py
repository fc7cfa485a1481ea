"""A POSIX file system as storage.

A new file is written under a temporary name beside its target, synced, and given its name by a hard link,
which fails when the name is taken: so a file that exists is whole, and nothing is ever replaced.

Touches: the local disk.
Keeps:   1. `create`, `mark`, `rename`, `move` and `link` never replace a file;
         2. what a method reported as done survives a power cut (file and folder are synced), but for `mark`, `move` and
            `remove`, which leave that to `sync`.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from lakeward.errors import AlreadyExists, LakewardError, NotFound
from lakeward.storage.exclusive_rename import NoHardLinks, link_exclusively, rename_exclusively
from lakeward.storage.storage import FileStatus, parent

TEMPORARY_SUFFIX = ".lakeward-tmp"
"""Ends the names of files that are still being created; left over only by a process that died."""

_DELETE_TRIES = 20
"""To delete a folder in which somebody else deletes, too; each time there is less in it."""


class LocalStorage:
    def list(self, folder: str) -> list[FileStatus]:
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    try:
                        found.append(_status(entry.path, entry.stat(), entry.is_dir()))
                    except FileNotFoundError:
                        continue  # deleted since the folder was read: by now it is not in the folder
                    except OSError as error:
                        if error.errno != errno.ELOOP:
                            raise  # a link that leads to itself is nothing at all
        except FileNotFoundError:
            return []
        return sorted(found)

    def stat(self, path: str) -> FileStatus | None:
        try:
            return _status(path, os.stat(path), os.path.isdir(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        with self.open_input(path) as file:
            return file.read()

    def open_input(self, path: str) -> BinaryIO:
        try:
            return open(path, "rb")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(path) from error

    def open_output(self, path: str) -> BinaryIO:
        return _DurableWriter(io.FileIO(_new_file(path), "wb"))

    def create(self, path: str, data: bytes) -> None:
        temporary = os.path.join(parent(path), f".{os.path.basename(path)}.{uuid.uuid4()}{TEMPORARY_SUFFIX}")
        with self.open_output(temporary) as file:
            file.write(data)
        try:
            self.link(temporary, path)
        finally:
            os.unlink(temporary)

    def mark(self, path: str) -> None:
        os.close(_new_file(path))

    def touch(self, path: str) -> None:
        try:
            os.utime(path)
        except FileNotFoundError as error:
            raise _missing(path) from error

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        self.move(source, target)
        _sync_folder(parent(target))

    def move(self, source: str, target: str) -> None:
        with _told(source, target):
            rename_exclusively(source, target)

    def sync(self, folder: str) -> None:
        _sync_folder(folder)

    def link(self, source: str, target: str) -> None:
        with _told(source, target):
            link_exclusively(source, target)
        _sync_folder(parent(target))

    def delete(self, path: str) -> bool:
        deleted = self.remove(path)
        if deleted:
            _sync_folder(parent(path))
        return deleted

    def remove(self, path: str) -> bool:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        # Hadoop's checksummed local file system keeps `.x.crc` beside `x` and trusts it for the next `x`.
        checksum = os.path.join(parent(path), f".{os.path.basename(path)}.crc")
        if os.path.exists(checksum):
            os.unlink(checksum)
        return True

    def delete_folder(self, path: str) -> bool:
        for left in reversed(range(_DELETE_TRIES)):
            try:
                shutil.rmtree(path)
                break
            except FileNotFoundError:
                if not os.path.lexists(path):
                    return False
                if not left:
                    raise
                # Somebody else deletes in there too, and was faster with one of the files.
        _sync_folder(parent(path))
        return True

    def free_bytes(self, path: str) -> int | None:
        return shutil.disk_usage(path).free


class _DurableWriter(io.BufferedWriter):
    """Syncs its file before it reports it closed."""

    def close(self) -> None:
        if not self.closed:
            self.flush()
            os.fsync(self.fileno())
        super().close()


def _status(path: str, stat: os.stat_result, is_folder: bool) -> FileStatus:
    return FileStatus(path, 0 if is_folder else stat.st_size, stat.st_mtime, is_folder)


def _new_file(path: str) -> int:
    """Its descriptor."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError as error:
        raise _taken(path) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(parent(path)) from error


@contextmanager
def _told(source: str, target: str) -> Iterator[None]:
    """What stands in the way of a second name, in our words."""
    try:
        yield
    except FileExistsError as error:
        raise _taken(target) from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(source) from error
    except NoHardLinks as error:
        raise LakewardError(
            f"{target} cannot be created.",
            why=f"Its file system has no hard links ({error.strerror}), by which files are published here.",
            remedy="Reach the table through a file system that has them.",
        ) from error


def _sync_folder(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _missing(path: str) -> NotFound:
    return NotFound(f"{path} does not exist.")


def _taken(path: str) -> AlreadyExists:
    return AlreadyExists(f"{path} exists already.")
