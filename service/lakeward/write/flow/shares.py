"""Which target each row goes to: the shares of its place, and where there are several the hash of its key.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeward.merge.logs.key_index import hash_keys
from lakeward.write.flow.row_counts import Place, place_codes
from lakeward.write.keyed_rows import RECORD_KEY
from lakeward.write.target import Share

NOWHERE = -1


def targets_of(tagged: pa.RecordBatch, assigned: Mapping[Place, Sequence[Share]]) -> npt.NDArray[np.int32]:
    """The index of the target of each row of a batch in `tagged_schema`; `NOWHERE` for one that goes nowhere.

    Args:
        assigned: `Assignment.places`. Raises `KeyError` for a row whose place is not in it.
    """
    partitions, places, codes = place_codes(tagged)
    found = np.full(tagged.num_rows, NOWHERE, dtype=np.int32)
    order = np.argsort(codes, kind="stable")
    values, starts = np.unique(codes[order], return_index=True)
    for code, chosen in zip(values.tolist(), np.split(order, starts[1:]), strict=True):
        shares = assigned[partitions[code // len(places)].as_py(), places[code % len(places)].as_py()]
        if len(shares) == 1:
            found[chosen] = shares[0].target
        elif shares:
            found[chosen] = _by_hash(tagged.column(RECORD_KEY).take(pa.array(chosen)), shares)
    return found


def _by_hash(keys: pa.Array, shares: Sequence[Share]) -> npt.NDArray[np.int32]:
    ends = np.cumsum([share.rows for share in shares])
    at = hash_keys(keys) % np.uint64(ends[-1])
    return np.array([share.target for share in shares], dtype=np.int32)[np.searchsorted(ends, at, side="right")]
