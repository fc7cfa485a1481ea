"""Tables that `lakeward table create` made, to which released Hudi writes with its defaults, and goes on."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

from lakeward.cli.main import run
from lakeward.format.java_properties import parse_properties
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from tests.hudi.golden_version_8 import by_default, rows_of
from tests.hudi.metadata_table import WITHOUT_METADATA
from tests.hudi.other_release import OtherRelease
from tests.hudi.spark import HUDI_VERSION, OLDEST_VERSION, OLDEST_VERSION_OF_8
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import assert_verified
from tests.metadata_births import comparable_files, first_files, names_of_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COLUMNS = """
    concat('k', id) AS id, 10L AS ts, concat('p', id % 2) AS part, CAST(id AS tinyint) AS tiny,
    CAST(id / 4 AS decimal(12,3)) AS price, date'2024-03-04' AS day, timestamp'2024-03-04 05:06:07' AS at,
    CAST('2024-03-04 05:06:07' AS timestamp_ntz) AS local, CAST('raw' AS binary) AS raw, 1.5f AS half, 2.5d AS real,
    true AS truth, named_struct('a', 1, 'b', array(named_struct('d', CAST(1 AS decimal(5,1)), 'e', 'x'))) AS inner,
    map('x', CAST(id AS bigint)) AS counts
"""
SCHEMA = {
    "type": "record",
    "name": "rows",
    "fields": [
        {"name": name, "type": ["null", kind], "default": None}
        for name, kind in {"id": "string", "part": "string", "ts": "long", "v": "string"}.items()
    ],
}
INDEXES = {
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}

DAYS = ("--timestamp-output", "yyyy/MM/dd")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "rows.avsc"
    path.write_text(json.dumps(SCHEMA))
    return path


def create(base: Path, *words: str) -> dict[str, str]:
    """Makes the table, and returns its properties."""
    assert run(["table", "create", str(base), "--ordering", "ts", *words]) == 0
    return properties(base)


def properties(base: Path) -> dict[str, str]:
    return parse_properties((base / ".hoodie/hoodie.properties").read_bytes())


def definitions(base: Path) -> object:
    return json.loads((base / ".hoodie/.index_defs/index.json").read_bytes())


def rows(spark: SparkSession, first: int, last: int, ts: int) -> DataFrame:
    return spark.sql(
        f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {ts}L AS ts, concat('v', {ts}) AS v "
        f"FROM range({first}, {last})"
    )


def write(frame: DataFrame, base: Path, operation: str = "upsert", **options: str) -> None:
    """Hudi writes the rows, and is given nothing but the name."""
    named = {"hoodie.table.name": base.name, "hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**named, **options).mode("append").save(str(base))


def values(table: HudiTable, **options: str) -> dict[str, str]:
    return {row["id"]: row["v"] for row in map(json.loads, table.snapshot(with_meta=False, **options))}


@pytest.mark.parametrize(
    "kind, shape, words",
    [
        ("mor", TableShape(partition_fields="part"), ["--partition", "part"]),
        ("cow", TableShape(), []),
        (
            "mor",
            TableShape(partition_fields="part", key_fields="id,day", hive_style=True),
            ["--partition", "part", "--hive-style"],
        ),
        (
            "mor",
            TableShape(partition_fields="part", options=INDEXES | {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"}),
            ["--partition", "part", "--index", "metadata,bloom-filters"],
        ),
    ],
)
@pytest.mark.turns(28)
def test_hudi_goes_on(spark: SparkSession, tmp_path: Path, kind: str, shape: TableShape, words: list[str]) -> None:
    """Our schema is the one that its first write has, no property of Lakeward is another one to it, and it goes on with
    the metadata table: nothing is rebuilt, and after the first write the files are those of a table that it made."""
    spark.sql(f"SELECT {COLUMNS} FROM range(25)").coalesce(1).write.parquet(str(tmp_path / "rows"))
    (like,) = (tmp_path / "rows").glob("*.parquet")
    rows = spark.read.parquet(str(like))
    base = tmp_path / "t"
    own = create(base, "--like", str(like), "--record-key", shape.key_fields, "--type", kind, *words)
    born = first_files(base)

    options = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.table.type": own["hoodie.table.type"]}
    table = HudiTable(spark, base, shape)
    twin = HudiTable(spark, tmp_path / "twin", shape)
    named = {"hoodie.datasource.write.partitionpath.field": shape.partition_fields}  # said, also where there are none
    first = rows.where("counts['x'] < 20")
    twin.write(first, "upsert", **named, **options)
    table.write(first, "upsert", **options)
    asked = {"hoodie.table.create.schema", *INDEXES, "hoodie.index.type"}
    in_utc = {"hoodie.table.timeline.timezone": "UTC"}
    assert {key: value for key, value in own.items() if key not in asked} == properties(twin.path) | in_utc
    assert comparable_files(born) == comparable_files(first_files(twin.path))
    assert names_of_files(base) == names_of_files(twin.path)
    assert definitions(base) == definitions(twin.path)
    table.write(rows.where("counts['x'] >= 5").withColumn("ts", rows["ts"] + 1), "upsert", **options)

    assert properties(base) == own
    assert first_files(base) == born
    commit = max((base / ".hoodie/timeline").glob("*_*.*commit"))
    written = read_commit_metadata(commit.read_bytes(), file=commit.name, layout=2).extra_metadata["schema"]
    assert own["hoodie.table.create.schema"] == written
    found = {row["id"]: row["ts"] for row in map(json.loads, table.snapshot(with_meta=False))}
    assert found == {f"k{n}": 11 if n >= 5 else 10 for n in range(25)}
    if kind == "mor":
        before = table.snapshot()
        assert compact(table)["compactions"]
        assert table.snapshot() == table.read_optimized() == before


@pytest.mark.wide
def test_its_services_go_on(spark: SparkSession, tmp_path: Path, schema: Path) -> None:
    """Writers who are given nothing keep the indexes that were asked for, and use them: upserts, deletes, compactions,
    cleans and the metadata table's own compactions follow each other, and both ways to list files give the same."""
    base = tmp_path / "t"
    words = ["--record-key", "id", "--partition", "part", "--index", "metadata,bloom-filters"]
    own = create(base, "--schema", str(schema), *words)
    partitions, table = own["hoodie.table.metadata.partitions"], HudiTable(spark, base, TableShape())
    services = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2",
        "hoodie.clean.commits.retained": "1",
        "hoodie.metadata.compact.max.delta.commits": "3",
    }
    expected: dict[str, str] = {}
    for round_number in range(6):
        first, ts = round_number * 4, 10 + round_number
        write(rows(spark, first, first + 10, ts), base, **services)
        expected |= {f"k{n}": f"v{ts}" for n in range(first, first + 10)}
        write(rows(spark, first, first + 2, ts), base, "delete", **services)
        expected = {key: value for key, value in expected.items() if key not in (f"k{first}", f"k{first + 1}")}
        assert values(table) == values(table, **WITHOUT_METADATA) == expected
    assert properties(base)["hoodie.table.metadata.partitions"] == partitions
    kinds = {path.suffix for path in (base / ".hoodie/timeline").iterdir()}
    assert {".commit", ".clean"} <= kinds
    assert [*(base / ".hoodie/metadata/.hoodie/timeline").glob("*_*.commit")]
    assert_verified(table)


