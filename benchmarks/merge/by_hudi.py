"""Hudi's own compaction of a copy of the table: one file group, so one task of Spark.

Touches: a copy of the table beside it; starts a JVM.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.merge.files import SliceFiles
from benchmarks.merge.watched import Watched, watched
from tests.hudi.spark import HUDI_VERSION, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTIONS = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1,hoodie.parquet.compression.codec=zstd"


def by_hudi(files: SliceFiles) -> tuple[Watched, list[Path], dict[str, Any]]:
    """The first compaction of a new JVM; then, on another copy, the same once more by a JVM that is warm."""
    with tempfile.TemporaryDirectory(prefix="hudi-compaction-") as scratch:
        spark = start_spark(scratch=Path(scratch), memory="4g", at_full_speed=True)
        cost, out = _compact(spark, files)
        warm, _ = _compact(spark, files)
        spark.stop()
    return cost, out, {"version": HUDI_VERSION, "warm": asdict(warm)}


def _compact(spark: SparkSession, files: SliceFiles) -> tuple[Watched, list[Path]]:
    table = Path(tempfile.mkdtemp(dir=files.folder)) / "table"
    shutil.copytree(files.table, table, copy_function=shutil.copy2)
    before = set(table.glob("*.parquet"))
    call = f"CALL run_compaction(op => 'scheduleAndExecute', path => '{table}', options => '{OPTIONS}')"
    cost, done = watched(lambda: spark.sql(call).collect())
    assert len(done) == 1, done
    return cost, sorted(set(table.glob("*.parquet")) - before)
