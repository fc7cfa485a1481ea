"""An index on a server, asked which record keys it has: one of Lakeward in PostgreSQL, one of Hudi in HBase.

Touches: nothing; what asks the server is handed in.
Keeps:   1. an index that does not answer is named as unread, with the reason.
See:     docs/decisions/0189-keys-in-indexes-elsewhere.md
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa

from lakeward.base.errors import LakewardError
from lakeward.index.index_type import IndexType
from lakeward.services.together.erasure.file_contents import FileContents, HeldAs
from lakeward.services.together.erasure.wanted_keys import ErasureKeys

OutsideType = Literal[IndexType.POSTGRES, IndexType.HBASE]


@dataclass(frozen=True, slots=True)
class OutsideIndex:
    """A server, and what asks it."""

    type: OutsideType
    place: str
    """Its URL, without secrets."""
    options: tuple[str, ...]
    """What names it to a command; nothing where the configuration does."""
    ask: Callable[[pa.Array], Iterator[tuple[str, pa.Array]]]
    """Gives the name of each index of the table there and the keys that it has, of those that it is given. Raises an
    error of Lakeward, or `OSError`, where the server does not answer."""


@dataclass(frozen=True, slots=True)
class AskedIndex:
    type: OutsideType
    name: str
    """For a person: which index it is, and where."""
    options: tuple[str, ...]
    contents: FileContents


def ask_outside(
    outside: Sequence[OutsideIndex], keys: ErasureKeys
) -> tuple[tuple[AskedIndex, ...], tuple[tuple[str, str], ...]]:
    """The indexes that answered, and the places that did not, each with the reason."""
    asked: dict[str, AskedIndex] = {}
    unread: list[tuple[str, str]] = []
    for server in outside:
        has_index = False
        try:
            for index, held in server.ask(keys.keys):
                name = f"index {index} in {server.place}" if index else f"index in {server.place}"
                found = asked.setdefault(name, AskedIndex(server.type, name, server.options, FileContents(keys)))
                found.contents.see(HeldAs.ENTRY, held)
                has_index = True
            if not has_index:
                silent = f"{server.place}, which has no index of the table"
                asked[silent] = AskedIndex(server.type, silent, server.options, FileContents(keys))
        except (LakewardError, OSError) as error:
            unread.append((f"index in {server.place}", str(error)))
    return tuple(asked.values()), tuple(unread)


REMAINS: Final = {
    IndexType.POSTGRES: "rows that PostgreSQL deleted and did not vacuum, its write-ahead log and its backups",
    IndexType.HBASE: "cells that HBase deleted before its next major compaction, its write-ahead log and its snapshots",
}
"""What a server keeps of a key that its index does not have any more, and that no question to it shows."""
