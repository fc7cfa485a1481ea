"""From what an operator types (a path or URL) to a storage and a path in it.

Touches: nothing; opening is lazy.
"""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from lakeward.errors import UsageError
from lakeward.storage.local import LocalStorage
from lakeward.storage.object_store import ObjectStore
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
        url = parse_object_url(location)
        return ObjectStore(url), str(url)
    parts = urlsplit(location)
    if parts.scheme == "" or len(parts.scheme) == 1:  # a bare path, or a drive letter
        path = location
    elif parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = unquote(parts.path)
    else:
        raise UsageError(
            f"Tables at {parts.scheme}:// cannot be opened.",
            why="This release reaches local and mounted file systems, and object stores at s3, gs, abfs and wasb.",
            remedy="Give a path such as /data/orders, or a URL such as s3://lake/orders.",
        )
    return LocalStorage(), os.path.abspath(path)
