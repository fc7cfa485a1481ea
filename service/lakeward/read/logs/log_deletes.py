"""Which deletes logs hold, from block heads and delete blocks: what a run of logs that is folded by itself depends on.

By event time the record with the greatest ordering value wins, the last of equal ones, and it makes no difference which
neighbours are folded first. A delete without an ordering value wins whatever came before it, and whatever comes after
wins over it, a delete block's deletes excepted; then it does make one:

    before the run    the run                   all in order    the run first
    put 5             delete, put 3             put 3           put 5
    delete            delete 5, put 3           put 3           deleted

Touches: the log files, by reading block heads and the deletes.
Keeps:   1. a run is said to fold by itself only where no record could come out otherwise by `merge/rules/reference`;
         2. what heads do not say is taken for the worst: a column that deletes, a block that is damaged.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import BinaryIO

import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.format.file_name import parse_native_log
from lakeward.format.log.block import BlockType, CorruptBlock, HeaderKey, LogBlock
from lakeward.format.timeline.instant import is_before
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, OPERATION_FIELD, MergeMode, MergeRules
from lakeward.merge.rules.ordering_codes import encode_ordering
from lakeward.merge.rules.ordering_type import ordering_columns, ordering_type
from lakeward.merge.rules.records import delete_ordering
from lakeward.read.logs.block_deletes import read_deletes
from lakeward.read.logs.log_scan import read_heads
from lakeward.storage.storage import Storage


class Deletes(IntEnum):
    """The worst that logs hold."""

    NONE = 0
    ORDERED = 1
    UNCONDITIONAL = 2
    """At least one that has no ordering value, or may have none."""


def folds_by_itself(
    storage: Storage,
    base_path: str,
    *,
    run: Iterable[str],
    ahead: Iterable[str],
    rules: MergeRules,
    schema: pa.Schema,
) -> bool:
    """Whether the logs of `run` may become one although those of `ahead`, which lie before, do not go into it.

    Both are paths of live logs. Raises `Unsupported`, `BrokenFile` and `NotFound`.
    """
    if rules.mode is MergeMode.COMMIT_TIME_ORDERING or not rules.ordering_fields:
        return True  # the last record wins
    if rules.by_rank:
        return True  # `check_ranks` lets no delete in that always wins
    in_run = find_deletes(storage, base_path, run, rules, schema)
    if in_run is not Deletes.ORDERED:
        return in_run is Deletes.NONE
    return find_deletes(storage, base_path, ahead, rules, schema) is not Deletes.UNCONDITIONAL


def check_native_deletes(
    storage: Storage, base_path: str, blocks: Iterable[LogBlock], rules: MergeRules, schema: pa.Schema
) -> None:
    """Raise `Unsupported` where a delete of these blocks cannot go into a native log.

    With several ordering fields that is one without values: Hudi would read 0 in each.
    """
    fields = ordering_columns(rules, schema).names
    if len(fields) < 2:
        return
    for path in dict.fromkeys(block.file for block in blocks if block.type is BlockType.DELETE):
        for block, file in read_heads(storage, base_path, path):
            if isinstance(block, CorruptBlock) or block.type is not BlockType.DELETE:
                continue
            if _deletes_of_block(file, block, rules, schema) is Deletes.UNCONDITIONAL:
                raise Unsupported(
                    f"{block.where} has a delete without values of {', '.join(fields)}, which no native log can hold.",
                    why="Hudi would read it as one that has 0 in each of these fields.",
                    remedy="Compact the file group with --type full.",
                )


def check_ranks(
    storage: Storage, base_path: str, blocks: Sequence[LogBlock], rules: MergeRules, schema: pa.Schema
) -> None:
    """Raise `Unsupported` where readers of the layout `lsm_tree`, who merge an output beside its sources and, once
    these are gone, with the base row as the oldest record, would find other rows.

    By event time that may be where a delete always wins: `base 10, delete, put 5` is put 5, and with the logs folded
    first it is put 10.
    """
    why = None
    for block in blocks:
        name = parse_native_log(posixpath.basename(block.file))
        if name is None or not is_before(rules.ranked_since, name.instant):
            why = f"{block.where} is from before the table got the layout lsm_tree."
            break
    if why is None and rules.base_is_first and may_delete_all(storage, base_path, blocks, rules, schema):
        why = "Some of their deletes have no ordering value, or may have none, and win over every row before them."
    if why is not None:
        raise Unsupported(
            "The logs are not compacted into one log in the layout lsm_tree.",
            why=why,
            remedy="Compact the file group with --type full.",
        )


def may_delete_all(
    storage: Storage, base_path: str, blocks: Sequence[LogBlock], rules: MergeRules, schema: pa.Schema
) -> bool:
    """Whether there may be a delete in these blocks, which are sound, that wins over every row before it."""
    if not blocks:
        return False
    if rules.delete_field is not None or {IS_DELETED_FIELD, OPERATION_FIELD} & set(schema.names):
        return True
    logs = dict.fromkeys(block.file for block in blocks if block.type is BlockType.DELETE)
    return find_deletes(storage, base_path, logs, rules, schema) is Deletes.UNCONDITIONAL


def find_deletes(
    storage: Storage, base_path: str, logs: Iterable[str], rules: MergeRules, schema: pa.Schema
) -> Deletes:
    """The worst of the logs' deletes, rolled back ones included."""
    worst = Deletes.NONE
    for path in logs:
        for block, file in read_heads(storage, base_path, path):
            worst = max(worst, _deletes_of(block, file, rules, schema))
            if worst is Deletes.UNCONDITIONAL:
                return worst
    return worst


def _deletes_of(block: LogBlock | CorruptBlock, file: BinaryIO, rules: MergeRules, schema: pa.Schema) -> Deletes:
    if isinstance(block, CorruptBlock):
        return Deletes.UNCONDITIONAL
    if block.type is BlockType.DELETE:
        return _deletes_of_block(file, block, rules, schema)
    if block.type is BlockType.CDC_DATA:
        return Deletes.NONE  # no reader merges it
    may_delete = f'"{IS_DELETED_FIELD}"' in block.headers.get(HeaderKey.SCHEMA, "")
    return Deletes.UNCONDITIONAL if may_delete else Deletes.NONE


def _deletes_of_block(file: BinaryIO, block: LogBlock, rules: MergeRules, schema: pa.Schema) -> Deletes:
    found = Deletes.NONE
    kind = ordering_type(rules, schema)
    for deleted in read_deletes(file, block, ordering_columns(rules, schema)):
        rows = len(deleted.keys)
        values = delete_ordering(deleted.ordering, kind, wrappers=deleted.wrappers, rows=rows, source=block.where)
        if encode_ordering(values, kind, rows).classes.any():
            return Deletes.UNCONDITIONAL
        found = Deletes.ORDERED
    return found
