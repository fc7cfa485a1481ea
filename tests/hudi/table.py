"""A table that released Hudi writes and reads: the harness of the interop suite.

`TableShape` says what kind of table; `HudiTable` writes it and asks Hudi (and hudi-rs) what is in it. Every answer is
a `Rows`: rows as JSON text in sorted order, so two answers are equal exactly when the rows are.

Touches: one table folder on local disk, through Spark.
Keeps:   1. writers and compactions leave the metadata table off (`hoodie.metadata.enable=false`) unless the shape's
            options, or a call, say otherwise;
         2. readers use Hudi's default settings;
         3. rows are compared with their meta columns, except the name of the file they lie in.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import lakeward
from lakeward.protocol.times.seen_times import FOLDER as MINTED
from lakeward.services.clean.run.cleaner import PLACE as RESERVE

META_COLUMNS = ("_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path")
FILE_NAME_COLUMN = "_hoodie_file_name"

# Spark's JSON leaves nulls out and cuts times to milliseconds unless asked otherwise.
AS_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}

Rows = tuple[str, ...]
Instants = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a writer decides when it makes a table."""

    name: str = "t"
    ordering_fields: str = "ts"
    """Empty: commit-time ordering."""
    merge_mode: str = "EVENT_TIME_ORDERING"
    key_fields: str = "id"
    partition_fields: str = ""
    hive_style: bool = False
    url_encode: bool = False
    index: str = "SIMPLE"
    buckets: int = 2
    log_format: str = "avro"
    options: Mapping[str, str] = field(default_factory=dict)

    def write_options(self) -> dict[str, str]:
        options = {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": self.key_fields,
            "hoodie.datasource.write.partitionpath.field": self.partition_fields,
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.url_encode).lower(),
            "hoodie.datasource.write.keygenerator.class": self._key_generator(),
            "hoodie.table.ordering.fields": self.ordering_fields,
            "hoodie.record.merge.mode": self.merge_mode,
            "hoodie.index.type": self.index,
            "hoodie.logfile.data.block.format": self.log_format,
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.compact.schedule.inline": "false",
            # The suites compare queries at every instant: nothing is cleaned or archived behind their back.
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            # Updates go to log files whatever the size of the base file, new keys to new file groups.
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.insert.shuffle.parallelism": "2",
            "hoodie.upsert.shuffle.parallelism": "2",
            "hoodie.delete.shuffle.parallelism": "2",
            "hoodie.bulkinsert.shuffle.parallelism": "1",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
        }
        if self.index == "BUCKET":
            options |= {
                "hoodie.bucket.index.num.buckets": str(self.buckets),
                "hoodie.bucket.index.hash.field": self.key_fields,
            }
        return {key: value for key, value in (options | dict(self.options)).items() if value != ""}

    def _key_generator(self) -> str:
        if not self.partition_fields:
            return "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
        if "," in self.key_fields or "," in self.partition_fields:
            return "org.apache.hudi.keygen.ComplexKeyGenerator"
        return "org.apache.hudi.keygen.SimpleKeyGenerator"


