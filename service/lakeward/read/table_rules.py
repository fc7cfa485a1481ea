"""The rules of merging that a table's properties ask for.

Touches: nothing.
"""

from __future__ import annotations

from lakeward.merge.rules.merge_rules import MergeMode, MergeRules, PartialUpdates
from lakeward.table.snapshot import TableSnapshot


def merge_rules(snapshot: TableSnapshot) -> MergeRules:
    config = snapshot.config
    field, marker = config.delete_marker or (None, None)
    return MergeRules(
        mode=MergeMode(config.merge_mode),
        ordering_fields=config.ordering_fields,
        delete_field=field,
        delete_marker=marker,
        partial_updates=None if config.partial_update_mode is None else PartialUpdates(config.partial_update_mode),
        unavailable=config.unavailable_value,
        takes_operations=config.version.has_merge_properties,
        takes_partial_blocks=config.version.has_merge_properties and config.partial_update_mode is None,
        by_rank=config.is_lsm_tree,
        ranked_since=config.lsm_tree_since,
    )
