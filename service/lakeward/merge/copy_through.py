"""Which row groups of a sorted base file no log touches, and where they come between the rows that are merged.

The row groups cut the line of keys into stretches: each has the keys from its smallest one to before the smallest of
the next, the first all that come before, too. So each key of the logs touches one row group, and a row group that none
touches goes into the output as it is stored. The others are merged as if they were all there is of the base file.

    keys     a . . c | d . . f . | h . . k | m . . p .      a log key between f and h touches d-f
    logs       b          g
    output   merged    merged      copied    copied

Touches: nothing.
Keeps:   1. no key of the logs is within a row group that is copied;
         2. the rows come out in the order of their keys, each once, whatever the row groups say of themselves: ranges
            that are not disjoint and ascending copy nothing, and rows that lie in a range that is copied, or keys of a
            copied row group that do not ascend from its smallest to its greatest, are `NotSorted`. Where a seal on the
            keys holds they were checked when it was made, and of one row group they are checked again;
         3. a small row group is merged, together with the one before it: they do not add up over the years.
See:     docs/decisions/0047-untouched-row-groups-are-copied.md, docs/decisions/0040-a-seal-on-the-keys.md
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.base.named_key import named_key
from lakeward.format.parquet.base_file import ROW_GROUP_ROWS, SHARE_OF_SMALL
from lakeward.format.parquet.stored_row_groups import StoredRowGroup
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.merge.runs.sort_key import NotSorted


def find_untouched(
    groups: Sequence[StoredRowGroup], *, log_keys: int, log_key: Callable[[int], bytes], row_group_bytes: int
) -> tuple[StoredRowGroup, ...]:
    """The row groups that can be copied.

    Args:
        log_key: the key at a place in the order of all keys of the logs, of which there are `log_keys`.
        row_group_bytes: what a row group of the output has at most.
    """
    if not groups or not all(group.min_key <= group.max_key for group in groups):
        return ()
    if not all(before.max_key < after.min_key for before, after in pairwise(groups)):
        return ()
    places = range(log_keys)
    cuts = [0, *(bisect_left(places, group.min_key, key=log_key) for group in groups[1:]), log_keys]
    is_touched = [start < end for start, end in pairwise(cuts)]
    for index, group in enumerate(groups):
        if _is_small(group, row_group_bytes):
            is_touched[index] = True
            is_touched[max(0, index - 1)] = True
    return tuple(group for group, touched in zip(groups, is_touched, strict=True) if not touched)


def weave(
    batches: Iterable[pa.RecordBatch], copied: Sequence[StoredRowGroup], *, name: str
) -> Iterator[pa.RecordBatch | StoredRowGroup]:
    """The merged rows with the copied row groups where their keys belong. Raises `NotSorted`.

    Args:
        batches: merged from all other row groups and the logs, in the order of their keys.
        name: how errors call the base file.
    """
    waiting = deque(copied)
    for batch in batches:
        keys = batch.column(RECORD_KEY_FIELD)
        start = 0
        while waiting and start < len(keys) and _key(keys, len(keys) - 1) >= waiting[0].min_key:
            rest = range(start, len(keys))
            end = start + bisect_left(rest, waiting[0].min_key, key=lambda row: _key(keys, row))
            if end > start:
                yield batch.slice(start, end - start)
            group = waiting.popleft()
            if _key(keys, end) <= group.max_key:
                raise not_sorted(name, group, f"the key {named_key(keys[end].as_py())} stands elsewhere")
            yield group
            start = end
        if start < len(keys):
            yield batch.slice(start)
    yield from waiting


def check_keys(batches: Iterator[pa.Array], group: StoredRowGroup, *, name: str) -> Iterator[pa.Array]:
    """The record keys of a row group that is copied, taken from the batches and handed on. Raises `NotSorted`."""
    rows = 0
    last: pa.Array | None = None
    while rows < group.rows and (keys := next(batches, None)) is not None:
        both = keys if last is None else pa.concat_arrays([last, keys])
        if not pc.all(pc.less(both.slice(0, len(both) - 1), both.slice(1)), min_count=0).as_py():
            raise not_sorted(name, group, "its keys do not ascend")
        if last is None and _key(keys, 0) != group.min_key:
            raise not_sorted(name, group, f"it begins with {named_key(keys[0].as_py())}")
        rows += len(keys)
        last = keys.slice(len(keys) - 1)
        yield keys
    if last is None or rows != group.rows or _key(last, 0) != group.max_key:
        raise not_sorted(name, group, f"of its {group.rows} rows the last has another key")


def not_sorted(name: str, group: StoredRowGroup, why: str) -> NotSorted:
    return NotSorted(
        f"The base file {name} is not sorted by its keys.",
        why=f"The statistics of its row group {group.index} say that it has the keys from "
        f"{named_key(group.min_key.decode(errors='replace'))} to "
        f"{named_key(group.max_key.decode(errors='replace'))}, and {why}.",
        remedy="Compact the file group, which writes the file again.",
    )


def _is_small(group: StoredRowGroup, row_group_bytes: int) -> bool:
    return group.rows * SHARE_OF_SMALL < ROW_GROUP_ROWS and group.size_bytes * SHARE_OF_SMALL < row_group_bytes


def _key(keys: pa.Array, row: int) -> bytes:
    key: bytes = keys[row].as_py().encode()
    return key
