"""`python -m benchmarks.record_index_peers`: the indexes of one table of Hudi's, asked for the same keys in one run.

Hudi bulk-inserts a copy-on-write table of a million rows with keys of 36 characters drawn at random, over 20
partitions, with filters in its footers and its record index on. Lakeward builds its record index of it, by the command.
Then all are asked for 100,000 keys, nine in ten of which are there:

    lakeward record, metadata, simple, bloom    in this process, opened again for each run; `metadata` is Hudi's record
                                                index, which we read
    lakeward bloom, cached                      after `index build --type bloom`
    lakeward record, metadata, by tasks on Spark    a task for each file of a bucket, of a file group, on the same JVM
    hudi record index, hudi bloom               tagging as Hudi's Spark writers do it, in one JVM of two cores: the
                                                first run, and the best of those after it

The answers of all sides are equal, or the run fails.

Touches: a temporary folder, some 300 MB; starts Spark; writes `benchmarks/results/record-index-peers-<time>.json`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import keep_report, machine, measure
from lakeward.base.clock import SystemClock
from lakeward.engine.dispatch.dispatcher import Dispatcher
from lakeward.engine.dispatch.local import places_of_machine
from lakeward.engine.dispatch.spark import SparkDispatcher
from lakeward.engine.dispatch.spark_memory import SparkMemory
from lakeward.index.index import HashedIndex, record_locations
from lakeward.index.index_of_type import open_index
from lakeward.index.index_type import IndexType, LookupType
from lakeward.index.location import FILE_ID, LOCATIONS, PARTITION_PATH, RECORD_KEY
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.services.indexing.run.lookup_job import look_up_by_job
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.snapshot import take_snapshot
from tests.hudi.spark import start_spark
from tests.hudi.tagging_java import HudiTagging, Places

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PARTITIONS = 20
_RECORD_INDEX = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
_HUDI = {
    "hudi record index": {"hoodie.index.type": "RECORD_INDEX", **_RECORD_INDEX},
    "hudi bloom": {"hoodie.index.type": "BLOOM", "hoodie.metadata.enable": "true"},
}
_INDEX = (sys.executable, "-m", "lakeward.cli.main", "index")
_HASHED: tuple[LookupType, ...] = (IndexType.RECORD, IndexType.METADATA)
_OWN: tuple[LookupType, ...] = (*_HASHED, IndexType.BLOOM, IndexType.SIMPLE)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.record_index_peers", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"rows": arguments.rows, "keys": arguments.keys, "times": arguments.times}
    with tempfile.TemporaryDirectory(prefix="lakeward-bench-") as folder:
        scratch = Path(folder)
        spark = start_spark(scratch=scratch / "spark", memory="4g", at_full_speed=True)
        base = scratch / "table"
        figures["hudi writes the table"] = round(
            _timed(lambda: write_table(spark, base, arguments.rows, indexes=_RECORD_INDEX))[0], 1
        )
        asked = _asked(base, arguments.keys)
        for name in ("first", "again"):
            figures[f"index build --type record, {name}"] = _build(base, arguments.rows)
        answers: dict[str, Places] = {}
        for kind in _OWN:
            seconds, answers[f"lakeward {kind}"] = _own(base, kind, asked, arguments.times)
            figures[f"lakeward {kind}"] = _shown(seconds)
        spark_of_lakeward = SparkDispatcher("local[2]", memory=SparkMemory.on(places_of_machine(), MEMORY_BYTES))
        for kind in _HASHED:
            name = f"lakeward {kind}, by tasks on Spark"
            seconds, answers[name] = _own(base, kind, asked, arguments.times, by=spark_of_lakeward)
            figures[name] = _shown(seconds)
        measure([*_INDEX, "build", str(base), "--type", "bloom"])
        seconds, answers["lakeward bloom, cached"] = _own(base, IndexType.BLOOM, asked, arguments.times)
        figures["lakeward bloom, cached"] = _shown(seconds)
        tagging = HudiTagging(spark, scratch)
        tagging.read(asked.items())
        for name, options in _HUDI.items():
            runs = [tagging.tag(base, options) for _ in range(arguments.times + 1)]
            answers[name] = runs[0][1]
            figures[name] = _shown([seconds for seconds, _ in runs])
        spark.stop()
    for name, each in figures.items():
        print(f"{name}: {each}")
    wrong = [name for name, places in answers.items() if places != answers["lakeward record"]]
    figures["found"] = len(answers["lakeward record"])
    figures["other answers"] = wrong
    keep_report("record-index-peers", machine(), figures)
    if wrong:
        print(f"Answers differ from those of lakeward record: {', '.join(wrong)}.", file=sys.stderr)
    return 1 if wrong else 0


def write_table(spark: SparkSession, base: Path, rows: int, *, indexes: Mapping[str, str]) -> None:
    """Hudi writes rows with keys drawn at random into 40 base files in 20 partitions, by its options of indexes."""
    frame = (
        spark.range(rows)
        .selectExpr("id as n", "md5(cast(id as string)) as h")
        .selectExpr(
            "concat_ws('-', substr(h, 1, 8), substr(h, 9, 4), substr(h, 13, 4), substr(h, 17, 4), substr(h, 21)) as id",
            "1L as ts",
            f"format_string('day=%02d', n % {_PARTITIONS}) as part",
            "sha1(cast(n as string)) as v",
        )
    )
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.embed.timeline.server": "false",
        **indexes,
    }
    frame.write.format("hudi").options(**options).mode("overwrite").save(str(base))


def _asked(base: Path, number: int) -> dict[str, str]:
    """Keys, nine in ten of which are there, with the partition that has them, or one by chance."""
    from pyarrow import dataset

    found = [str(path) for path in sorted(base.glob("day=*/*.parquet"))]
    there = dataset.dataset(found).to_table(columns=["_hoodie_record_key", "_hoodie_partition_path"])
    random = np.random.default_rng(19)
    chosen = there.take(pa.array(random.choice(there.num_rows, number * 9 // 10, replace=False)))
    asked = dict(zip(*(column.to_pylist() for column in chosen.columns), strict=True))
    absent = [f"{random.bytes(18).hex()}" for _ in range(number - len(asked))]
    both = [*asked.items(), *((key, f"day={at % _PARTITIONS:02}") for at, key in enumerate(absent))]
    return dict(both[at] for at in random.permutation(len(both)))


def _build(base: Path, rows: int) -> dict[str, Any]:
    measure([*_INDEX, "drop", str(base), "--type", "record"])
    cost, _ = measure([*_INDEX, "build", str(base), "--type", "record", "--json"])
    size = sum(path.stat().st_size for path in (base / ".hoodie/.lakeward/index").rglob("*.hfile"))
    return {
        "seconds": round(cost.wall_seconds, 1),
        "cpu_seconds": round(cost.cpu_seconds, 1),
        "keys_per_second": round(rows / cost.wall_seconds),
        "peak_mb": round(cost.peak_rss_bytes / 1e6),
        "bytes_per_entry": round(size / rows, 1),
    }


def _own(
    base: Path, kind: LookupType, asked: dict[str, str], times: int, *, by: Dispatcher | None = None
) -> tuple[list[float], Places]:
    """In this process, or by tasks of the dispatcher."""
    storage, path = open_storage(str(base))
    keys, clock = pa.array(list(asked), pa.string()), SystemClock()

    def look_up() -> pa.Table:
        snapshot = take_snapshot(storage, path, timezone=None, clock=clock)
        index = open_index(storage, snapshot, kind, clock=clock)
        if by is None:
            return record_locations(storage, index, keys)
        assert isinstance(index, HashedIndex), "of these types each is one"
        return pa.Table.from_batches(look_up_by_job(path, index, keys, None, lambda size: by), LOCATIONS)

    runs = [_timed(look_up) for _ in range(times + 1)]
    found = runs[0][1]
    columns = (found.column(name).to_pylist() for name in (RECORD_KEY, PARTITION_PATH, FILE_ID))
    return [seconds for seconds, _ in runs], {key: (part, file_id) for key, part, file_id in zip(*columns, strict=True)}


def _shown(seconds: list[float]) -> dict[str, float]:
    return {"first_s": round(seconds[0], 2), "best_s": round(min(seconds[1:]), 3)}


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    made = work()
    return time.perf_counter() - begin, made


if __name__ == "__main__":
    raise SystemExit(main())
