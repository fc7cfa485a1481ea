"""Parquet files that are small on disk and large in memory, each in another way; run as a program, it reads them.

python inflating_files.py BYTES_MAX FILE...     for each: rows, bytes of the largest batch, error, peak memory so far
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.base.errors import Unsupported
from lakeward.engine.task.peak_memory import PeakMemory
from lakeward.format.parquet.base_file import open_base_file

KEY = "_hoodie_record_key"
KB = 1024
MB = 1024 * KB
_SMALL_PAGES = {"write_batch_size": 4}  # as Java's writer has them, which looks at their size more often


def repeated(values: list[str], places: list[int]) -> pa.Array:
    """Values by their places, each of them stored once."""
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int32()), pa.array(values))


def with_keys(**columns: pa.Array) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table({KEY: [f"key {row}" for row in range(rows)], **columns})


def one_value_in_every_row() -> tuple[pa.Table, dict[str, Any]]:
    """300 MB out of a dictionary of one value."""
    return with_keys(text=repeated(["x" * 100 * KB], [0] * 3_000)), {}


def a_long_value_among_short_ones() -> tuple[pa.Table, dict[str, Any]]:
    """Each value is new for a long time, then 1 MB comes in 200 rows."""
    return with_keys(text=repeated([f"{n}" for n in range(9_000)] + ["y" * MB], [*range(9_000), *[9_000] * 200])), {}


def plain_and_compressed_well() -> tuple[pa.Table, dict[str, Any]]:
    """No dictionary: 200 MB that the codec made small."""
    return with_keys(text=pa.array(["z" * 100 * KB] * 2_000)), {"use_dictionary": False, **_SMALL_PAGES}


def large_rows_at_the_end() -> tuple[pa.Table, dict[str, Any]]:
    """The average row is small, the last ones are not."""
    return with_keys(text=pa.array(["a"] * 30_000 + ["b" * MB] * 200)), {"use_dictionary": False, **_SMALL_PAGES}


def prefixes() -> tuple[pa.Table, dict[str, Any]]:
    """Each value repeats the one before it, and the encoding says so in two numbers."""
    return with_keys(text=pa.array(["p" * 100 * KB] * 2_000)), {
        "use_dictionary": False,
        "column_encoding": {"text": "DELTA_BYTE_ARRAY"},
    }


def lists_of_one_value() -> tuple[pa.Table, dict[str, Any]]:
    """A list of 200 times 10 KB in each of 100 rows."""
    values = repeated(["l" * 10 * KB, "m"], [0] * 20_000)
    return with_keys(tags=pa.ListArray.from_arrays(np.arange(0, 20_001, 200, dtype=np.int32), values)), {}


def maps_in_structs() -> tuple[pa.Table, dict[str, Any]]:
    values = repeated(["v" * 10 * KB], [0] * 20_000)
    keys = pa.array([f"{n % 100}" for n in range(20_000)])
    maps = pa.MapArray.from_arrays(np.arange(0, 20_001, 100, dtype=np.int32), keys, values)
    return with_keys(nested=pa.StructArray.from_arrays([maps, pa.array(range(200))], ["map", "number"])), {}


def one_row_too_large() -> tuple[pa.Table, dict[str, Any]]:
    return with_keys(text=pa.array(["small", "g" * 30 * MB, "small"])), {"use_dictionary": False}


def one_list_too_large() -> tuple[pa.Table, dict[str, Any]]:
    values = repeated(["l" * 10 * KB], [0] * 5_003)
    return with_keys(tags=pa.ListArray.from_arrays(pa.array([0, 1, 2, 5_002, 5_003], pa.int32()), values)), {}


def fixed_values() -> tuple[pa.Table, dict[str, Any]]:
    values = pa.DictionaryArray.from_arrays(
        pa.array([0] * 2_000, pa.int32()), pa.array([b"f" * 100 * KB], pa.binary(100 * KB))
    )
    return with_keys(fixed=values), {}


FIT: tuple[Callable[[], tuple[pa.Table, dict[str, Any]]], ...] = (
    one_value_in_every_row,
    a_long_value_among_short_ones,
    plain_and_compressed_well,
    large_rows_at_the_end,
    prefixes,
    lists_of_one_value,
    maps_in_structs,
    fixed_values,
)


def a_few_rows() -> tuple[pa.Table, dict[str, Any]]:
    return with_keys(text=pa.array(["a", "b", "c"])), {}


DO_NOT_FIT = (one_row_too_large, one_list_too_large)


def write(folder: Path, case: Callable[[], tuple[pa.Table, dict[str, Any]]]) -> Path:
    path = folder / f"{case.__name__}.parquet"
    table, options = case()
    pq.write_table(table, path, compression="zstd", store_schema=False, **options)
    return path


def read(path: Path, bytes_max: int) -> Iterator[pa.RecordBatch]:
    with open(path, "rb") as file:
        yield from open_base_file(file, pq.read_schema(path), name=path.name, bytes_max=bytes_max)


def main() -> None:
    bytes_max = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        # The first file loads the kernels, whose memory is no file's.
        small = write(Path(folder), a_few_rows)
        assert sum(batch.num_rows for batch in read(small, bytes_max)) == 3
    memory = PeakMemory()
    before = memory.peak_bytes()
    for path in map(Path, sys.argv[2:]):
        found: dict[str, Any] = {"rows": 0, "largest": 0, "error": ""}
        try:
            for batch in read(path, bytes_max):
                found["rows"] += batch.num_rows
                found["largest"] = max(found["largest"], batch.nbytes)
        except Unsupported as error:
            found["error"] = str(error)
        print(json.dumps({**found, "peak": memory.peak_bytes() - before}), flush=True)


if __name__ == "__main__":
    main()
