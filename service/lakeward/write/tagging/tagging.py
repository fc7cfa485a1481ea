"""What finds the file group of a key, and how: of the batch alone, or by looking keys up in an index.

    BatchTagging      the place follows from the key: its bucket, or none because every key counts as new
    LookupTagging     the place of a key is looked up; a row gets every place that is found for its key, and where none
                      is it is a new one

Where a key is one in all of the table, a row goes to the partition that has its key, with that partition's path in its
meta column, while its own columns keep what they say (Hudi's `hoodie.*.index.update.partition.path` at its default).
Rows of a new key for several partitions are folded to one, and the key goes where that one belongs.

Touches: nothing; what is looked up where, the indexes say.
Source:  SparkMetadataTableGlobalRecordLevelIndex, HoodieIndexUtils (Hudi 1.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakeward.index.index import Index
from lakeward.merge.rules.merge_rules import MergeRules


@runtime_checkable
class BatchTagging(Protocol):
    """Picklable."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        """PLACE of each row of a batch in `keyed_schema`. Raises `Unsupported`."""


@dataclass(frozen=True, slots=True)
class LookupTagging:
    """Picklable."""

    index: Index
    folded_by: MergeRules | None = None
    """How rows of one new key for several partitions become one, where a key is one in all of the table and rows are
    folded at all."""


Tagging = BatchTagging | LookupTagging


class NewKeys:
    """Every key is a new one: for operations that look for none, where the file group does not follow from the key."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.nulls(batch.num_rows, pa.string())
