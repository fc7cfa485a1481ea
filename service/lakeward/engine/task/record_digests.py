"""Digests of the records of a log: its rows, and its deletes with their ordering values, each whatever their order.

Touches: nothing.
Keeps:   1. equal rows and equal deletes have one digest, in whatever order and batches they come;
         2. by integers that 0 compares with, a delete without an ordering value is one with 0.
"""

from __future__ import annotations

import pyarrow as pa

from lakeward.merge.digest import Digest
from lakeward.merge.rules.ordering_type import default_is_comparable
from lakeward.merge.rules.tombstones import Tombstones


class RecordDigests:
    def __init__(self, ordering_type: pa.DataType | None = None) -> None:
        """
        Args:
            ordering_type: of the table's ordering values, for deletes as they were given; None where they have been
                folded, which leaves each with the value that a reader sees.
        """
        self._ordering_type = ordering_type
        self.rows = Digest()
        self._deletes = Digest()

    @property
    def hexdigest(self) -> str:
        return self.rows.hexdigest + self._deletes.hexdigest

    def update_deletes(self, deletes: Tombstones) -> None:
        keys, values = deletes.keys, deletes.ordering
        if values is None:
            values = pa.nulls(len(keys), self._ordering_type or pa.null())
        if self._ordering_type is not None and default_is_comparable(self._ordering_type):
            values = values.fill_null(0)
        self._deletes.update(pa.RecordBatch.from_arrays([keys, values], names=["key", "ordering"]))
