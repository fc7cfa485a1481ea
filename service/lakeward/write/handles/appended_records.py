"""The rows of one target as records of its logs: rows of the table, and deletes with the values by which they win.

What passes is counted into digests, by which the files are judged that it was written to, and its keys go into the
record index.

Touches: nothing but the file of keys that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakeward.engine.task.record_digests import RecordDigests
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.write.handles.deletes import tombstones_of
from lakeward.write.handles.incoming_rows import IncomingRows
from lakeward.write.handles.key_changes import KeyChangesFile
from lakeward.write.handles.table_rows import TableRows
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import WriteContext, WriteTarget


class AppendedRecords:
    """Iterate once."""

    def __init__(
        self, context: WriteContext, target: WriteTarget, coming: Iterable[IncomingRows], keys: KeyChangesFile | None
    ) -> None:
        """
        Args:
            coming: folded, so that each key is there once.
        """
        self._context = context
        self._target = target
        self._coming = coming
        self._keys = keys
        self._rows = TableRows(context, target, with_file_name=True)
        self.schema = self._rows.schema
        """The table's, with its meta columns."""
        self.ordering_type = ordering_type(context.rules, self.schema)
        self.digests = RecordDigests(self.ordering_type)
        """What has passed, where the write verifies."""

    def __iter__(self) -> Iterator[pa.RecordBatch | Tombstones]:
        """Rows and deletes, each in the order of their keys; of one batch that came the rows first. Raises
        `Unsupported` for what no log can hold."""
        for came in self._coming:
            kept, gone = came.rows().batch, came.deletes().batch
            if kept.num_rows:
                yield self._of_rows(kept)
            if gone.num_rows:
                yield self._of_deletes(gone)

    def _of_rows(self, kept: pa.RecordBatch) -> pa.RecordBatch:
        rows = self._rows.of(kept)
        if self._context.verify:
            self.digests.rows.update(rows)
        if self._keys is not None and (self._target.counts_as_updates or self._context.notes_updates):
            self._keys.add(kept.column(RECORD_KEY), self._target.file_id)
        return rows

    def _of_deletes(self, gone: pa.RecordBatch) -> Tombstones:
        deletes = tombstones_of(gone, self._context, self.ordering_type)
        if self._context.verify:
            self.digests.update_deletes(deletes)
        if self._keys is not None:
            self._keys.add(deletes.keys, None)
        return deletes
