"""Keys with what was found of them in each file group, sorted, and what follows: which came, which went.

    mark       the key is
    BEFORE     in the file group before the commit
    MIGHT      perhaps in it before: in a log, or under one
    AFTER      in it after the commit
    TOUCHED    in a log of the commit
    THERE      in the newest slice, which is what decides of keys that are TOUCHED

Touches: spill files of its own.
Keeps:   1. keys come out by their bytes, each once with the place where it is, or else once for each file group that it
            went from; of an index that is not global each once in each partition;
         2. memory is bounded, whatever the number of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY, differs
from lakeward.merge.runs.record_sorter import RecordSorter
from lakeward.merge.runs.spilled_run import RawRun
from lakeward.merge.runs.whole_keys import whole_keys
from lakeward.table.file_system_view import GroupId

IS_THERE: Final = "_lakeward_is_there"
CHANGES: Final = pa.schema(
    [
        pa.field(RECORD_KEY, pa.string()),
        pa.field(PARTITION_PATH, pa.string()),
        pa.field(FILE_ID, pa.string()),
        pa.field(IS_THERE, pa.bool_()),
    ]
)
"""What a commit did: a key is in the file group now, or it is in it no more, if it ever was."""

_PLACE = "place"
_MARK = "mark"
_MARKED = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(_PLACE, pa.int32()), pa.field(_MARK, pa.int8())])
MEMORY_BYTES = 64 * 1024 * 1024

Ints = npt.NDArray[np.int64]


class Mark(IntFlag):
    BEFORE = 1
    MIGHT = 2
    AFTER = 4
    TOUCHED = 8
    THERE = 16


_NOTHING, _GONE, _STAYS, _CAME = -1, 0, 1, 2


def _what_became() -> npt.NDArray[np.int8]:
    """What each set of marks means."""
    found = np.full(32, _NOTHING, np.int8)
    for marks in range(32):
        if marks & Mark.TOUCHED:
            found[marks] = _CAME if marks & Mark.THERE else _GONE
        elif marks & Mark.AFTER:
            found[marks] = _STAYS if marks & Mark.BEFORE else _CAME
        elif marks & (Mark.BEFORE | Mark.MIGHT):
            found[marks] = _GONE
    return found


_BECAME = _what_became()


class MarkedKeys:
    """A context manager: what was spilled goes at its end."""

    def __init__(self, *, is_global: bool, memory_bytes: int = MEMORY_BYTES, folder: str | None = None) -> None:
        """
        Args:
            folder: for spilled runs; None is the system's for temporary files.
        """
        self._is_global = is_global
        self._sorter = RecordSorter(
            _MARKED, name="keys of an index", is_base=False, memory_bytes=memory_bytes, folder=folder
        )
        self._numbers: dict[GroupId, int] = {}

    def add(self, keys: pa.Array, group: GroupId, mark: Mark) -> None:
        """Raises `SpillFailed`."""
        place = self._numbers.setdefault(group, len(self._numbers))
        marks = pa.array(np.full(len(keys), mark, np.int8))
        places = pa.array(np.full(len(keys), place, np.int32))
        self._sorter.add(pa.RecordBatch.from_arrays([keys, places, marks], schema=_MARKED))

    def changes(self) -> Iterator[pa.RecordBatch]:
        """In `CHANGES`. Nothing is added after this."""
        paths = np.array([path for path, _ in self._numbers], dtype=object)
        partitions = np.unique(paths.astype(str), return_inverse=True)[1] if len(paths) else np.zeros(0, np.int64)
        of = _Places(tuple(self._numbers), np.zeros_like(partitions) if self._is_global else partitions)
        for rows in whole_keys([RawRun(run) for run in self._sorter.finish()]):
            yield from of.changes(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sorter.close()


@dataclass(frozen=True, slots=True)
class _Places:
    groups: tuple[GroupId, ...]
    scopes: Ints
    """The number of each one's partition; the same for all where a key is one in all of the table."""

    def changes(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """What happened to whole keys."""
        keys = rows.column(0)
        places = rows.column(1).to_numpy().astype(np.int64)
        number = np.cumsum(differs(keys)) - 1
        order = np.lexsort((places, self.scopes[places], number))
        number, places, marks = number[order], places[order], rows.column(2).to_numpy()[order]
        begins = np.flatnonzero(_differs(number) | _differs(places))
        became = _BECAME[np.bitwise_or.reduceat(marks, begins)]
        order, number, places = order[begins], number[begins], places[begins]
        chosen = _chosen(became, np.flatnonzero(_differs(number) | _differs(self.scopes[places])))
        if len(chosen):
            yield self._batch(keys.take(pa.array(order[chosen])), places[chosen], became[chosen] != _GONE)

    def _batch(self, keys: pa.Array, places: Ints, is_there: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        texts = [pa.array([group[part] for group in self.groups], pa.string()) for part in (0, 1)]
        at = pa.array(places)
        columns = [keys.cast(pa.string()), *(text.take(at) for text in texts), pa.array(is_there)]
        return pa.RecordBatch.from_arrays(columns, schema=CHANGES)


def _chosen(became: npt.NDArray[np.int8], begins: Ints) -> Ints:
    """Which entries say what happened to their keys, each of which begins at one of `begins`.

    Where a key arrived in a file group, that one alone. Where it stays in one and left another, that it
    stays. Otherwise each group that it went from.
    """
    best = np.maximum.reduceat(became, begins)
    lengths = np.diff(np.append(begins, len(became)))
    has_gone = np.logical_or.reduceat(became == _GONE, begins)
    says = (best == _CAME) | (best == _GONE) | ((best == _STAYS) & has_gone)
    is_best = (became == np.repeat(best, lengths)) & np.repeat(says, lengths)
    seen = np.cumsum(is_best)
    before = np.repeat(seen[begins] - is_best[begins], lengths)
    is_first = seen - before == 1
    return np.flatnonzero(is_best & (is_first | (became == _GONE)))


def _differs(values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """A value is another one than that before it; the first always is."""
    found = np.ones(len(values), np.bool_)
    found[1:] = values[1:] != values[:-1]
    return found
