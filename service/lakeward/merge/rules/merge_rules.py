"""How records with one key become one record: the settings of a table's merge.

Touches: nothing; a plain value, so that a process that only sends work to others need not have Arrow in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

IS_DELETED_FIELD = "_hoodie_is_deleted"
OPERATION_FIELD = "_hoodie_operation"
"""The sixth meta column, where writers keep the kind of change beside each row (Flink's changelog mode)."""
OPERATIONS = ("I", "U", "-U", "D")
DELETING_OPERATIONS = ("-U", "D")
RECORD_KEY_FIELD = "_hoodie_record_key"
FILE_NAME_FIELD = "_hoodie_file_name"

ORDERING_FIELDS_MAX = 6
"""Each has a bit in the class of a value, a signed byte, beside the bit of the default."""


class MergeMode(StrEnum):
    COMMIT_TIME_ORDERING = "COMMIT_TIME_ORDERING"
    EVENT_TIME_ORDERING = "EVENT_TIME_ORDERING"


class PartialUpdates(StrEnum):
    """Which values of a row are none, so that the row that it wins over gives its own."""

    IGNORE_DEFAULTS = "IGNORE_DEFAULTS"
    """Nulls."""
    FILL_UNAVAILABLE = "FILL_UNAVAILABLE"
    """Texts that are the table's `unavailable` value."""
    KEEP_VALUES = "KEEP_VALUES"
    """Values of columns that the row was written without; a slice with partial log blocks has it, never a table."""


class RepeatedKeys(StrEnum):
    """What happens to rows that have one key in one base file, as `insert` and `bulk_insert` leave them."""

    APART = "apart"
    """The first of them meets the records of the logs, the others stay as they are: Hudi's readers of the layout
    `default`."""
    VERSIONS = "versions"
    """They are versions of one row, the later one in the file being the younger: Hudi's reader of `lsm_tree`, where a
    slice has logs."""
    REFUSED = "refused"
    """What Hudi makes of them is not known."""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """The merge properties of one table."""

    mode: MergeMode
    ordering_fields: tuple[str, ...] = ()
    """Several are compared one after the other, the first one first."""
    delete_field: str | None = None
    """With `delete_marker`: a data record whose `delete_field` is the marker, as text, is deleted, says the table."""
    delete_marker: str | None = None
    partial_updates: PartialUpdates | None = None
    unavailable: str | None = None
    takes_operations: bool = False
    """How log records with a kind of change beside them are merged in this table is known."""
    takes_partial_blocks: bool = False
    """How log blocks with some of the columns are merged in this table is known."""
    in_part: tuple[frozenset[str], ...] = ()
    """With KEEP_VALUES: the columns of each kind of partial block, of which rows bring the number along, from 1 on."""
    by_rank: bool = False
    """Records are folded in the order of their files, the base file's being the oldest: the layout `lsm_tree`. Else the
    logs are folded among themselves, and what is left meets the base row."""
    ranked_since: str = ""
    """With `by_rank`: slices with logs up to this instant are from before the table got the layout."""
    repeated: RepeatedKeys = RepeatedKeys.APART

    @property
    def base_is_first(self) -> bool:
        """The base row takes part in the fold of the logs. By commit time the result is the same, the last one wins."""
        return self.by_rank and self.mode is MergeMode.EVENT_TIME_ORDERING

    @property
    def needs_all_records(self) -> bool:
        """More than the winner among a key's log records matters."""
        return self.partial_updates is not None or self.base_is_first
