"""A POSIX file system as storage.

A new file is written under a temporary name beside its target, synced, and given its name by a hard link,
which fails when the name is taken: so a file that exists is whole, and nothing is ever replaced.

Touches: the local disk.
Keeps:   1. `create`, `mark`, `rename`, `move` and `link` never replace a file;
         2. what a method reported as done survives a power cut (file and folder are synced), but for `mark`, `move` and
            `remove`, which leave that to `sync`;
         3. of a table, nothing is read, written or deleted through a link below its base path, even if another process
            puts it there meanwhile (`storage/place.py`);
         4. a `create` that fails for want of room leaves no file and no temporary name; only where nothing but the sync
            of the folder failed, the file is there, whole.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from lakeward.base.errors import AlreadyExists, BrokenFile, LakewardError, NotFound
from lakeward.base.paths import join, parent
from lakeward.storage.exclusive_rename import NoHardLinks, link_exclusively, rename_exclusively
from lakeward.storage.place import Place, found_link, hold, is_link
from lakeward.storage.storage import FileStatus

TEMPORARY_SUFFIX = ".lakeward-tmp"
"""Ends the names of files that are still being created; left over only by a process that died."""

_DELETE_TRIES = 20
"""Tries to delete a folder in which another process deletes, too; each time there is less in it."""


class LocalStorage:
    def __init__(self, base_path: str | None = None) -> None:
        """
        Args:
            base_path: of the table that is read and changed; below it no link is followed. None, for a caller that
                looks for tables, follows all.
        """
        self._base_path = base_path

    def list(self, folder: str) -> list[FileStatus]:
        found, prefix = [], join(folder, "x")[:-1]
        try:
            descriptor = self._open_folder(folder)
        except FileNotFoundError:
            return []
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    try:
                        found.append(_entry_status(prefix + entry.name, entry))
                    except FileNotFoundError:
                        continue  # deleted since the folder was read: by now it is not in the folder
        finally:
            os.close(descriptor)
        return sorted(found)

    def stat(self, path: str) -> FileStatus | None:
        try:
            with hold(path, self._base_path) as place:
                found = os.stat(place.name, dir_fd=place.folder)
                return _status(path, found, is_link=is_link(place))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes:
        with self.open_input(path) as file:
            return file.read()

    def open_input(self, path: str) -> BinaryIO:
        try:
            with hold(path, self._base_path) as place:
                return open(path, "rb", opener=lambda _, flags: _open(place, flags))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(path) from error

    def open_output(self, path: str) -> BinaryIO:
        return _DurableWriter(io.FileIO(self._new_file(path), "wb"))

    @contextmanager
    def try_lock(self, path: str) -> Iterator[bool]:
        try:
            with hold(path, self._base_path) as place:
                descriptor = os.open(place.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644, dir_fd=place.folder)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(parent(path)) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def append(self, path: str, data: bytes, *, at: int) -> None:
        try:
            with hold(path, self._base_path) as place:
                descriptor = _open(place, os.O_WRONLY)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(path) from error
        with _DurableWriter(io.FileIO(descriptor, "wb")) as file:
            size = os.fstat(descriptor).st_size
            if size < at:
                raise BrokenFile(
                    f"{path} is cut short.",
                    why=f"It has {size} bytes, and had {at}.",
                    remedy="Restore the file, or make what it is part of again.",
                )
            os.ftruncate(descriptor, at)
            file.seek(at)
            file.write(data)

    def create(self, path: str, data: bytes) -> None:
        temporary = os.path.join(parent(path), f".{os.path.basename(path)}.{uuid.uuid4()}{TEMPORARY_SUFFIX}")
        file = self.open_output(temporary)
        try:
            with file:
                file.write(data)
            self.link(temporary, path)
        finally:
            with hold(temporary, self._base_path) as place:
                os.unlink(place.name, dir_fd=place.folder)

    def mark(self, path: str) -> None:
        os.close(self._new_file(path))

    def touch(self, path: str) -> None:
        try:
            with hold(path, self._base_path) as place:
                os.utime(place.name, dir_fd=place.folder, follow_symlinks=place.folder is None)
        except FileNotFoundError as error:
            raise _missing(path) from error

    def make_folder(self, path: str) -> None:
        try:
            self._make_one_folder(path)
        except FileNotFoundError:
            self.make_folder(parent(path))
            self._make_one_folder(path)

    def rename(self, source: str, target: str) -> None:
        self.move(source, target)
        self.sync(parent(target))

    def move(self, source: str, target: str) -> None:
        with _translated(source, target), hold(source, self._base_path) as old, hold(target, self._base_path) as new:
            rename_exclusively(old, new)

    def put_over(self, source: str, target: str) -> None:
        with _translated(source, target), hold(source, self._base_path) as old, hold(target, self._base_path) as new:
            os.stat(old.name, dir_fd=old.folder, follow_symlinks=False)
            _remove_checksum(new)
            os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)
        self.sync(parent(target))

    def sync(self, folder: str) -> None:
        descriptor = self._open_folder(folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def link(self, source: str, target: str) -> None:
        with _translated(source, target), hold(source, self._base_path) as old, hold(target, self._base_path) as new:
            link_exclusively(old, new)
        self.sync(parent(target))

    def delete(self, path: str) -> bool:
        deleted = self.remove(path)
        if deleted:
            self.sync(parent(path))
        return deleted

    def remove(self, path: str) -> bool:
        try:
            with hold(path, self._base_path) as place:
                os.unlink(place.name, dir_fd=place.folder)
                _remove_checksum(place)
        except FileNotFoundError:
            return False
        return True

    def delete_folder(self, path: str) -> bool:
        for left in reversed(range(_DELETE_TRIES)):
            try:
                with hold(path, self._base_path) as place:
                    if is_link(place):
                        raise found_link(path)
                    shutil.rmtree(place.name, dir_fd=place.folder)
                break
            except FileNotFoundError:
                if not os.path.lexists(path):
                    return False
                if not left:
                    raise
                # Another process deletes in there too, and was faster with one of the files.
        self.sync(parent(path))
        return True

    def free_bytes(self, path: str) -> int | None:
        return shutil.disk_usage(path).free

    def _make_one_folder(self, path: str) -> None:
        with hold(path, self._base_path) as place:
            if place.folder is None:
                os.makedirs(path, exist_ok=True)
                return
            with suppress(FileExistsError):
                os.mkdir(place.name, dir_fd=place.folder)
            os.close(_open(place, os.O_RDONLY | os.O_DIRECTORY))

    def _open_folder(self, path: str) -> int:
        """Its descriptor."""
        with hold(path, self._base_path) as place:
            return _open(place, os.O_RDONLY | os.O_DIRECTORY)

    def _new_file(self, path: str) -> int:
        """Its descriptor."""
        try:
            with hold(path, self._base_path) as place:
                return os.open(place.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=place.folder)
        except FileExistsError as error:
            raise _taken(path) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _missing(parent(path)) from error


class _DurableWriter(io.BufferedWriter):
    """Syncs its file before it reports it closed."""

    def close(self) -> None:
        if self.closed:
            return
        try:
            self.flush()
            os.fsync(self.fileno())
        finally:
            super().close()


def _remove_checksum(place: Place) -> None:
    """Hadoop's checksummed local file system keeps `.x.crc` beside `x` and trusts it for the next `x`."""
    folder, name = os.path.split(place.name)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, f".{name}.crc"), dir_fd=place.folder)


