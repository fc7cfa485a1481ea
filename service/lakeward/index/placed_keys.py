"""Record keys with the file group that each is said to be in, what rows say of that, and what is wrong with an index.

    there      the file group has a row of the key
    gone       it has none
    unknown    nothing can be known: the group is gone or its slices cannot be told apart, or this release does not
               merge them; a note says the last

Every judge of an index asks here, be it Lakeward's or Hudi's, and each has the same result:

    keys from somewhere         rows that are drawn, entries that are drawn, keys of a commit, keys that are given
    where two put them          rows and an index, or two indexes: `not_in` is what only the first says
    -> what the rows say        `judge_by_rows`, of what only one of the two says
    -> what is wrong with one   `JudgedIndex`: rows that it misses, places that it says without a row; its `faults`

Touches: reads the table's newest slices.
Keeps:   what cannot be known is neither there nor gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.errors import Unsupported
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.read.row_lookup import find_rows
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot

PLACED_KEYS: Final = pa.schema([pa.field(name, pa.string()) for name in (RECORD_KEY, PARTITION_PATH, FILE_ID)])


@dataclass(frozen=True, slots=True)
class RowTruth:
    """Each of the keys that were placed is in one of the three."""

    there: pa.Table
    gone: pa.Table
    unknown: pa.Table
    notes: tuple[str, ...] = ()


class FaultKind(StrEnum):
    MISSING = "missing"
    """The index does not find a row: writers insert it again."""
    ELSEWHERE = "elsewhere"
    """The index says that a row is where it is not."""
    NO_ROW = "no-row"
    """The index says that there is a row, and there is none."""


@dataclass(frozen=True, slots=True, order=True)
class IndexFault:
    kind: FaultKind
    key: str
    partition_path: str
    """The partition of the row, or the one that the index says."""
    file_id: str
    said: tuple[GroupId, ...] = ()
    """What the index says instead."""

    @property
    def what(self) -> str:
        where = f"{self.partition_path or '(no partition)'}, {self.file_id}"
        match self.kind:
            case FaultKind.MISSING:
                return f"its row is in {where}, and the index does not find it: writers insert it again"
            case FaultKind.ELSEWHERE:
                said = "; ".join(f"{path or '(no partition)'}, {file_id}" for path, file_id in self.said)
                return f"its row is in {where}, the index says {said}"
            case FaultKind.NO_ROW:
                return f"the index says that it is in {where}, and there is no such row"


@dataclass(frozen=True, slots=True)
class JudgedIndex:
    """What the rows say of the answers of one index."""

    missed: pa.Table = field(default_factory=PLACED_KEYS.empty_table)
    """Rows that it does not locate where they are."""
    false: pa.Table = field(default_factory=PLACED_KEYS.empty_table)
    """Places in which it says that there is a row, and there is none."""
    said: pa.Table = field(default_factory=PLACED_KEYS.empty_table)
    """The places that it has for the keys of rows that it misses."""

    @property
    def wrong(self) -> int:
        return int(self.missed.num_rows + self.false.num_rows)

    def faults(self, most: int | None = None) -> list[IndexFault]:
        """Sorted; those of the first rows and of the first places alone where there are more than that."""
        missed, false = (each.slice(0, most).to_pylist() for each in (self.missed, self.false))
        said: dict[str, list[GroupId]] = {}
        for row in self.said.to_pylist() if missed else ():
            said.setdefault(row[RECORD_KEY], []).append((row[PARTITION_PATH], row[FILE_ID]))
        faults = []
        for row in missed:
            elsewhere = tuple(sorted(said.get(row[RECORD_KEY], ())))
            kind = FaultKind.ELSEWHERE if elsewhere else FaultKind.MISSING
            faults.append(IndexFault(kind, row[RECORD_KEY], row[PARTITION_PATH], row[FILE_ID], elsewhere))
        for row in false:
            faults.append(IndexFault(FaultKind.NO_ROW, row[RECORD_KEY], row[PARTITION_PATH], row[FILE_ID]))
        return sorted(faults)


def not_in(placed: pa.Table, others: pa.Table) -> pa.Table:
    """The keys that the others do not put in the same file group, in no order."""
    return _joined(placed, others, "left anti")


def also_in(placed: pa.Table, others: pa.Table) -> pa.Table:
    """The keys that the others put in the same file group, in no order."""
    return _joined(placed, others, "left semi")


def _joined(placed: pa.Table, others: pa.Table, how: str) -> pa.Table:
    names = PLACED_KEYS.names
    return placed.join(others.select(names), names, join_type=how) if placed.num_rows else placed


def place_keys(placed: Mapping[GroupId, Collection[str]]) -> pa.Table:
    """Keys by the file group that they are said to be in, in `PLACED_KEYS`."""
    rows = [(key, *group) for group, keys in placed.items() for key in keys]
    return pa.Table.from_pylist([dict(zip(PLACED_KEYS.names, row, strict=True)) for row in rows], PLACED_KEYS)


def judge_by_rows(
    storage: Storage, snapshot: TableSnapshot, placed: pa.Table, *, meter: ReadMeter | None = None
) -> RowTruth:
    """Ask the rows of each file group for the keys that are said to be in it."""
    frozen = {(group.partition_path, group.file_id) for group in snapshot.frozen}
    there, gone, unknown = ([placed.schema.empty_table()] for _ in range(3))
    notes: list[str] = []
    for group, rows in _by_group(placed):
        try:
            keys = rows.column(RECORD_KEY).to_pylist()
            found = None if group in frozen else find_rows(storage, snapshot, group, keys, meter=meter or ReadMeter())
        except Unsupported as error:
            found = None
            notes.append(f"{error.what} {error.why}")
        if found is None:
            unknown.append(rows)
            continue
        has_row = pc.is_in(rows.column(RECORD_KEY), pa.array(sorted(found), pa.string()))
        there.append(rows.filter(has_row))
        gone.append(rows.filter(pc.invert(has_row)))
    return RowTruth(pa.concat_tables(there), pa.concat_tables(gone), pa.concat_tables(unknown), tuple(notes))


def _by_group(placed: pa.Table) -> Iterator[tuple[GroupId, pa.Table]]:
    """The rows of each file group that has some, in the order of the groups."""
    columns = (placed.column(PARTITION_PATH).to_pylist(), placed.column(FILE_ID).to_pylist())
    places: dict[GroupId, list[int]] = {}
    for number, group in enumerate(zip(*columns, strict=True)):
        places.setdefault(group, []).append(number)
    for group in sorted(places):
        yield group, placed.take(pa.array(places[group]))
