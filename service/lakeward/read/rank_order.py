"""Whether a slice of a table of the layout `lsm_tree` must be merged by the ranks of its files, record by record.

Hudi's reader of that layout folds the records of a key in the order of their files, and the base row is the oldest of
them; elsewhere the logs are folded first, and what is left meets the base row (`merge/rules/winner`). Both come to the
same but where an unconditional delete stands between a base row and a later record. So logs in which no row is deleted
are folded in memory, as ever.

Touches: nothing.
Keeps:   the rules give the rows that the table's own give.
See:     docs/decisions/0069-merging-by-rank.md
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakeward.format.log.block import BlockType
from lakeward.merge.rules.merge_rules import IS_DELETED_FIELD, OPERATION_FIELD, MergeRules
from lakeward.read.log_scan import LogScan


def rules_of_ranks(scan: LogScan, rules: MergeRules, schema: pa.Schema) -> MergeRules:
    """The rules by which the scan's blocks are merged: the table's, or those of the layout `default`, where they are
    not to be merged by rank or it comes to the same.

    Args:
        schema: the table's, meta columns first.
    """
    if rules.by_rank and not (scan.by_rank and _may_delete(scan, rules, schema)):
        return replace(rules, by_rank=False)
    return rules


def _may_delete(scan: LogScan, rules: MergeRules, schema: pa.Schema) -> bool:
    if not scan.blocks:
        return False
    by_column = rules.delete_field is not None or bool({IS_DELETED_FIELD, OPERATION_FIELD} & set(schema.names))
    return by_column or any(block.type is BlockType.DELETE for block in scan.blocks)
