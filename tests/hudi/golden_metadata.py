"""Makes tests/golden/v9_metadata: a tiny table by Hudi 1.2.0 with every partition of its metadata table.

    python -m tests.hudi.golden_metadata FOLDER SCRATCH

Two files in FOLDER: `table.tar.xz` is the table, without Hadoop's checksum files; `expected.json` what Hudi's snapshot
query returned.

Touches: FOLDER, through Spark.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape

OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.file.group.count": "2",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.record.index.max.filegroup.count": "1",
    # A base file and logs in the metadata table.
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.index.bloom.num_entries": "100",
}

# As in the other golden tables: inserts; an update and a late one; a tie and an insert; deletes.
WRITES = (
    ("insert", (("k1", 10, "a"), ("k2", 10, "b"), ("k3", 10, "c"), ("k4", 10, "d"), ("k5", 10, "e"), ("k6", 10, "f"))),
    ("upsert", (("k1", 11, "a2"), ("k2", 9, "late"))),
    ("upsert", (("k3", 10, "tie"), ("k4", 12, "d2"))),
    ("delete", (("k4", 13, ""), ("k5", 13, ""))),
)


def main(folder: Path, scratch: Path) -> None:
    spark = start_spark(scratch=scratch)
    table = HudiTable(spark, scratch / "table", TableShape(name="golden", partition_fields="part", options=OPTIONS))
    for operation, rows in WRITES:
        values = ", ".join(f"('{key}', '{name}', {ts}L, 'p')" for key, ts, name in rows)
        table.write(spark.sql(f"SELECT * FROM VALUES {values} AS t(id, name, ts, part)"), operation)
    rows = sorted((row.asDict() for row in table.frame().collect()), key=lambda row: row["_hoodie_record_key"])
    (folder / "expected.json").write_text(json.dumps(rows, indent=1) + "\n")
    with tarfile.open(folder / "table.tar.xz", "w:xz") as archive:
        for name in table.files():
            archive.add(table.path / name, name)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
