"""The records of several sorted runs in batches that cut no key: all records of a key are in one of them.

Touches: nothing but the runs.
Keeps:   1. each batch has whole keys, in the order of the windows;
         2. beyond a window, no more is held than the records of one key.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.runs.run_windows import RunWindows


def whole_keys(windows: RunWindows) -> Iterator[pa.RecordBatch]:
    """The first column of the records is their key."""
    carried: pa.RecordBatch | None = None
    for window in windows.windows():
        if not len(window.order):
            continue
        rows = windows.rows(window.order)
        if carried is not None:
            rows = pa.concat_batches([carried, rows])
        end = _first_of_last_key(rows.column(0)) if window.is_open else rows.num_rows
        carried = pa.concat_batches([rows.slice(end)]) if end < rows.num_rows else None
        if end:
            yield rows.slice(0, end)
    if carried is not None:
        yield carried


def _first_of_last_key(keys: pa.Array) -> int:
    last = keys[len(keys) - 1]
    return int(np.flatnonzero(pc.equal(keys, last).to_numpy(zero_copy_only=False))[0])
