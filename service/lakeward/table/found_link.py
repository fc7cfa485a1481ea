"""Links inside of a table: found once, named, and neither followed nor serviced.

A link to a folder, where partitions lie, stands for a partition: Hudi would list it, and read and write what it leads
to once more, or another table's. In a partition one by the name of a data file stands for that file. Others stand for
nothing that a service touches. A folder that is met again, by a bind mount, is as good as a link.

Hard links are files like any other; our own commits are published by them.

Touches: nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum


class StandsFor(StrEnum):
    PARTITION = "partition"
    DATA_FILE = "data file"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, order=True)
class FoundLink:
    path: str
    """The path below the base path."""
    stands_for: StandsFor
    same_as: str | None = None
    """The path of the same folder, where it is no link but a folder that is met twice."""


def is_text(path: str) -> bool:
    """False for a name that is no UTF-8, which Hudi's own programs can neither write nor read."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_path(path: str) -> str:
    """The path as text: bytes that are no UTF-8 as `\\xff`."""
    return path if is_text(path) else os.fsencode(path).decode("utf-8", "backslashreplace")
