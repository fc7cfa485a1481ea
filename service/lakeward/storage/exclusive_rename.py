"""A rename that replaces nothing, in one step where the system has one.

Linux does that since 3.15 (`renameat2` with RENAME_NOREPLACE), the C library since glibc 2.28, and ext4, XFS, Btrfs,
tmpfs and overlayfs with it. Elsewhere, over NFS for one, a file gets a second name, which fails when that is taken, and
loses the first; a folder is renamed when nothing of the name is seen. Such a process can be stopped between two steps:

    t0 A gives a heartbeat the name by which it goes, and is stopped; t1 B does the same, and C makes a new heartbeat in
    its place; t2 A wakes, and takes the first name away, which is C's by now.

C then finds that its heartbeat is gone, and aborts; nothing is published twice.

Touches: two names in a local file system; their folders are not synced.
Keeps:   1. an existing file is never replaced;
         2. where the system can, a file has one name at every moment.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from lakeward.storage.place import Place

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_NOT_KNOWN = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
"""How a kernel or a file system says that it does not know the call or its flag."""

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class NoHardLinks(OSError):
    """The file system has none."""


def rename_exclusively(source: Place, target: Place) -> None:
    """Raises `FileExistsError` with the target, `FileNotFoundError` without the source, and `NoHardLinks`."""
    if not _renamed_at_once(source, target):
        with _encoded(source, target):
            _rename_in_two_steps(source, target)


def link_exclusively(source: Place, target: Place) -> None:
    """A second name of a file. Raises as `rename_exclusively` does."""
    try:
        with _encoded(source, target):
            os.link(
                source.name,
                target.name,
                src_dir_fd=source.folder,
                dst_dir_fd=target.folder,
                follow_symlinks=False,
            )
    except OSError as error:
        if error.errno in _NO_LINKS:
            raise NoHardLinks(error.errno, error.strerror, source.path, None, target.path) from error
        raise


def _renamed_at_once(source: Place, target: Place) -> bool:
    """False where the system cannot; nothing was done then."""
    names = os.fsencode(source.name), os.fsencode(target.name)
    if (rename := _renameat2()) is None or any(b"\0" in name for name in names):
        return False
    if rename(_folder(source), names[0], _folder(target), names[1], _RENAME_NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_KNOWN:
        return False
    raise OSError(number, os.strerror(number), source.path, None, target.path)


def _rename_in_two_steps(source: Place, target: Place) -> None:
    if not _is_folder(source):
        # A plain rename would silently replace the target; a second name plus an unlink never does.
        link_exclusively(source, target)
        os.unlink(source.name, dir_fd=source.folder)
        return
    # POSIX lets a folder replace an empty one only, and none of Lakeward is renamed onto a name in use.
    if _is_there(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    os.rename(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder)


def _folder(place: Place) -> int:
    return _AT_FDCWD if place.folder is None else place.folder


def _is_folder(place: Place) -> bool:
    try:
        return stat.S_ISDIR(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_there(place: Place) -> bool:
    try:
        os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except OSError:
        return False
    return True


@contextmanager
def _encoded(source: Place, target: Place) -> Iterator[None]:
    """An error of the system names both paths."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = source.path, target.path
        raise


@cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None  # an older C library, or another system
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function
