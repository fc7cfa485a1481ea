"""Look through what was committed since the last look for keys that are in a base file and, elsewhere, in a log.

Touches: the folder of `index/log_inserts`; the table, reading.
Keeps:   1. what is remembered as looked through doubled no key;
         2. of two processes that look through at once one remembers, and the other loses nothing.
See:     docs/decisions/0133-new-keys-in-logs.md
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Final

from lakeward.base.clock import Clock
from lakeward.base.errors import Conflict, DoubledKeys
from lakeward.base.named_key import named_key
from lakeward.base.quantities import format_count
from lakeward.index.doubled_keys import DoubledKey, look_through
from lakeward.index.log_inserts import LogInserts, read_log_inserts
from lakeward.protocol.index.choices import publish_log_inserts
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot

_NAMED: Final = 3


def check_inserts(
    storage: Storage, base_path: str, snapshot_now: Callable[[], TableSnapshot], *, clock: Clock
) -> LogInserts:
    """What an operator said of new keys, with all that completed looked through; nothing is, where nothing was said.
    Raises `DoubledKeys` where a commit doubled some, and what `look_through` does."""
    said = read_log_inserts(storage, base_path)
    while said.may_hold_keys:
        found = look_through(storage, snapshot_now(), after=said.through, clock=clock)
        if found.through != said.through:
            assert found.through is not None, "a commit was looked through"
            try:
                said = publish_log_inserts(storage, base_path, said, replace(said, through=found.through))
            except Conflict:
                said = read_log_inserts(storage, base_path)
                continue
        if found.doubled:
            raise _doubled(base_path, found.doubled)
        if not found.left:
            break
    return said


def _doubled(base_path: str, doubled: tuple[DoubledKey, ...]) -> DoubledKeys:
    first = doubled[0]
    keys = ", ".join(named_key(each.key) for each in islice(doubled, _NAMED))
    more = f" and {len(doubled) - _NAMED:,} more" if len(doubled) > _NAMED else ""
    error = DoubledKeys(
        f"The commit {first.instant} doubled {format_count(len(doubled), 'key')} of {base_path}: {keys}{more}.",
        why=f"It put {named_key(first.key)} into a base file of file group {first.inserted[1]} in partition "
        f"'{first.inserted[0]}', and the logs of file group {first.in_logs[1]} in partition '{first.in_logs[0]}' had "
        "it: its writer uses an index that does not find keys in logs, such as Hudi's default (SIMPLE). Queries "
        "give both rows.",
        remedy="Let all writers of the table use its record index (hoodie.index.type=RECORD_INDEX, with the metadata "
        "table on), or end inserts into logs (`lakeward index inserts TABLE --into-base-files`). So that each key is "
        "there once, read the rows of these partitions, keep the right one of each key, and write them with "
        "`--operation insert_overwrite --deduplicate`. `lakeward index inserts TABLE` then finds nothing, and writes "
        "go on.",
    )
    error.keys = len({each.key for each in doubled})
    return error
