"""DuckDB on the same rows: the newest version of each key, deletes left out, in one query, to one Parquet file.

One thread, as one operation of Lakeward has one core. And DuckDB as a reader of what others wrote.

Touches: a file beside the slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.merge.files import BATCH_ROWS, DELETED_COLUMN, SliceFiles
from benchmarks.merge.shape import KEY_COLUMN, ORDERING_COLUMN
from benchmarks.merge.watched import Watched, watched


def by_duckdb(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    out = files.folder / "duckdb.parquet"
    runs = ", ".join(f"'{path}'" for path in files.runs)
    query = f"""
        COPY (
            SELECT * EXCLUDE ({DELETED_COLUMN}) FROM (
                SELECT *, false AS {DELETED_COLUMN} FROM read_parquet('{files.base_file}')
                UNION ALL BY NAME SELECT * FROM read_parquet([{runs}])
            )
            QUALIFY row_number() OVER (PARTITION BY {KEY_COLUMN} ORDER BY {ORDERING_COLUMN} DESC) = 1
                AND NOT {DELETED_COLUMN}
        ) TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 122880)
    """
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET preserve_insertion_order = false")
    cost, _ = watched(lambda: connection.execute(query))
    return cost, [out], {"version": duckdb.__version__}


def read_by_duckdb(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    names = ", ".join(f'"{name}"' for name in columns)
    yield from duckdb.connect().sql(f"SELECT {names} FROM read_parquet('{path}')").to_arrow_reader(BATCH_ROWS)
