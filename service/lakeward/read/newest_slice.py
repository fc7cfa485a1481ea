"""What a query reads of a file group: its newest slice, and what merging that needs.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeward.base.errors import Unsupported
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.logs.log_scan import NEWEST
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


def newest_rows(snapshot: TableSnapshot, slice_: FileSlice) -> SliceInput:
    """Its rows as a query finds them now. Raises `Unsupported` where they are not merged in a way that we know."""
    if snapshot.schema is None or snapshot.config.merge_mode not in PAYLOAD_MODES.values():
        raise Unsupported(
            f"The rows of file group {slice_.file_id} cannot be known.",
            why=f"Its logs are merged by {snapshot.config.merge_mode} rules, or its schema is not known.",
        )
    return SliceInput(
        base_path=snapshot.base_path,
        partition_path=slice_.partition_path,
        file_id=slice_.file_id,
        base_file=slice_.base_file.path if slice_.base_file is not None else None,
        log_files=tuple(log.path for log in slice_.log_files),
        instant=NEWEST,
        schema=snapshot.schema,
        rules=merge_rules(snapshot),
        key_fields=snapshot.config.made_key_fields,
        committed=committed_writes(snapshot.timeline, snapshot.config.version),
    )
