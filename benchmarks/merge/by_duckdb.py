"""DuckDB on the same rows: the newest version of each key, deletes left out, in one query, to one Parquet file.

One thread, as one operation of ours has one core.

Touches: a file beside the slice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb

from benchmarks.merge.files import DELETED_COLUMN, SliceFiles
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
