"""Logs that releases of Hudi merge to different rows: of table version 6, which 0.15 and 1.x read, and of version 8.

    deletes with ordering values      0.15 deletes the base row whatever its value, 1.x only one that is not greater
    OverwriteWithLatestAvroPayload    0.15 picks among log records of a key by their ordering values, 1.x the last one;
                                      on to the base row both put what they picked, whatever its value
    two such deletes of a key there   0.15 forgets the earlier one as soon as a row comes after it, and so the later one
                                      meets that row alone, and may lose to it
    deletes ordered by text           1.0 does not compare them with rows in logs before them: they win; 1.2 compares

All were seen on real tables. Where either rule gives the same rows, such logs are merged; a compaction of the
others would change what queries of one release return.

Touches: the log files, reading each once, and deletes again where several blocks have them; spill files outside of
         the table.
Keeps:   a slice passes only where both rules pick the same record, or delete, for each key.
See:     docs/decisions/0050-version-6.md
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.base.paths import join
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.delete_block import DeletedKeys, read_delete_block
from lakeward.merge.digest import Digest
from lakeward.merge.logs.log_records import LogRecords
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD, MergeMode, MergeRules
from lakeward.merge.rules.ordering_codes import encode_ordering
from lakeward.merge.rules.ordering_type import ordering_type
from lakeward.merge.rules.records import delete_ordering
from lakeward.merge.rules.tombstones import Tombstones
from lakeward.read.logs.log_run import LogMerge, LogRun, SliceLogs, folded
from lakeward.read.logs.log_scan import NEWEST, LogScan
from lakeward.read.query.slice_query import SliceQuery
from lakeward.storage.storage import Storage

_REMEDY = "Let the release by which this table is read compact the file group; later ones may be Lakeward's."
_DELETES_MAX = 2_000_000
"""Held at once, with their keys."""
_WHICH_RECORD = SliceQuery((RECORD_KEY_FIELD, "_hoodie_commit_time", "_hoodie_commit_seqno"))


def check_agreement(
    storage: Storage,
    base_path: str,
    logs: Sequence[str],
    scan: LogScan,
    *,
    rules: MergeRules,
    schema: pa.Schema,
) -> None:
    """Raise `Unsupported` where the logs of a slice (`scan` is of them) are merged otherwise by another release."""
    if not rules.ordering_fields:
        return
    if rules.mode is MergeMode.EVENT_TIME_ORDERING:
        _check_deletes(storage, base_path, scan, rules, schema)
        return
    picked = _picked(storage, base_path, logs, scan, rules, schema)
    if picked[0] != picked[1]:
        raise Unsupported(
            f"A row in {logs[0]} or the logs behind it came later than one of its key with a greater "
            f"{', '.join(rules.ordering_fields)}.",
            why="Of the two, which lie in logs both, Hudi 0.15 takes the one with the greater value and Hudi 1.x the "
            "later one, so queries of one of them would answer otherwise afterwards.",
            remedy=_REMEDY,
        )
    _check_order_of_deletes(storage, base_path, scan, replace(rules, mode=MergeMode.EVENT_TIME_ORDERING), schema)


def check_deletes_by_text(
    storage: Storage, base_path: str, scan: LogScan, *, rules: MergeRules, schema: pa.Schema
) -> None:
    """Raise `Unsupported` where a table that is ordered by text has deletes with values, which Hudi 1.0 does not
    compare."""
    if (block := _ordered_deletes(storage, base_path, scan, ordering_type(rules, schema))) is not None:
        raise Unsupported(
            f"{block.where} holds deletes with texts as ordering values.",
            why="Hudi 1.0 lets them win over all rows in logs before them and Hudi 1.2 compares the texts, so queries "
            "of one of them might answer otherwise afterwards.",
            remedy=_REMEDY,
        )


def _check_deletes(storage: Storage, base_path: str, scan: LogScan, rules: MergeRules, schema: pa.Schema) -> None:
    block = _ordered_deletes(storage, base_path, scan, ordering_type(rules, schema))
    if block is not None:
        raise Unsupported(
            f"{block.where} holds deletes with ordering values.",
            why="Hudi 0.15 deletes a row of the base file whatever its value is, and Hudi 1.x only one whose value is "
            "not greater, so queries of one of them might answer otherwise afterwards.",
            remedy=_REMEDY,
        )


def _ordered_deletes(storage: Storage, base_path: str, scan: LogScan, kind: pa.DataType | None) -> LogBlock | None:
    """The first block with a delete that has an ordering value."""
    for block in scan.blocks:
        if block.type is not BlockType.DELETE:
            continue
        with storage.open_input(join(base_path, block.file)) as file:
            if any(_have_values(deleted, kind, block.where) for deleted in read_delete_block(file, block)):
                return block
    return None


def _check_order_of_deletes(
    storage: Storage, base_path: str, scan: LogScan, rules: MergeRules, schema: pa.Schema
) -> None:
    """Raise `Unsupported` where a delete of a key has a smaller ordering value than one before it."""
    blocks = [block for block in scan.blocks if block.type is BlockType.DELETE]
    if len(blocks) < 2:
        return
    kind = ordering_type(rules, schema)
    keys, values, rows = [], [], 0
    for block in blocks:
        with storage.open_input(join(base_path, block.file)) as file:
            for deleted in read_delete_block(file, block):
                has_value = pa.array(~deleted.is_default)
                found = delete_ordering(
                    deleted.ordering, kind, wrappers=deleted.wrappers, rows=len(deleted.keys), source=block.where
                )
                if found is not None:
                    keys.append(deleted.keys.filter(has_value))
                    values.append(found.filter(has_value))
                    rows += len(keys[-1])
        if rows > _DELETES_MAX:
            raise Unsupported(
                f"Up to {block.where} there are {rows} deletes with ordering values.",
                why=f"To prove that releases of Hudi merge them alike is tried with {_DELETES_MAX} of them at most.",
                remedy=_REMEDY,
            )
    if not rows:
        return
    ids = pa.concat_arrays(keys).dictionary_encode().indices.to_numpy()
    codes = encode_ordering(pa.concat_arrays(values), kind, rows).codes
    by_key = np.argsort(ids, kind="stable")
    falls = (ids[by_key][1:] == ids[by_key][:-1]) & (codes[by_key][1:] < codes[by_key][:-1])
    if falls.any():
        key = pa.concat_arrays(keys)[by_key[np.flatnonzero(falls)[0]]]
        raise Unsupported(
            f"The key {named_key(key.as_py())} was deleted twice, first with the greater "
            f"{', '.join(rules.ordering_fields)}.",
            why="A row between the two may be there for Hudi 0.15, and is not for Hudi 1.x, so queries of one of them "
            "might answer otherwise afterwards.",
            remedy=_REMEDY,
        )


def _have_values(deleted: DeletedKeys, kind: pa.DataType | None, source: str) -> bool:
    rows = len(deleted.keys)
    values = delete_ordering(deleted.ordering, kind, wrappers=deleted.wrappers, rows=rows, source=source)
    return not encode_ordering(values, kind, rows).classes.all()


def _picked(
    storage: Storage,
    base_path: str,
    logs: Sequence[str],
    scan: LogScan,
    rules: MergeRules,
    schema: pa.Schema,
) -> list[tuple[str, str]]:
    """Which record each key ends with, and which keys are deleted, by these rules and by event time."""
    by_event_time = replace(rules, mode=MergeMode.EVENT_TIME_ORDERING)
    run = LogRun(
        storage,
        SliceLogs(base_path, logs, NEWEST, accept_damaged=True),
        LogMerge(rules),
        schema=_WHICH_RECORD.read_schema(schema, rules),
        scan=scan,
        query=_WHICH_RECORD,
    )
    others = LogRecords(run.schema, by_event_time, memory_bytes=_BUDGET.logs)
    with closing(run), closing(others):
        run.read(others)
        return [
            _digests(folded(records, by, run.schema, window_bytes=_BUDGET.window))
            for records, by in ((run.records, rules), (others, by_event_time))
        ]


_BUDGET = MemoryBudget()
"""Each of the two folds has its share of logs: nothing is written here, for which the rest would be."""


def _digests(records: Iterable[pa.RecordBatch | Tombstones]) -> tuple[str, str]:
    rows, deletes = Digest(), Digest()
    for each in records:
        if isinstance(each, Tombstones):
            deletes.update(pa.RecordBatch.from_arrays([each.keys], [RECORD_KEY_FIELD]))
        else:
            rows.update(each)
    return rows.hexdigest, deletes.hexdigest
