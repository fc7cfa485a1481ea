"""The logs that a handle wrote, inline or native, read back and held against the records that were given.

Touches: the files, reading them.
Keeps:   a log that does not read back as what it was given is `VerificationFailed`.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.engine.task.record_digests import RecordDigests
from lakeward.engine.task.verification import check_digest
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import read_data_block
from lakeward.format.projection import project
from lakeward.merge.rules.ordering_type import ordering_columns
from lakeward.merge.rules.records import delete_ordering
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.log_scan import read_heads
from lakeward.storage.storage import Storage
from lakeward.write.handles.appended_records import AppendedRecords
from lakeward.write.target import WriteContext


def check_logs(
    storage: Storage, context: WriteContext, paths: Sequence[str], records: AppendedRecords, *, bytes_max: int
) -> None:
    """Raises `VerificationFailed`.

    Args:
        records: those that were written, all of them.
        bytes_max: what a batch may take when it is decoded.
    """
    read_back = RecordDigests(records.ordering_type)
    ordering = ordering_columns(context.rules, records.schema)
    for path in paths:
        for block, file in read_heads(storage, context.base_path, path):
            if not isinstance(block, LogBlock):
                continue  # what it held is not in the digest
            if block.type is BlockType.DELETE:
                for found in read_deletes(file, block, ordering, bytes_max=bytes_max):
                    values = delete_ordering(
                        found.ordering,
                        records.ordering_type,
                        wrappers=found.wrappers,
                        rows=len(found.keys),
                        source=block.where,
                    )
                    read_back.update_deletes(Tombstones(found.keys, values))
                continue
            from_avro = block.type is not BlockType.PARQUET_DATA
            for batch in read_data_block(file, block, bytes_max=bytes_max):
                read_back.rows.update(project(batch, records.schema, where=block.where, from_avro=from_avro))
    check_digest(merged=records.digests.hexdigest, written=read_back.hexdigest)
