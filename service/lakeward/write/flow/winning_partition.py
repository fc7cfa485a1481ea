"""The partition of a new key whose rows are for several, in a table in which a key is one: its winning row's.

Touches: nothing.
Keeps:   the row that wins here is the one that the handle keeps, since both fold by `handles/incoming`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from lakeward.merge.rules.merge_rules import MergeRules
from lakeward.write.handles.incoming import incoming_rows
from lakeward.write.keyed_rows import PARTITION_PATH, RECORD_KEY


def winning_partitions(batches: Iterable[pa.RecordBatch], rules: MergeRules) -> Iterator[pa.RecordBatch]:
    """Each key and its partition; of rows in `keyed_schema` by (key as UTF-8, place in the input)."""
    for rows in incoming_rows(batches, rules, all_are_deletes=False, folds=True):
        yield rows.batch.select([RECORD_KEY, PARTITION_PATH])
