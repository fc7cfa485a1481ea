"""The peer: Hudi's own compaction of one table, in a process of its own. Prints the seconds that it took."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.hudi.spark import start_spark


def main(table: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hudi-compaction-") as scratch:
        spark = start_spark(scratch=Path(scratch), memory="4g", at_full_speed=True)
        options = "hoodie.metadata.enable=false,hoodie.compact.inline.max.delta.commits=1"
        options += ",hoodie.parquet.compression.codec=zstd"
        begin = time.perf_counter()
        done = spark.sql(
            f"CALL run_compaction(op => 'scheduleAndExecute', path => '{table}', options => '{options}')"
        ).collect()
        seconds = time.perf_counter() - begin
        spark.stop()
    assert len(done) == 1, done
    print(f"{seconds:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