@pytest.mark.wide
def test_all_write_into_the_buckets_that_were_asked_for(spark: SparkSession, tmp_path: Path, schema: Path) -> None:
    """A writer that sets nothing, SQL, and Hudi's procedure for compactions; one that is set otherwise is refused
    before it writes."""
    base = tmp_path / "t"
    words = ["--record-key", "id", "--partition", "part", "--index", "bucket:3"]
    create(base, "--schema", str(schema), *words)
    table = HudiTable(spark, base, TableShape())
    write(rows(spark, 0, 40, 10), base)
    groups = {path.name[:8] for path in base.glob("p?/*.parquet")}
    assert groups == {"00000000", "00000001", "00000002"}
    for other in ({"hoodie.bucket.index.num.buckets": "4"}, {"hoodie.index.type": "SIMPLE"}):
        with pytest.raises(Py4JJavaError, match="Config conflict"):
            write(rows(spark, 0, 40, 11), base, **other)
    spark.sql(f"CREATE TABLE bucketed USING hudi LOCATION '{base}'")
    try:
        spark.sql("UPDATE bucketed SET v = 'sql' WHERE id = 'k7'")
    finally:
        spark.sql("DROP TABLE bucketed")
    assert table.compact()
    assert len([*base.glob("p?/*.parquet")]) == 7  # one file group of six had a log
    assert values(table) == {f"k{n}": "sql" if n == 7 else "v10" for n in range(40)}


@pytest.mark.wide
def test_partitions_by_moments_and_by_dates_with_slashes(spark: SparkSession, tmp_path: Path, schema: Path) -> None:
    """Writers that are given nothing of key generators name the partitions that were asked for, and find their rows
    again."""
    made = (
        ("moments", "ts", ["--key-generator", "timestamp", "--timestamp-type", "seconds", *DAYS], ["2023/11/14"]),
        ("slashes", "part", ["--slash-dates"], ["2024/03/04", "2024/03/05"]),
    )
    for name, column, words, expected in made:
        base = tmp_path / name
        create(base, "--schema", str(schema), "--record-key", "id", "--partition", column, *words)
        born, table = first_files(base), HudiTable(spark, base, TableShape())
        for value in ("a", "b"):
            frame = spark.sql(
                f"SELECT concat('k', id) AS id, concat('2024-03-0', 4 + id % 2) AS part, 1700000000L + id AS ts, "
                f"'{value}' AS v FROM range(10)"
            )
            write(frame, base)
        folders = {path.parent.relative_to(base).as_posix() for path in base.glob("20*/*/*/.hoodie_partition_metadata")}
        assert folders == {*expected}
        assert values(table) == values(table, **WITHOUT_METADATA) == {f"k{n}": "b" for n in range(10)}
        assert first_files(base) == born
        assert lakeward("verify", str(base), "--all")[0] == 0


