"""What finds the file group of a key, and how: of the batch alone, or by looking keys up in an index.

    BatchTagging      the place follows from the key: its bucket, or none because every key counts as new
    LookupTagging     the place of a key is looked up; a row gets every place that is found for its key, and where none
                      is it is a new one

Where a key is one in all of the table (`index.is_global`), Hudi's `hoodie.*.index.update.partition.path` says what
happens to a row that comes for another partition than the one that has its key:

    false   it goes to the one that has it, with that path in its meta column, while its own columns keep what they say
    true    if it wins over the stored row it goes where it belongs, and its key leaves the group that had it; if not it
            goes nowhere. One that deletes goes to where the key is

Rows of a key for several partitions count by the one that wins among them; so do those of a new key where rows are
folded. A key that is in several partitions leaves all but the one that it goes to.

Touches: nothing; what is looked up where, the indexes say.
Source:  SparkMetadataTableGlobalRecordLevelIndex, HoodieIndexUtils (Hudi 1.2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakeward.index.index import Index
from lakeward.merge.rules.merge_rules import MergeMode, MergeRules
from lakeward.table.file_system_view import GroupId
from lakeward.write.tagging.stored_rows import StoredRows


@runtime_checkable
class BatchTagging(Protocol):
    """Picklable."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        """PLACE of each row of a batch in `keyed_schema`. Raises `Unsupported`."""


@dataclass(frozen=True)
class OnePlace:
    """How a key that comes keeps one place in the table."""

    rules: MergeRules
    stored: StoredRows
    moves: bool
    """Rows go to the partitions that they come for."""
    folds: bool
    """Rows of one new key for several partitions become one."""
    trusts_base_files: bool
    """What the index names is there. Where it names keys of base files, logs may have deleted them since."""
    watches_deletes: bool
    """A delete that loses to the stored row must not be taken for one that took it away: an index that learns of it
    would lose the key, where logs are written without a look at what they lie on."""

    @property
    def compares(self) -> bool:
        """Whether a row may lose to a stored one."""
        return self.rules.mode is MergeMode.EVENT_TIME_ORDERING

    def reads(self, group: GroupId, *, is_contested: bool) -> bool:
        """Whether the rows of a group that the index names must be read.

        Args:
            is_contested: for one of its keys comes a row that may move it, or a delete that is watched.
        """
        if group not in self.stored:
            return False
        return (is_contested and self.compares) or (not self.trusts_base_files and self.stored.has_row_logs(group))


@dataclass(frozen=True)
class LookupTagging:
    index: Index
    one_place: OnePlace | None = None
    """For rows of an operation that brings some, by an index that is global."""


Tagging = BatchTagging | LookupTagging


class NewKeys:
    """Every key is a new one: for operations that look for none, where the file group does not follow from the key."""

    def places(self, batch: pa.RecordBatch) -> pa.Array:
        return pa.nulls(batch.num_rows, pa.string())
