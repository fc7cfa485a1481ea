"""Makes tests/golden/hfile: a table by Hudi 1.2.0 whose logs are of HFile blocks, and of one with deletes.

    python -m tests.hudi.golden_hfile_logs FOLDER SCRATCH

`table.tar.xz` in FOLDER is the table, without Hadoop's checksum files; `expected.json` has ordering value and price of
each key. Hudi itself cannot read it.

Touches: FOLDER and SCRATCH.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path

from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape


def main(folder: Path, scratch: Path) -> None:
    spark = start_spark(scratch=scratch)
    table = HudiTable(spark, scratch / "table", TableShape(log_format="hfile"))

    def write(first: int, last: int, ts: int, operation: str, added: str = "") -> None:
        columns = f"concat('kéy-', lpad(id, 2, '0')) AS id, {ts}L AS ts, CAST({ts} * id AS DECIMAL(20, 3)) AS price"
        table.write(
            spark.sql(f"SELECT {columns}, array(concat('ü', id)) AS tags{added} FROM range({first}, {last})"), operation
        )

    write(0, 12, 10, "insert")
    write(3, 9, 12, "upsert")
    write(4, 6, 12, "delete")
    write(5, 11, 11, "upsert", ", IF(id % 2 = 0, 'added', NULL) AS added")
    spark.stop()
    ts = {
        key: 12 if 3 <= key < 9 and key not in (4, 5) else 11 if 5 <= key < 11 else 10 for key in range(12) if key != 4
    }
    expected = {f"kéy-{key:02}": [ts[key], ts[key] * key] for key in ts}
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / "table.tar.xz", "w:xz") as archive:
        archive.add(table.path, ".", filter=lambda entry: None if entry.name.endswith(".crc") else entry)
    (folder / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
