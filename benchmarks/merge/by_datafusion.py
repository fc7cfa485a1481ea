"""DataFusion on the same rows: a sort-preserving merge of the runs, the first row of each key, to one Parquet file.

Every run is declared to be sorted by key and descending version, so that nothing is sorted again; which the plan is
asked to say. A base file without an order is sorted first. One partition, as one operation of Lakeward has one core.

Touches: a file beside the slice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datafusion import SessionConfig, SessionContext, __version__, col

from benchmarks.merge.files import DELETED_COLUMN, SliceFiles
from benchmarks.merge.shape import KEY_COLUMN, ORDERING_COLUMN
from benchmarks.merge.watched import Watched, watched


def by_datafusion(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    out = files.folder / "datafusion.parquet"
    context = SessionContext(SessionConfig().with_target_partitions(1))
    order = [[col(KEY_COLUMN).sort(ascending=True), col(ORDERING_COLUMN).sort(ascending=False, nulls_first=True)]]
    context.register_parquet("base", str(files.base_file), file_sort_order=order if files.shape.base_sorted else None)
    columns = ", ".join(f'"{name}"' for name in files.schema.names)
    inputs = [f'SELECT {columns}, false AS "{DELETED_COLUMN}" FROM base']
    for number, path in enumerate(files.runs):
        context.register_parquet(f"run{number}", str(path), file_sort_order=order)
        inputs.append(f'SELECT {columns}, "{DELETED_COLUMN}" FROM run{number}')
    query = f"""
        SELECT {columns} FROM (
            SELECT *, row_number() OVER (PARTITION BY "{KEY_COLUMN}" ORDER BY "{ORDERING_COLUMN}" DESC) AS place
            FROM ({" UNION ALL ".join(inputs)})
        ) WHERE place = 1 AND NOT "{DELETED_COLUMN}"
    """
    plan = str(context.sql(query).execution_plan().display_indent())
    assert "SortPreservingMergeExec" in plan, plan
    assert ("SortExec" in plan) != files.shape.base_sorted, plan
    copy = f"""COPY ({query}) TO '{out}' STORED AS PARQUET
        OPTIONS ('format.compression' 'zstd(1)', 'format.max_row_group_size' '122880')"""
    cost, _ = watched(lambda: context.sql(copy).collect())
    return cost, [out], {"version": __version__}
