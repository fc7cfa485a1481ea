"""A manifest that names many files, said by what changed since the one before it.

    {"after": 41, "names": …, "set": {…}, "gone": [3, 4], "put": [[7, row]], "rows": [row, …]}

    set       the keys of the document, its rows left out, that have another value now; the others are as they were
    gone      places of rows before it that are no more
    put       rows that are otherwise now, each in its place
    rows      those that came, behind the others
    names     a checksum over the names of all rows before it, in order

So a commit writes down the files of its own, however many there are of others.

Touches: nothing.
Keeps:   1. a change put upon the document that it was made of gives the one that it was made for;
         2. a change is refused by a document with another number or of other rows.
See:     docs/decisions/0147-manifests-that-say-what-changed.md
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ManifestRows:
    """The list in a manifest's document that grows with what is stored."""

    key: str
    name: Callable[[Sequence[Any]], tuple[str, int]]
    """The path of the file that a row is of, below the folder of the index, and where in that it begins. No two rows
    have the same name."""

    def change(self, before: Document, after: Document, *, number: int) -> Document | None:
        """What makes of the document with this number the one after it; None where only the whole says it."""
        old, new = before[self.key], after[self.key]
        if before.keys() != after.keys():
            return None
        places = {self.name(row): place for place, row in enumerate(old)}
        next_place, gone, put, came = 0, list[int](), list[tuple[int, Any]](), list[Any]()
        for row in new:
            place = places.get(self.name(row))
            if place is None:
                came.append(row)
                continue
            if came or place < next_place:
                return None
            gone += range(next_place, place)
            if old[place] != row:
                put.append((place, row))
            next_place = place + 1
        gone += range(next_place, len(old))
        others = {key: value for key, value in after.items() if key != self.key and value != before[key]}
        return {
            "after": number,
            "names": self._checksum(old),
            "set": others,
            "gone": gone,
            "put": put,
            "rows": came,
        }

    def changed(self, before: Document, change: Document, *, number: int) -> Document:
        """Raises `ValueError`, and `KeyError`, `TypeError` and `IndexError` of what is no change.

        Args:
            before: the document with this number.
        """
        old = before[self.key]
        if change["after"] != number:
            raise ValueError(f"it follows the manifest {change['after']}, not {number}")
        if change["names"] != self._checksum(old):
            raise ValueError(f"it follows a manifest {number} that named other files")
        rows = list(old)
        for place, row in change["put"]:
            rows[place] = row
        gone = frozenset(change["gone"])
        kept = [row for place, row in enumerate(rows) if place not in gone]
        return {**before, **change["set"], self.key: [*kept, *change["rows"]]}

    def came(self, change: Document) -> set[str]:
        """The files that it names and the manifest before it may not."""
        return {self.name(row)[0] for row in change["rows"]}

    def _checksum(self, rows: Sequence[Any]) -> int:
        return zlib.crc32("\n".join(f"{path} {offset}" for path, offset in map(self.name, rows)).encode())