@pytest.mark.wide
@pytest.mark.parametrize(
    "release, version, words",
    [
        (OLDEST_VERSION_OF_8, "8", []),
        (OLDEST_VERSION_OF_8, "8", ["--index", "metadata,bloom-filters"]),
        (OLDEST_VERSION, "9", ["--index", "metadata,bloom-filters"]),
    ],
)
def test_older_releases_go_on(tmp_path: Path, schema: Path, release: str, version: str, words: list[str]) -> None:
    """The oldest release of each version: 1.0.2 of 8, 1.1.1 of 9."""
    base, shape = tmp_path / "t", by_default()
    parts = ("--record-key", "id", "--partition", "part", "--table-version", version)
    create(base, "--schema", str(schema), *parts, *words)
    own, born = properties(base), first_files(base)
    asked = {"hoodie.metadata.record.index.enable": "true", "hoodie.metadata.index.bloom.filter.enable": "true"}
    with OtherRelease(release, tmp_path / "older") as older:
        twin = older.table(tmp_path / "twin", by_default(**(asked if words else {})))
        table = older.table(base, shape)
        twin.write(f"SELECT id, part, ts, v FROM ({rows_of(0, 40, 10, 'a')})", "upsert")
        for first, last, ts, value in ((0, 40, 10, "a"), (10, 30, 11, "b"), (38, 44, 12, "c")):
            table.write(f"SELECT id, part, ts, v FROM ({rows_of(first, last, ts, value)})", "upsert")
        table.write(f"SELECT id, part, ts, v FROM ({rows_of(0, 4, 13, 'x')})", "delete")
        assert table.snapshot() == table.snapshot(**WITHOUT_METADATA)
        found = {row["id"]: row["v"] for row in map(json.loads, table.snapshot())}
    assert found == {f"k{n}": "c" if n >= 38 else "b" if 10 <= n < 30 else "a" for n in range(4, 44)}
    assert properties(base) == own
    assert first_files(base) == born
    assert comparable_files(born) == comparable_files(first_files(twin.path))
    assert definitions(base) == definitions(twin.path)
    assert lakeward("verify", str(base), "--all")[0] == 0


@pytest.mark.wide
@pytest.mark.parametrize("zone", ["Pacific/Honolulu", "Pacific/Kiritimati"])
@pytest.mark.parametrize("release", [OLDEST_VERSION, HUDI_VERSION])
def test_writers_in_any_zone_write_instants_in_utc(tmp_path: Path, schema: Path, release: str, zone: str) -> None:
    """Requested and completion times of the table and its metadata table, of writes and compactions, by Hudi and by
    Lakeward in turns; and all rows are read."""
    begun, base = datetime.datetime.now(datetime.UTC), tmp_path / "t"
    own = create(base, "--schema", str(schema), "--record-key", "id", "--partition", "part")
    assert own["hoodie.table.timeline.timezone"] == "UTC"
    with OtherRelease(release, tmp_path / "elsewhere", zone=zone) as elsewhere:
        table = elsewhere.table(base, by_default())
        for first, last, ts, value in ((0, 40, 10, "a"), (10, 30, 11, "b"), (38, 44, 12, "c")):
            table.write(f"SELECT id, part, ts, v FROM ({rows_of(first, last, ts, value)})", "upsert")
        table.compaction("op => 'scheduleAndExecute'")
        table.write(f"SELECT id, part, ts, v FROM ({rows_of(20, 25, 13, 'd')})", "upsert")
        assert run(["compact", str(base), "--writers", "stopped"]) == 0
        table.write(f"SELECT id, part, ts, v FROM ({rows_of(22, 50, 14, 'e')})", "upsert")
        assert table.snapshot() == table.snapshot(**WITHOUT_METADATA)
        found = {row["id"]: row["v"] for row in map(json.loads, table.snapshot())}
    expected = {n: "e" if n >= 22 else "d" if n >= 20 else "b" if n >= 10 else "a" for n in range(50)}
    assert found == {f"k{n}": value for n, value in expected.items()}
    assert properties(base) == own
    slack = datetime.timedelta(minutes=1)
    times = _times_in(base / ".hoodie/timeline", base / ".hoodie/metadata/.hoodie/timeline")
    assert len(times) > 40
    assert begun - slack < min(times) and max(times) < datetime.datetime.now(datetime.UTC) + slack


def _times_in(*timelines: Path) -> list[datetime.datetime]:
    """The moments that the names of timeline files have, but for those of initial builds, taken for UTC."""
    names = [path.name for folder in timelines for path in folder.iterdir() if not path.name.startswith("000")]
    texts = [text for name in names for text in re.findall(r"\d{17}", name.partition(".")[0])]
    return [datetime.datetime.strptime(text, "%Y%m%d%H%M%S%f").replace(tzinfo=datetime.UTC) for text in texts]
