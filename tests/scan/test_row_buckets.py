"""Rows of two sides in buckets by their keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakeward.base.errors import SpillFailed
from lakeward.scan.row_buckets import KEY_HASH, RowBuckets

SCHEMA = pa.schema([(KEY_HASH, pa.uint64()), ("text", pa.string())])


def rows(numbers: list[int]) -> list[pa.RecordBatch]:
    """A few rows a batch; keys' hashes are spread over all words."""
    hashes = np.array(numbers, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    texts = [f"{number:>100}" for number in numbers]
    return pa.table([pa.array(hashes), texts], schema=SCHEMA).to_batches(max_chunksize=100)


@pytest.mark.slow
@pytest.mark.parametrize("bucket_bytes", [2_000, 100_000, 10_000_000])
def test_rows_of_a_key_are_in_one_bucket(bucket_bytes: int) -> None:
    """Keeps 1 and 2 of scan/row_buckets, where buckets are split again, too; rows of one key are not split."""
    before, after = [*range(3000), *[7] * 100], [*range(2000, 4000), 7]
    found: list[tuple[list[int], list[int]]] = []
    for one, other in RowBuckets(SCHEMA, bucket_bytes).buckets(rows(before), rows(after)):
        numbers = [[int(text) for text in side.column("text").to_pylist()] for side in (one, other)]
        if len({*numbers[0], *numbers[1]}) > 1:
            assert one.nbytes + other.nbytes <= max(bucket_bytes, 1) * 1.1
        found.append((numbers[0], numbers[1]))
    assert sorted(number for one, _ in found for number in one) == sorted(before)
    assert sorted(number for _, other in found for number in other) == sorted(after)
    keys = [{*one, *other} for one, other in found]
    assert sum(map(len, keys)) == len(set().union(*keys))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpillFailed, match="The rows of a comparison do not fit memory"):
        list(RowBuckets(SCHEMA, 1000, str(tmp_path / "no")).buckets(rows([1]), rows([2])))
