"""What a task of `lakeward.spark.read` does, without Spark."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward
from lakeward.scan.slice_tasks import pack_tasks
from lakeward.spark.slice_parts import slice_parts
from lakeward.spark.slice_work import SliceWork
from tests.golden_tables import copy_golden
from tests.write.writing import new_table, write


@pytest.mark.parametrize("version", ["v6", "v8", "evolved", "operations", "hfile"])
def test_tasks_give_the_rows_of_the_scan(version: str, tmp_path: Path) -> None:
    """Keeps of spark/slice_work; times are in microseconds."""
    table = lakeward.Table(str(copy_golden(version, tmp_path / "t")), timezone="UTC")
    rows = table.scan(meta_columns=True)
    work = pickle.loads(pickle.dumps(SliceWork(rows.scan.plan.shared, 2**29)))
    found = [
        batch
        for task in pack_tasks(slice_parts(rows.scan.storage, rows.scan.plan), parallelism=2)
        for batch in work(task)
    ]
    assert pa.concat_tables(pa.table([*batch.columns], batch.schema.names) for batch in found).num_rows > 0
    given = [row for batch in found for row in batch.to_pylist()]
    key = "_hoodie_record_key"
    assert sorted(given, key=lambda row: row[key]) == sorted(rows.to_arrow().to_pylist(), key=lambda row: row[key])
    assert all(
        field.type.unit == "us" for batch in found for field in batch.schema if pa.types.is_timestamp(field.type)
    )


def test_what_travels_does_not_grow_with_the_table(tmp_path: Path) -> None:
    """A task has its slices, and what they have in common has none. Keeps 2 of spark/table_frame, 1 of
    spark/task_frames."""
    base = new_table(tmp_path / "t")
    sizes = {}
    write(base, [("k0", 1, "p00", "a")])
    for partitions in (10, 60):
        write(base, [(f"k{n}", 1, f"p{n:02}", "a") for n in range(partitions)])
        rows = lakeward.Table(str(base)).scan()
        tasks = pack_tasks(slice_parts(rows.scan.storage, rows.scan.plan), parallelism=100)
        sizes[len(tasks)] = (
            len(pickle.dumps(SliceWork(rows.scan.plan.shared, 2**29))),
            max(len(pickle.dumps(task)) for task in tasks),
        )
    (few, task_of_few), (many, task_of_many) = sizes[10], sizes[60]
    assert many <= few + 100
    assert max(task_of_few, task_of_many) < 2_000


def test_tasks_load_nothing_that_plans() -> None:
    """Executors begin with what reads a slice; `import lakeward` begins without Spark."""
    for imported, left_out in (
        ("lakeward", {"pyspark", "pyarrow"}),
        ("lakeward.spark.slice_work", {"sqlglot", "lakeward.api", "lakeward.services", "sqlalchemy"}),
    ):
        code = f"import sys, {imported}; print(*sys.modules)"
        loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
        assert imported in loaded and not loaded & left_out
