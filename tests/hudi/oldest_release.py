"""Run in a process of its own, since a process has one Hudi: the oldest supported release reads a table and goes on.

    python -m tests.hudi.oldest_release TABLE SCRATCH

Prints one JSON object: the snapshot and the read-optimized rows as it found them, and the snapshot after an upsert.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.hudi.spark import OLDEST_VERSION, start_spark
from tests.hudi.table import HudiTable, TableShape

table_path, scratch = sys.argv[1:]
spark = start_spark(scratch=Path(scratch), version=OLDEST_VERSION)
table = HudiTable(spark, Path(table_path), TableShape(partition_fields="part"))
found = {"snapshot": table.snapshot(with_meta=False), "read_optimized": table.read_optimized(with_meta=False)}
rows = spark.sql("SELECT concat('warm', id) AS id, 'warm' AS part, 99L AS ts, 'old' AS v FROM range(3)")
table.write(rows, "upsert")
print(json.dumps(found | {"after": table.snapshot(with_meta=False)}))
spark.stop()
