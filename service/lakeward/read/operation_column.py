"""The sixth meta column `_hoodie_operation`, in which Flink's changelog mode keeps the kind of change beside each row.

    I, U, none     a row
    -U, D          a delete with the row's ordering value, as by a column (`merge/rules/records.find_deleted`)

The table's properties do not say whether rows have it, files do (`read/heeded_operations`). What a base file holds
there decides nothing, and goes where rows without the column come over it, as by Hudi's compaction.

Touches: nothing.
Keeps:   1. logs of which some rows have the column and others have not are `Unsupported`: Hudi's readers heed it, or do
            not, by the newest file of the table;
         2. so are all logs with it where they are merged without their base file.
Source:  Hudi 1.2.0, RecordContext.isDeleteHoodieOperation, DeleteContext, TableSchemaResolver; tables of its own.
See:     docs/decisions/0052-rows-without-keys-and-rows-in-part.md
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import parse_schema
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.merge.rules.merge_rules import OPERATION_FIELD, MergeRules

_DATA_TYPES = (BlockType.AVRO_DATA, BlockType.HFILE_DATA, BlockType.PARQUET_DATA)


def has_operations(blocks: Iterable[LogBlock], rules: MergeRules, *, base_has: bool = False) -> bool:
    """Whether merged rows have the column: as those of the blocks have, or where there are none as the base file's."""
    data = list(data_blocks(blocks))
    without = [block for block in data if not has_operation(block)]
    if without and len(without) < len(data):
        raise Unsupported(
            f"{without[0].where} has not the column {OPERATION_FIELD}, which other logs of its file group have.",
            why="Hudi's readers take rows for deletes by it, or do not, by what the newest file of the table has.",
            remedy="Compact this file group with the engine that writes the column.",
        )
    if data and not without and not rules.takes_operations:
        raise Unsupported(
            f"{data[0].where} has the column {OPERATION_FIELD}.",
            why="What readers of tables of this version make of it was not tried.",
            remedy="Compact this file group with the engine that writes the column.",
        )
    return not without if data else base_has


def check_no_operations(blocks: Iterable[LogBlock]) -> None:
    """Raise `Unsupported` where the rows of a block have the column."""
    for block in data_blocks(blocks):
        if has_operation(block):
            raise Unsupported(
                f"{block.where} has the column {OPERATION_FIELD}.",
                why="That a log which other engines write reads as before with one of Lakeward's among it was not "
                "tried.",
                remedy="Compact the file group with --type full.",
            )


def data_blocks(blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    return (block for block in blocks if block.type in _DATA_TYPES)


def has_operation(block: LogBlock) -> bool:
    schema = block.headers.get(HeaderKey.SCHEMA, "")
    # Most schemas do not name it at all, and inside of a struct it is a name like others.
    is_named = f'"{OPERATION_FIELD}"' in schema
    return is_named and any(field.name == OPERATION_FIELD for field in parse_schema(schema, where=block.where))
