"""Which target each row goes to: the shares of its place, and where there are several the hash of its key.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.merge.logs.key_index import hash_keys
from lakeward.write.keyed_rows import PARTITION_PATH, PLACE, RECORD_KEY
from lakeward.write.target import Assignment, Share

NOWHERE = -1


def targets_of(tagged: pa.RecordBatch, assignment: Assignment) -> npt.NDArray[np.int32]:
    """The index of the target of each row of a batch in `tagged_schema`; `NOWHERE` for one that goes nowhere."""
    partitions = pc.dictionary_encode(tagged.column(PARTITION_PATH))
    places = pc.dictionary_encode(tagged.column(PLACE), null_encoding="encode")
    width = len(places.dictionary)
    codes = partitions.indices.to_numpy().astype(np.int64) * width + places.indices.to_numpy()
    found = np.full(tagged.num_rows, NOWHERE, dtype=np.int32)
    values, rows_of = np.unique(codes, return_inverse=True)
    for number, code in enumerate(values):
        place = (partitions.dictionary[int(code) // width].as_py(), places.dictionary[int(code) % width].as_py())
        shares = assignment.places[place]
        if len(shares) == 1:
            found[rows_of == number] = shares[0].target
        elif shares:
            chosen = np.flatnonzero(rows_of == number)
            found[chosen] = _by_hash(tagged.column(RECORD_KEY).take(pa.array(chosen)), shares)
    return found


def _by_hash(keys: pa.Array, shares: Sequence[Share]) -> npt.NDArray[np.int32]:
    ends = np.cumsum([share.rows for share in shares])
    at = hash_keys(keys) % np.uint64(ends[-1])
    return np.array([share.target for share in shares], dtype=np.int32)[np.searchsorted(ends, at, side="right")]
