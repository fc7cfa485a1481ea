"""Log blocks whose rows have some of the table's columns only, as MERGE INTO of some columns writes them (IS_PARTIAL).

A column that is not in the block holds what the row that it wins over holds (`merge/rules/partial_rows`), whichever of
the two is newer. So does Hudi from the first such block of a slice on; for rows with all columns it is the same as
ever.

Touches: nothing.
Keeps:   1. blocks of which it is not certain what Hudi makes of them are `Unsupported`;
         2. so are they all where logs are merged without their base file.
Source:  Hudi 1.2.0, KeyBasedFileGroupRecordBuffer.processDataBlock, the partialMerge of its Spark mergers and
         SparkRecordMergingUtils; tables of its own.
See:     docs/decisions/0052-rows-without-keys-and-rows-in-part.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.format.avro.schema import block_schema
from lakeward.format.log.block import BlockType, HeaderKey, LogBlock
from lakeward.merge.rules.merge_rules import (
    IS_DELETED_FIELD,
    OPERATION_FIELD,
    MergeMode,
    MergeRules,
    PartialUpdates,
)


def rules_of_blocks(
    blocks: Sequence[LogBlock], rules: MergeRules, schema: pa.Schema, key_fields: Sequence[str] = ()
) -> MergeRules:
    """The rules by which these blocks are merged: the table's, but where some of them are partial.

    Args:
        blocks: oldest first.
        schema: the table's, meta columns first.
        key_fields: the fields of which keys are made, where rows carry none.
    """
    partial = [block for block in blocks if block.is_partial]
    if not partial:
        return rules
    found: list[frozenset[str]] = []
    _check_deletes_are_last(blocks)
    for block in partial:
        written = block_schema(block.headers.get(HeaderKey.SCHEMA, ""), where=block.where)
        if (why := _why_uncertain(written, rules, schema, key_fields)) is not None:
            raise Unsupported(
                f"{block.where} holds partial updates, and cannot be merged.",
                why=f"{why[:1].upper()}{why[1:]}.",
                remedy="Compact this file group with Hudi itself.",
            )
        if frozenset(written.names) not in found:
            found.append(frozenset(written.names))
    return replace(rules, partial_updates=PartialUpdates.KEEP_VALUES, in_part=tuple(found))


def _check_deletes_are_last(blocks: Iterable[LogBlock]) -> None:
    """In a slice with partial blocks 1.2.0 loses a row that comes over a delete of its key, or fails."""
    delete: LogBlock | None = None
    for block in blocks:
        if block.type is BlockType.DELETE:
            delete = block
        elif delete is not None:
            raise Unsupported(
                f"{block.where} comes after the deletes of {delete.where}, in logs with partial updates.",
                why="Where a key that was deleted comes back there, Hudi 1.2.0's queries do not show it, or fail.",
                remedy="Compact this file group with Hudi itself.",
            )


def check_whole_rows(blocks: Iterable[LogBlock]) -> None:
    """Raise `Unsupported` where a block has some of the table's columns only."""
    for block in blocks:
        if block.is_partial:
            raise Unsupported(
                f"{block.where} holds partial updates.",
                why="Without the base file, such rows of several logs cannot be merged into one log.",
                remedy="Compact the file group with --type full.",
            )


def part_number(block: LogBlock, rules: MergeRules) -> int:
    """The number that the rows of the block bring along (`filling.with_part`), by the rules of its slice's blocks."""
    if not block.is_partial:
        return 0
    written = block_schema(block.headers[HeaderKey.SCHEMA], where=block.where)
    return 1 + rules.in_part.index(frozenset(written.names))


def _why_uncertain(written: pa.Schema, rules: MergeRules, schema: pa.Schema, key_fields: Sequence[str]) -> str | None:
    if not rules.takes_partial_blocks:
        return "how they merge in a table of this version, or with partial updates of another kind, was not tried"
    if key_fields:
        return "rows of this table carry no keys, and such a row may lack the fields of its key"
    if rules.delete_field is not None or {IS_DELETED_FIELD, OPERATION_FIELD} & set(schema.names):
        return "a column of this table marks rows as deleted, which Hudi looks for where another column is"
    if rules.mode is MergeMode.EVENT_TIME_ORDERING:
        for name in rules.ordering_fields:
            if name not in written.names:
                return f"they lack {name}, by which they are ordered"
    types = {column.name: column.type for column in schema}
    for column in written:
        if types.get(column.name) != column.type:
            return f"their column {column.name} is {column.type}, and the table's is {types.get(column.name, 'gone')}"
    return None