def _entry_status(path: str, entry: os.DirEntry[str]) -> FileStatus:
    if not entry.is_symlink():
        return _status(path, entry.stat(follow_symlinks=False))
    try:
        return _status(path, entry.stat(), is_link=True)
    except OSError:
        return FileStatus(path, 0, 0.0, False, is_link=True)  # it leads nowhere, or to itself


def _status(path: str, found: os.stat_result, *, is_link: bool = False) -> FileStatus:
    if not stat.S_ISDIR(found.st_mode):
        return FileStatus(path, found.st_size, found.st_mtime, False, is_link)
    # File systems without numbers of their own say 0.
    identity = (found.st_dev, found.st_ino) if found.st_ino else None
    return FileStatus(path, 0, found.st_mtime, True, is_link, identity)


def _open(place: Place, flags: int) -> int:
    try:
        return os.open(place.name, flags | (0 if place.folder is None else os.O_NOFOLLOW), dir_fd=place.folder)
    except OSError as error:
        # With O_DIRECTORY a link is no folder; without, it is a loop.
        if place.folder is not None and error.errno in (errno.ELOOP, errno.ENOTDIR) and is_link(place):
            raise found_link(place.path) from error
        raise


@contextmanager
def _translated(source: str, target: str) -> Iterator[None]:
    """Raise what prevents a second name as an error of Lakeward."""
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


def _missing(path: str) -> NotFound:
    return NotFound(f"{path} does not exist.")


def _taken(path: str) -> AlreadyExists:
    return AlreadyExists(f"{path} exists already.")