class HudiTable:
    """One table under `path`. Writing methods return nothing; reading methods return `Rows`."""

    def __init__(self, spark: SparkSession, path: Path, shape: TableShape) -> None:
        self._spark = spark
        self.path = path
        self.shape = shape

    # Writing

    def write(self, rows: DataFrame, operation: str, **options: str) -> None:
        (
            rows.write.format("hudi")
            .options(**(self.shape.write_options() | options))
            .option("hoodie.datasource.write.operation", operation)
            .mode("append")
            .save(str(self.path))
        )

    def schedule_compaction(self) -> str:
        """Hudi writes a plan for everything that has logs. Returns its instant."""
        return self._run_compaction("op => 'schedule'")

    def compact(self) -> str:
        """Hudi plans and compacts everything that has logs and is in no pending plan. Returns the instant."""
        return self._run_compaction("op => 'scheduleAndExecute'")

    def compact_pending(self, instant: str) -> None:
        """Hudi runs the plan of this instant. (Without the instant it would make and run a new one instead.)"""
        self._run_compaction(f"op => 'run', timestamp => {instant}")

    def _run_compaction(self, what: str) -> str:
        kept = ("hoodie.metadata.", "hoodie.write.table.version", "hoodie.write.auto.upgrade")
        options = {key: value for key, value in self.shape.write_options().items() if key.startswith(kept)}
        options |= {"hoodie.compact.inline.max.delta.commits": "1"}
        settings = ",".join(f"{key}={value}" for key, value in options.items())
        rows = self._spark.sql(f"CALL run_compaction({what}, path => '{self.path}', options => '{settings}')").collect()
        assert len(rows) == 1, f"Hudi found nothing to compact, or more than one plan: {rows}"
        return str(rows[0]["timestamp"])

    def copy_to(self, path: Path) -> HudiTable:
        """A twin with the same files, byte for byte and with the same file times."""
        shutil.copytree(self.path, path, copy_function=shutil.copy2)
        return HudiTable(self._spark, path, self.shape)

    def set_file_times(self, to: float | None = None) -> None:
        """The times of all files are now, or `to`, as those of a copy may be."""
        for file in self.path.rglob("*"):
            os.utime(file, None if to is None else (to, to))

    def cut_head_of_properties(self) -> None:
        """The comments, which say when the properties were saved, and in which time zone."""
        properties = self.path / ".hoodie" / "hoodie.properties"
        lines = properties.read_bytes().splitlines(keepends=True)
        properties.write_bytes(b"".join(line for line in lines if not line.startswith(b"#")))
        properties.with_name(".hoodie.properties.crc").unlink(missing_ok=True)

    def reshaped(self, **changes: object) -> HudiTable:
        """The same table, written to with other settings from here on."""
        return HudiTable(self._spark, self.path, replace(self.shape, **changes))

    # Reading

    def snapshot(self, *, with_meta: bool = True, **options: str) -> Rows:
        return self.formatted(self.frame(**options), with_meta=with_meta)

    def read_optimized(self, *, with_meta: bool = True, **options: str) -> Rows:
        return self.snapshot(with_meta=with_meta, **{"hoodie.datasource.query.type": "read_optimized"}, **options)

    def frame(self, **options: str) -> DataFrame:
        return self._spark.read.format("hudi").options(**options).load(str(self.path))

    def as_of(self, instant: str) -> Rows:
        """What the table was at this instant."""
        return self.snapshot(**{"as.of.instant": instant})

    def incremental(self, begin: str, end: str) -> Rows:
        """What changed after `begin`, up to `end`; both are completion times."""
        return self.snapshot(
            **{
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": begin,
                "hoodie.datasource.read.end.instanttime": end,
            }
        )

    def read_by_hudi_rs(self) -> Rows | str:
        """hudi-rs's own answer; where it cannot read this kind of table, its own words."""
        from hudi import HudiTableBuilder

        try:
            batches = HudiTableBuilder.from_base_uri(str(self.path)).build().read()
        except BaseException as error:  # where it is not finished, hudi-rs panics, which is no Exception
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            return f"{type(error).__name__}: {error}".replace(str(self.path), "TABLE")
        rows = []
        for batch in batches:
            for row in batch.to_pylist():
                row.pop(FILE_NAME_COLUMN, None)
                rows.append(json.dumps(row, sort_keys=True, default=repr))
        return tuple(sorted(rows))

    def read_by_lakeward(self, *, with_meta: bool = True, read_optimized: bool = False) -> Rows:
        """What `lakeward.Table` gives, formatted by Spark as Hudi's answers are."""
        rows = lakeward.Table(str(self.path), timezone="UTC").scan(
            meta_columns=with_meta, read_optimized=read_optimized
        )
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(rows.to_arrow(), f"{folder}/rows.parquet")
            return self.formatted(self._spark.read.parquet(f"{folder}/rows.parquet"), with_meta=with_meta)

    def slices_by_hudi_rs(self) -> frozenset[tuple[str, str, str, frozenset[str]]]:
        """Partition path, file id, base file and log files of each file slice that hudi-rs would read."""
        from hudi import HudiTableBuilder

        return frozenset(
            (each.partition_path, each.file_id, each.base_file_name or "", frozenset(each.log_file_names))
            for each in HudiTableBuilder.from_base_uri(str(self.path)).build().get_file_slices()
        )

    def digest(self, frame: DataFrame | None = None) -> tuple[int, int]:
        """Row count and an order-independent digest, for tables too large to collect."""
        frame = self.frame() if frame is None else frame
        columns = [column for column in frame.columns if column != FILE_NAME_COLUMN]
        hashed = frame.select(f.xxhash64(f.to_json(f.struct(*columns), AS_JSON)).alias("h"))
        row = hashed.agg(f.count("*").alias("rows"), f.sum(f.col("h").cast("decimal(38,0)")).alias("sum")).first()
        return int(row["rows"]), int(row["sum"] or 0)

    def formatted(self, frame: DataFrame, *, with_meta: bool = True) -> Rows:
        """The rows of any frame, formatted as every result here is."""
        return tuple(sorted(row["row"] for row in _as_json(frame, with_meta).collect()))

    # The timeline, by its file names

    def completed_instants(self) -> Instants:
        """(requested time, completion time) of every completed commit, by completion."""
        found = [
            (requested, completed)
            for requested, completed, action in self._timeline_files()
            if completed and action in ("commit", "deltacommit", "replacecommit")
        ]
        return tuple(sorted(found, key=lambda times: times[1]))

    def compactions(self) -> tuple[str, ...]:
        """The instants of plans of compaction, carried out or not."""
        return tuple(sorted(time for time, _, rest in self._timeline_files() if rest == "compaction.requested"))

    def pending_instants(self) -> tuple[str, ...]:
        found = list(self._timeline_files())
        return tuple(sorted({time for time, _, _ in found} - {time for time, completed, _ in found if completed}))

    def _timeline_files(self) -> Iterator[tuple[str, str, str]]:
        """Requested time, completion time and the rest of the name of each file; the second is empty where the file is
        not of the end. In layout 1 (version 6) names have the first alone, and queries use it."""
        folder = self.path / ".hoodie"
        is_layout_1 = "hoodie.timeline.layout.version=1" in (folder / "hoodie.properties").read_text().split()
        for file in (folder if is_layout_1 else folder / "timeline").iterdir():
            times, _, rest = file.name.partition(".")
            requested, _, completed = times.partition("_")
            if requested.isdigit():
                is_end = is_layout_1 and "." not in rest and rest != "inflight"
                yield requested, requested if is_end else completed, rest

    def files(self) -> dict[str, int]:
        """Every file of the table with its size, but for Hadoop's checksum siblings, and what Lakeward keeps there that
        is of no instant: the greatest time that it minted, and a clean's reserve."""
        kept = (self.path / ".hoodie" / MINTED, self.path / ".hoodie" / RESERVE)
        return {
            str(file.relative_to(self.path)): file.stat().st_size
            for file in sorted(self.path.rglob("*"))
            if file.is_file() and not file.name.endswith(".crc") and not {file, file.parent}.intersection(kept)
        }

    def data_files(self) -> dict[str, int]:
        return {
            name: size
            for name, size in self.files().items()
            if not name.startswith(".hoodie/") and ".hoodie_partition_metadata" not in name
        }


def _as_json(frame: DataFrame, with_meta: bool) -> DataFrame:
    hidden = {FILE_NAME_COLUMN} if with_meta else {FILE_NAME_COLUMN, *META_COLUMNS}
    columns = [f.col(f"`{column}`") for column in frame.columns if column not in hidden]
    return frame.select(f.to_json(f.struct(*columns), AS_JSON).alias("row"))
