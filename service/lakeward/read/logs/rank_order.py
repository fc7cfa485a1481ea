"""Whether a slice of a table of the layout `lsm_tree` must be merged by the ranks of its files, record by record.

Hudi's reader of that layout folds the records of a key in the order of their files, and the base row is the oldest of
them; elsewhere the logs are folded first, and what is left meets the base row (`merge/rules/winner`). Both come to the
same where no delete is unconditional. So logs without such deletes are folded in memory, as ever.

Touches: the logs of deletes, reading them.
Keeps:   the rules give the rows that the table's own give, or where a log cannot be merged by rank those of `default`.
See:     docs/decisions/0069-merging-by-rank.md
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakeward.format.log.block import BlockType
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, OPERATION_FIELD, MergeRules
from lakeward.read.logs.log_deletes import Deletes, find_deletes
from lakeward.read.logs.log_scan import LogScan
from lakeward.storage.storage import Storage


def rules_of_ranks(storage: Storage, base_path: str, scan: LogScan, rules: MergeRules, schema: pa.Schema) -> MergeRules:
    """The rules by which the scan's blocks are merged: the table's, or those of the layout `default`, where they are
    not to be merged by rank or it comes to the same.

    Args:
        schema: the table's, meta columns first.

    Raises `BrokenFile` and `Unsupported` for deletes.
    """
    if rules.base_is_first and scan.by_rank and _may_delete_all(storage, base_path, scan, rules, schema):
        return rules
    if rules.by_rank:
        return replace(rules, by_rank=False)
    return rules


def _may_delete_all(storage: Storage, base_path: str, scan: LogScan, rules: MergeRules, schema: pa.Schema) -> bool:
    """Whether there may be a delete that wins over every row before it."""
    if not scan.blocks:
        return False
    if rules.delete_field is not None or {IS_DELETED_FIELD, OPERATION_FIELD} & set(schema.names):
        return True
    logs = dict.fromkeys(block.file for block in scan.blocks if block.type is BlockType.DELETE)
    return find_deletes(storage, base_path, logs, rules, schema) is Deletes.UNCONDITIONAL
