"""The peer: Hudi's own table, and its own clean of it, in a process of its own.

python -m benchmarks.hudi_clean make PATH     a table of one row, without a metadata table
python -m benchmarks.hudi_clean clean PATH    one commit retained; prints the seconds that it took
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.hudi.spark import start_spark
from tests.hudi.table import HudiTable, TableShape

OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.clean.automatic": "false"}


def main(what: str, table: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hudi-clean-") as scratch:
        spark = start_spark(scratch=Path(scratch), memory="4g", at_full_speed=True)
        if what == "make":
            shape = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE", **OPTIONS}
            row = spark.createDataFrame([("k", "p", 1, "v")], "id string, part string, ts long, v string")
            HudiTable(spark, Path(table), TableShape(partition_fields="part", options=shape)).write(row, "insert")
        else:
            spark.sql(f"CREATE TABLE cleaned USING hudi LOCATION '{table}'")
            options = "hoodie.metadata.enable=false,hoodie.clean.failed.writes.policy=NEVER"
            begin = time.perf_counter()
            spark.sql(f"CALL run_clean(table => 'cleaned', retain_commits => 1, options => '{options}')").collect()
            print(f"{time.perf_counter() - begin:.3f}")
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
