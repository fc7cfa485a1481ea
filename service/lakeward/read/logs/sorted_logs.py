"""Whether native logs can be merged straight out of their files, and what there is in them: their keys are read first.

    of each log: footer -> what a reader of it holds at once;  its keys -> in order? how many? which are sampled?

A key is decoded twice for it, here and when it is merged. That costs less than what it spares: putting records
away in files and fetching them again. And a log that is out of order is found before anything is merged.

Touches: the logs, by reading.
Keeps:   1. logs are said to be in order only where the keys of each ascend by their bytes;
         2. what all of them hold at once has room in the memory budget, and no more are read at once than sorted runs
            may be.
See:     docs/decisions/0057-logs-that-are-sorted-are-merged-out-of-their-files.md
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from lakeward.format.file_name import PARQUET, parse_native_log
from lakeward.format.log.block import BlockType, LogBlock
from lakeward.format.log.data_block import parquet_extent, read_data_block
from lakeward.format.parquet.batches import BATCH_ROWS, ChooseGroups
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.runs.record_sorter import OPEN_RUNS_MAX
from lakeward.merge.runs.sort_key import OrderWatch

_BATCHES_AT_ONCE = 3
"""The one that is at hand, one that is through and one that comes next."""
_ROWS_MIN = 64
_MEASURED_ROWS = 1024
"""Rows by which those in dictionaries are measured: a read of a few keys of a log decodes few rows else."""


@dataclass(frozen=True, slots=True)
class SortedLog:
    """A log, and how it is read."""

    block: LogBlock
    file: BinaryIO
    rows: int
    decoded_bytes: int
    """About what all of its rows take in memory."""
    batch_rows: int
    bytes_at_once: int


def measure(
    block: LogBlock, file: BinaryIO, schema: pa.Schema, budget: MemoryBudget, choose: ChooseGroups | None
) -> SortedLog:
    """What the footer says of these columns, and the first rows of those that it says too little of. Raises
    `BrokenFile`."""
    extent = parquet_extent(file, block, schema.names, choose)
    inflated = [
        each.name for each in schema if each.name in extent.in_dictionaries and not pa.types.is_dictionary(each.type)
    ]
    row_bytes = max(1, extent.bytes // max(1, extent.rows) + _first_row_bytes(block, file, inflated, budget))
    rows = min(BATCH_ROWS, max(_ROWS_MIN, budget.run_batch // row_bytes))
    at_once = extent.row_group_bytes_max + _BATCHES_AT_ONCE * rows * row_bytes
    return SortedLog(block, file, extent.rows, extent.rows * row_bytes, rows, at_once)


def _first_row_bytes(block: LogBlock, file: BinaryIO, columns: Sequence[str], budget: MemoryBudget) -> int:
    """What values of these columns take in a row, by the first rows, which stand for the others."""
    if not columns or block.type is BlockType.DELETE:
        return 0
    first = next(read_data_block(file, block, batch_rows=_MEASURED_ROWS, bytes_max=budget.batch, columns=columns), None)
    return 0 if first is None or not first.num_rows else int(first.nbytes) // first.num_rows


def are_native_parquet(blocks: Iterable[LogBlock]) -> bool:
    names = [parse_native_log(posixpath.basename(block.file)) for block in blocks]
    return all(name is not None and name.format == PARQUET for name in names)


def have_room(logs: Sequence[SortedLog], budget: MemoryBudget) -> bool:
    """All of them can be read at once."""
    return len(logs) <= OPEN_RUNS_MAX and sum(log.bytes_at_once for log in logs) <= budget.runs


def count_in_order(parts: Iterable[pa.Array]) -> int | None:
    """How many keys there are; None where one is smaller than the one before it."""
    order, count = OrderWatch(), 0
    for keys in parts:
        order.add(keys)
        count += len(keys)
        if not order.holds:
            return None
    return count
