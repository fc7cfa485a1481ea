"""What is asked of a write: the operation, and what a writer says beside it, in Hudi's words and with its defaults.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.index.index_type import IndexType
from lakeward.protocol.transition import WriteAction

CONFLICT_RETRIES = 3
"""How often the command and the call begin again. Beside compactions the ranges in the metadata table alone are reason
enough to (decision 0060)."""


class WriteOperation(StrEnum):
    UPSERT = "upsert"
    INSERT = "insert"
    DELETE = "delete"
    BULK_INSERT = "bulk_insert"
    INSERT_OVERWRITE = "insert_overwrite"
    """The partitions that the rows name hold these rows and no others."""
    INSERT_OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"

    @property
    def operation_type(self) -> str:
        """The name that commits have for it."""
        return self.value.upper()

    @property
    def replaces(self) -> bool:
        """Whether it takes whole file groups away."""
        return self in (self.INSERT_OVERWRITE, self.INSERT_OVERWRITE_TABLE, self.DELETE_PARTITION)

    @property
    def finds_keys(self) -> bool:
        """Whether a key is looked for, or every row is new."""
        return self in (self.UPSERT, self.DELETE)

    @property
    def deduplicates(self) -> bool:
        """Whether rows of one key become one where nothing is said (`hoodie.combine.before.*`)."""
        return self.finds_keys

    def action(self, *, is_merge_on_read: bool) -> WriteAction:
        if self.replaces:
            return WriteAction.REPLACE_COMMIT
        return WriteAction.DELTA_COMMIT if is_merge_on_read else WriteAction.COMMIT


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes, but for `rows_per_file`; the defaults are Hudi's."""

    small_file: int = 104_857_600
    """`hoodie.parquet.small.file.limit`: base files below it take inserts, with their logs where inserts go into logs;
    0: none does."""
    max_file: int = 125_829_120
    """`hoodie.parquet.max.file.size`"""
    rows_per_file: int = 500_000
    """`hoodie.copyonwrite.insert.split.size`: while nothing says how large a row is."""
    row: int = 1_024
    """`hoodie.copyonwrite.record.size.estimate`"""
    small_files_at_once: int = 1
    """`hoodie.merge.small.file.group.candidates.limit`, of a partition of a table that is merged on read."""
    log_block: int = 64 * 1024 * 1024
    """Content of one block of a log."""
    log_compression: float = 0.35
    """`hoodie.logfile.to.parquet.compression.ratio`: bytes of a base file for those of inline logs."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    operation: WriteOperation
    index: IndexType = IndexType.SIMPLE
    buckets: int | None = None
    """How many buckets a partition has; for `IndexType.BUCKET` alone."""
    bucket_fields: tuple[str, ...] = ()
    """The key fields that are hashed; all of them where none is named."""
    moves_rows: bool = False
    """Rows go to the partitions that they come for, also where another one has their key; for a global index alone."""
    deduplicate: bool | None = None
    """None: as Hudi does for the operation."""
    partitions: tuple[str, ...] = ()
    """The paths that delete_partition takes."""
    sizes: FileSizes = field(default_factory=FileSizes)
    fill_missing: bool = False
    """Columns of the table that the rows lack are null (`hoodie.write.set.null.for.missing.columns`)."""
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    """What the commit says beside the schema."""
    conflict_retries: int = 0
    """How often a write begins again that met another one (`hoodie.write.num.retries.on.conflict.failures`)."""
    service: str | None = None
    """The operation type of a service that takes file groups away as this operation does; None: it is a write."""

    @property
    def operation_type(self) -> str:
        """The name that the commit has for it."""
        return self.service or self.operation.operation_type

    @property
    def deduplicates(self) -> bool:
        """Whether rows of one key become one. In buckets they do where nothing is said, since the logs of a bucket are
        folded by every reader; and a record index, as each of Lakeward's, has one place for a key. There Hudi leaves
        two rows in a first base file, of which updates reach one, or fails."""
        if self.deduplicate is not None:
            return self.deduplicate
        has_one_place = self.index in (IndexType.BUCKET, IndexType.METADATA) or self.index.is_own
        return self.operation.deduplicates or has_one_place
