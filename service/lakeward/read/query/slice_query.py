"""What of a file slice is wanted, and what must be read for it.

A merge compares records by their keys and ordering values and asks columns of them whether they are deleted, so these
columns are read whether they are wanted or not. A log says by its partition path that it belongs here, so of logs that
column is read, too (`read/logs/log_run`).

Touches: nothing.
Keeps:   a projection changes no row that comes out, but for the columns that it leaves out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.merge.digest import hashed_schema, with_hashes
from lakeward.merge.rules.merge_rules import (
    FILE_NAME_FIELD,
    IS_DELETED_FIELD,
    OPERATION_FIELD,
    RECORD_KEY_FIELD,
    MergeRules,
)
from lakeward.read.query.predicate import Predicate

PARTITION_FIELD = "_hoodie_partition_path"


@dataclass(frozen=True, slots=True)
class SliceQuery:
    """All of a slice, if nothing else is said."""

    columns: Collection[str] | None = None
    """Names of columns at the top of the table's schema, others are passed over; None for all."""
    predicate: Predicate = field(default_factory=Predicate)
    is_rewrite: bool = False
    """All rows are written again: the column of the file's name is left out, and strings that repeat in the base file
    come as dictionaries."""
    keeps_dictionaries: bool = False
    """Strings that repeat in the Parquet blocks of the logs come as dictionaries: there is no base file to ask."""
    carries_hashes: bool = False
    """Rows bring along the hashes that they had when they were read (`merge/digest`)."""
    takes_sample: bool = False
    """A few keys are kept with all that the slice's files say about them (`read/query/sample`)."""
    row_bytes_max: int | None = None
    """What a row may take that is to be written (`read/large_rows`); None: it is not."""
    by_statistics: bool = True
    """Row groups are skipped by what footers say. False where that is just what is in doubt."""

    @property
    def prunes(self) -> bool:
        """True where footers are asked at all; what compacts asks for every row."""
        return self.by_statistics and bool(self.predicate.conditions)

    def chosen_schema(self, table: pa.Schema) -> pa.Schema:
        """The columns that come out, in the table's order."""
        return table if self.columns is None else _only(table, self.columns)

    def with_dictionaries(
        self, read: pa.Schema, rules: MergeRules, repeated: Collection[str], key_fields: Collection[str] = ()
    ) -> pa.Schema:
        """The columns that are read, where some repeat; what is compared, or filled, stays plain."""
        compared = {RECORD_KEY_FIELD, OPERATION_FIELD, *key_fields, *rules.ordering_fields, rules.delete_field}
        wants = self.is_rewrite or self.keeps_dictionaries
        chosen = set(repeated) - compared if wants and rules.partial_updates is None else set()
        return pa.schema(
            [
                column.with_type(pa.dictionary(pa.int32(), column.type))
                if column.name in chosen and pa.types.is_string(column.type)
                else column
                for column in read
            ]
        )

    def read_schema(self, table: pa.Schema, rules: MergeRules, key_fields: Collection[str] = ()) -> pa.Schema:
        """The columns that are read for it; `key_fields` are those of which keys are made."""
        missing = set(self.predicate.columns) - set(table.names)
        assert not missing, f"the table has no column {sorted(missing)}"
        if self.is_rewrite:
            return pa.schema([column for column in table if column.name != FILE_NAME_FIELD])
        if self.columns is None:
            return table
        for_the_merge = (
            RECORD_KEY_FIELD,
            *key_fields,
            IS_DELETED_FIELD,
            OPERATION_FIELD,
            *rules.ordering_fields,
            rules.delete_field,
        )
        return _only(table, {*self.columns, *self.predicate.columns, *for_the_merge})

    def carried(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as they go on from where they were read."""
        return with_hashes(read) if self.carries_hashes else read

    def carried_schema(self, read: pa.Schema) -> pa.Schema:
        return hashed_schema(read) if self.carries_hashes else read

    def ranged_schema(self, table: pa.Schema) -> pa.Schema:
        """The columns whose ranges pruning asks for."""
        return _only(table, {RECORD_KEY_FIELD, *self.predicate.columns})


EVERYTHING = SliceQuery()
REWRITE = SliceQuery(is_rewrite=True)


def _only(table: pa.Schema, names: Collection[str | None]) -> pa.Schema:
    return pa.schema([column for column in table if column.name in names])
