"""From what an operator types (a path or URL) to a storage and a path in it.

Touches: nothing, opening is lazy; but for a file URL with an escape in it, what is there by either reading of it.
"""

from __future__ import annotations

import os
from urllib.parse import unquote

from lakeward.base.errors import UsageError
from lakeward.storage.local import LocalStorage
from lakeward.storage.object_url import is_object_url, parse_object_url
from lakeward.storage.storage import Storage


def open_storage(location: str) -> tuple[Storage, str]:
    """The storage and the absolute base path, without a trailing slash. Raises `UsageError` for other schemes.

    The base path leads to the same storage again: in a file system it is a path, in an object store the URL. Links
    below it are not followed.
    """
    storage, base_path = open_root(location)
    return LocalStorage(base_path) if isinstance(storage, LocalStorage) else storage, base_path


def open_root(location: str) -> tuple[Storage, str]:
    """The same for a folder in which to look for tables, where links may lead to them. Raises `UsageError`."""
    if is_object_url(location):
        from lakeward.storage.object_store import ObjectStore  # its client, which a file system does not need

        url = parse_object_url(location)
        return ObjectStore(url), str(url)
    scheme, colon, rest = location.partition(":")
    if colon and scheme.lower() == "file":
        path = _path_of_file_url(location, rest)
    elif not colon or "/" in scheme or len(scheme) == 1:  # a bare path, or a drive letter
        path = location
    else:
        raise _refused(scheme)
    if "\0" in path:
        raise UsageError(
            f"{location!r} is no path.",
            why="It has a zero byte in it.",
            remedy="Give the path as the system writes it.",
        )
    return LocalStorage(), os.path.abspath(path)


def _path_of_file_url(location: str, rest: str) -> str:
    """What follows `file:` as a path. Everywhere else `%20` in a URL is a space; to Hadoop, and so to Hudi's writers,
    it is part of the name, as `#` and `?` are. What exists decides which of the two is meant."""
    if rest.startswith("//"):
        host, _, below = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise _refused(f"file://{host}")
        rest = f"/{below}"
    decoded = unquote(rest, errors="surrogateescape")
    if decoded == rest or "\0" in decoded or not os.path.lexists(rest):
        return decoded
    if os.path.lexists(decoded):
        raise UsageError(
            f"{location} may be two places.",
            why=f"{rest} is there, which Hadoop means by it, and {decoded}, which others do.",
            remedy="Give the path itself, without file:.",
        )
    return rest


def _refused(what: str) -> UsageError:
    return UsageError(
        f"Tables at {what if '://' in what else f'{what}://'} cannot be opened.",
        why="This release reaches local and mounted file systems, and object stores at s3, gs, abfs and wasb.",
        remedy="Give a path such as /data/orders, or a URL such as s3://lake/orders.",
    )
