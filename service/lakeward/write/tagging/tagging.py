"""What finds the file group of a key, and how: of the batch alone, or by looking keys up in files.

    BatchTagging      the place follows from the key: its bucket, or none because every key counts as new
    LookupTagging     the place of a key is read from files, which are cut into parts for tasks; a row gets every place
                      that is found for its key, and where none is it is a new one

Touches: nothing; what is looked up where, the implementations say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import pyarrow as pa

from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.storage.storage import Storage
from lakeward.write.keyed_rows import PARTITION_PATH, PLACE, RECORD_KEY

FOUND: Final = pa.schema(
    [pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION_PATH, pa.string()), pa.field(PLACE, pa.string())]
)
"""What a lookup finds: a key, the partition that has it, and the file id of the group there."""


@runtime_checkable
class BatchTagging(Protocol):
    """Picklable."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        """PLACE of each row of a batch in `keyed_schema`. Raises `Unsupported`."""


@runtime_checkable
class LookupTagging(Protocol):
    """Picklable but for `parts`, whose parts are."""

    @property
    def is_global(self) -> bool:
        """Whether a key is one in all of the table: then the row goes to the partition that has it."""

    @property
    def folded_by(self) -> MergeRules | None:
        """How rows of one new key for several partitions become one, where a key is one in all of the table and rows
        are folded at all."""

    def parts(self, partitions: Collection[str]) -> Sequence[Any]:
        """What there is to look into for rows of these partitions, one part for a task."""

    def look_up(self, storage: Storage, part: Any, keys: pa.Array | None) -> Iterator[pa.RecordBatch]:
        """What the part holds, in `FOUND`.

        Args:
            keys: the keys that matter, of any partition, in no order; None: all. More may come back.
        """


Tagging = BatchTagging | LookupTagging


class NewKeys:
    """Every key is a new one: for operations that look for none, where the file group does not follow from the key."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.nulls(batch.num_rows, pa.string())
