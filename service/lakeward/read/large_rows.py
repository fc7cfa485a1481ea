"""Rows that could not be written within the memory of an operation are refused where they are read, by their keys.

Touches: nothing.
Keeps:   a row that takes more than its share is `Unsupported`, and no other one is.
See:     docs/decisions/0048-one-memory-budget.md
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakeward.base.errors import Unsupported
from lakeward.base.named_key import named_key
from lakeward.base.quantities import format_size
from lakeward.format.parquet.batches import row_bytes
from lakeward.merge.memory_budget import ROW_COPIES, total_for_row
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD


def check_row_sizes(batch: pa.RecordBatch, bytes_max: int | None, *, where: str) -> None:
    """Raises `Unsupported` for a row of more bytes, decoded.

    Args:
        where: names the file, and the place in it where that is known.
    """
    if bytes_max is None or batch.nbytes <= bytes_max:
        return
    sizes = np.sum([row_bytes(column) for column in batch.columns], axis=0)
    at = int(np.argmax(sizes))
    size = int(sizes[at])
    if size <= bytes_max:
        return
    needed = format_size(total_for_row(size))
    raise Unsupported(
        f"The row with the key {named_key(batch.column(RECORD_KEY_FIELD)[at].as_py())} in {where} is too large.",
        why=f"It takes {format_size(size)}, {ROW_COPIES} times that is held while it is written, and the operation has "
        f"room for one of {format_size(bytes_max)}.",
        remedy=f"Allow operations {needed} of memory (--memory, or defaults.memory of the configuration), or take the "
        "row out of the table.",
    )
