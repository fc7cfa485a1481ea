"""What a query reads of a file group: its newest slice, and what merging that needs.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import table_schema
from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.read.logs.committed_writes import CommittedWrites, committed_writes
from lakeward.read.logs.log_scan import NEWEST
from lakeward.read.path_columns import PathColumns, path_columns
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.table.file_group import FileSlice
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import PAYLOAD_MODES


def newest_slice(slices: Sequence[FileSlice]) -> FileSlice | None:
    """The newest slice that can be read; under a pending compaction, the one before it with the logs that came
    since."""
    if not slices:
        return None
    latest = slices[0]
    if latest.base_file is not None or len(slices) == 1:
        return latest
    return replace(slices[1], log_files=(*slices[1].log_files, *latest.log_files))


@dataclass(frozen=True, slots=True)
class TableReading:
    """What the slices of a table have in common when their rows are read. Travels to executors."""

    base_path: str
    schema: str | None
    """Avro schema JSON of the table, without meta columns."""
    rules: MergeRules | None
    """None where no logs are merged, or by rules that we do not know."""
    merge_mode: str
    key_fields: tuple[str, ...]
    committed: CommittedWrites | None
    """The writes whose blocks count, where they are merged."""
    path_columns: PathColumns | None = None
    """Columns that are not in the files."""
    instant: str = NEWEST
    """Blocks of later instants are left out."""
    whole_slices: bool = False
    """Slices come with all of their logs, so that a log that is not there is gone."""

    @property
    def key_columns(self) -> pa.Schema:
        """The columns of which record keys are made; none where rows carry their keys."""
        if not self.key_fields or self.schema is None:
            return pa.schema([])
        table = table_schema(self.schema)
        return pa.schema([table.field(name) for name in self.key_fields])

    def slice_input(self, slice_: FileSlice) -> SliceInput:
        """Raises `Unsupported` where its rows are not merged in a way that we know."""
        if self.schema is None or self.rules is None:
            raise Unsupported(
                f"The rows of file group {slice_.file_id} cannot be known.",
                why=f"Its logs are merged by {self.merge_mode} rules, or its schema is not known.",
            )
        return SliceInput(
            base_path=self.base_path,
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_file=slice_.base_file.path if slice_.base_file is not None else None,
            log_files=tuple(log.path for log in slice_.log_files),
            instant=self.instant,
            schema=self.schema,
            rules=self.rules,
            key_fields=self.key_fields,
            committed=self.committed,
            since=slice_.since if self.whole_slices else None,
        )


def table_reading(snapshot: TableSnapshot, *, merges: bool, whole_slices: bool = False) -> TableReading:
    """Rows as a query finds them as of the snapshot.

    Args:
        merges: logs are read, of a table whose rules of merging are not refused.
        whole_slices: as in `TableReading`.
    """
    config = snapshot.config
    return TableReading(
        base_path=snapshot.base_path,
        schema=snapshot.schema,
        rules=merge_rules(snapshot) if merges and config.merge_mode in PAYLOAD_MODES.values() else None,
        merge_mode=config.merge_mode,
        key_fields=config.made_key_fields,
        committed=committed_writes(snapshot.timeline, config.version) if merges else None,
        instant=snapshot.read_until or NEWEST,
        path_columns=path_columns(config),
        whole_slices=whole_slices,
    )
