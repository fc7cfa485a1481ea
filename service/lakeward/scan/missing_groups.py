"""What is missing in the answer of a query that passes over damaged file groups, and how no group is given out in part.

Touches: the temporary file that it is given.
Keeps:   a slice that breaks in the middle gives none of its rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from lakeward.base.errors import DamagedFiles
from lakeward.base.quantities import format_count
from lakeward.merge.rows.spill_file import SPILL_PREFIX, spilling
from lakeward.table.damaged_file import damaged_error
from lakeward.table.file_group import FrozenGroup

_SPOOLED_IN_MEMORY = 16 * 1024 * 1024
_MISSING_SHOWN = 20
_WHAT = "rows of a file slice that may be damaged"


@dataclass(frozen=True, slots=True)
class MissingGroup:
    """A file group that is not in the rows."""

    partition_path: str
    file_id: str
    what: str
    remedy: str
    rows: int | None = None
    """Rows of its base file, where that says it."""

    @property
    def line(self) -> str:
        rows = "" if self.rows is None else f", whose base file has {format_count(self.rows, 'row')}"
        return f"Missing: file group {self.file_id} in partition {self.partition_path or '(none)'}{rows}."


def missing_group(group: FrozenGroup) -> MissingGroup:
    if group.damage:
        error = damaged_error(group.damage)
        return MissingGroup(group.partition_path, group.file_id, error.what, error.remedy)
    what = f"File group {group.file_id} in partition {group.partition_path or '(none)'} cannot be read: {group.why}"
    return MissingGroup(group.partition_path, group.file_id, what, "`lakeward verify` says more.")


def damage_of(missing: Sequence[MissingGroup], *, is_skipped: bool) -> DamagedFiles:
    """What stops a query, or is missing in it; there is at least one file group."""
    first = missing[0]
    error = DamagedFiles(
        first.what,
        why=f"Rows are missing: {format_count(len(missing), 'file group')} cannot be read.",
        remedy=first.remedy if is_skipped else f"{first.remedy} --skip-damaged reads the other file groups.",
        file_group=(first.partition_path, first.file_id),
    )
    for each in missing[:_MISSING_SHOWN]:
        error.add_note(each.line)
    if len(missing) > _MISSING_SHOWN:
        error.add_note(f"Missing: {format_count(len(missing) - _MISSING_SHOWN, 'more file group')}.")
    return error


def read_whole(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The same batches, to as many rows as are asked for; the first one once all of them were read without an error."""
    with spilling(_WHAT, None):
        spool = tempfile.SpooledTemporaryFile(_SPOOLED_IN_MEMORY, prefix=SPILL_PREFIX)  # noqa: SIM115 - closed below
    with spool:
        if _spool(batches, spool, limit):
            spool.seek(0)
            yield from pa.ipc.open_stream(spool)


def _spool(batches: Iterator[pa.RecordBatch], file: IO[bytes], limit: int | None) -> int:
    """Write the batches into the file, to as many rows as are asked for. Returns how many rows there are."""
    rows, writer = 0, None
    for batch in batches:
        with spilling(_WHAT, None):
            writer = writer or pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
        rows += batch.num_rows
        if limit is not None and rows >= limit:
            break
    if writer is not None:
        with spilling(_WHAT, None):
            writer.close()
            file.flush()
    return rows
