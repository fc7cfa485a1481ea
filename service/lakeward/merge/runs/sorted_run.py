"""A sorted run: records in the order of their keys, batch by batch, to be merged with others.

A *record* is a row of data, or a delete of its key. A run gives the keys and kinds of a batch at once, and rows and
ordering values of those places that are asked for: of most records only the key is ever looked at.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.rules.ordering_codes import ordering_values
from lakeward.merge.rules.records import record_keys
from lakeward.merge.rules.winner import LogRecordKind

Places = npt.NDArray[np.int64]
"""Places of records in a batch, ascending."""


class RunBatch(Protocol):
    """Records of a run, one after the other."""

    @property
    def keys(self) -> pa.Array:
        """Strings, none null."""

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        """The `LogRecordKind` of each."""

    @property
    def nbytes(self) -> int:
        """What their rows take."""

    @property
    def whole(self) -> pa.RecordBatch | None:
        """A batch that holds the row of each place there; None where rows are fetched when they are asked for."""

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        """A batch that holds the rows at these places, which are data, and where they are in it (ascending)."""

    def ordering(self, places: Places | None) -> pa.Array | None:
        """Values of the ordering column at these places, or all; null where a record has the default, None where all
        have."""


class SortedRun(Protocol):
    """Batches whose keys ascend; equal keys are in the order of their age."""

    @property
    def name(self) -> str:
        """How errors call it: \"The base file ...\"."""

    @property
    def is_base(self) -> bool:
        """Its records are rows of the base file."""

    @property
    def repeats_keys(self) -> bool:
        """A key may have several records in it."""

    def batches(self) -> Iterator[RunBatch]:
        """From the beginning; empty ones are passed over by who merges."""


@dataclass(frozen=True, slots=True)
class BaseRows:
    """A batch of a base file."""

    batch: pa.RecordBatch
    keys: pa.Array
    ordering_fields: Sequence[str]

    @property
    def kinds(self) -> npt.NDArray[np.int8]:
        return np.full(self.batch.num_rows, LogRecordKind.DATA, dtype=np.int8)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    @property
    def whole(self) -> pa.RecordBatch:
        return self.batch

    def rows(self, places: Places) -> tuple[pa.RecordBatch, Places]:
        return part_of(self.batch, places)

    def ordering(self, places: Places | None) -> pa.Array | None:
        values = ordering_values(self.batch, self.ordering_fields)
        return values if values is None or places is None else values.take(pa.array(places))


@dataclass(frozen=True, slots=True)
class BaseRun:
    """A base file that is sorted, to be read once."""

    name: str
    file: Iterable[pa.RecordBatch]
    ordering_fields: Sequence[str]
    is_base: bool = True
    repeats_keys: bool = False

    def batches(self) -> Iterator[RunBatch]:
        for batch in self.file:
            yield BaseRows(batch, record_keys(batch, source=self.name), self.ordering_fields)


def part_of(batch: pa.RecordBatch, places: Places) -> tuple[pa.RecordBatch, Places]:
    """The slice of a batch that holds the places, and where they are in it."""
    first, last = int(places[0]), int(places[-1])
    return batch.slice(first, last + 1 - first), places - first
