"""A name in a folder that is held open: what is done to it happens there, whatever happens to the path meanwhile.

    t10 we look at `orders/p=1`, a folder; t20 a writer of the table removes it and puts a link
    `p=1 -> /data/customers` there; t30 we delete or create `orders/p=1/x`.

By its path, x is a file of the customers at t30. So below a base path each folder is opened from the one above it,
without following links, and the last name is used in the folder that was opened. The base path itself, and what lies
above it, is the operator's word, and may be a link.

Touches: folders of the local disk, opening them.
Keeps:   1. nothing below the base path is reached through a link;
         2. no path of a table leads above its base path;
         3. an error of the system names the whole path.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakeward.base.errors import LinkInTable, UntrustedName

_WALK = os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)
"""The flags hold a folder, where the system can, without opening it for reading."""


@dataclass(frozen=True, slots=True)
class Place:
    path: str
    """The path as the caller gave it."""
    folder: int | None
    """The descriptor of the folder; None where the name is a path that is used as it is."""
    name: str


@contextmanager
def hold(path: str, base_path: str | None) -> Iterator[Place]:
    """The place of `path`, if it lies below the base path; else, and for the base path itself, just the path.

    Raises `LinkInTable` where a folder on the way is a link, and what the system raises where there is none.
    """
    parts = _below(path, base_path)
    if not parts:
        yield Place(path, None, path)
        return
    assert base_path is not None, "only then there are parts"
    folder = _walk(base_path, parts[:-1])
    try:
        yield Place(path, folder, parts[-1])
    except OSError as error:
        if error.filename == parts[-1]:
            error.filename = path
        raise
    finally:
        os.close(folder)


def is_link(place: Place) -> bool:
    try:
        return stat.S_ISLNK(os.stat(place.name, dir_fd=place.folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def found_link(path: str) -> LinkInTable:
    return LinkInTable(
        f"{path} is a link.",
        why="Links inside of a table are not followed: what they lead to may be another table's, or read twice.",
        remedy="Replace it by what it leads to, or remove it.",
    )


def _below(path: str, base_path: str | None) -> list[str]:
    """The names of `path` below the base path; none for the base path itself and for what lies elsewhere."""
    if base_path is None or not path.startswith(prefix := f"{base_path.rstrip('/')}/"):
        return []
    parts = [part for part in path[len(prefix) :].split("/") if part not in ("", ".")]
    if ".." in parts:
        raise UntrustedName(
            f"{path} is not trusted.",
            why="It leads out of the folder that it seems to lie in.",
            remedy="Find out who wrote that name; nothing was opened or deleted by it.",
        )
    return parts


def _walk(base_path: str, parts: list[str]) -> int:
    folder = os.open(base_path, _WALK & ~os.O_NOFOLLOW)
    reached = base_path
    for part in parts:
        reached = f"{reached}/{part}"
        try:
            entered = os.open(part, _WALK, dir_fd=folder)
        except OSError as error:
            stopped_by_link = isinstance(error, NotADirectoryError) and is_link(Place(reached, folder, part))
            error.filename = reached
            raise (found_link(reached) if stopped_by_link else error) from error
        finally:
            os.close(folder)
        folder = entered
    return folder
