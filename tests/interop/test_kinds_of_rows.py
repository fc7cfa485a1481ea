"""Tables whose rows are not merged by key and ordering value alone, by real Hudi: what it answers before LOG and FULL
it answers afterwards, and it goes on. Their payload class became a merge mode and merge properties in version 9;
several fields order them, which hudi-rs 0.5 does not read; they carry no keys (`hoodie.populate.meta.fields=false`);
log blocks have some of the columns, as MERGE INTO writes them; rows are filled from those that they win over; a key is
in several rows of one base file, as `insert` leaves it; or they have `_hoodie_operation`, which Flink's changelog mode
writes: no Flink runs here, so Hudi's write client writes them from Avro records with their kind of change.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError

from lakeward.base.errors import Unsupported
from lakeward.format.log.block import BlockType
from tests.hudi.client import hudi_client, write_records
from tests.hudi.evolved_table import maybe, schema
from tests.hudi.log_compacting import log_compact
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import compact, lakeward
from tests.interop.test_compaction import hudi_compacts
from tests.interop.test_logs import blocks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PAYLOAD = "hoodie.datasource.write.payload.class"
PACKAGE = "org.apache.hudi.common.model."
DMS = TableShape(ordering_fields="", merge_mode="", options={PAYLOAD: f"{PACKAGE}AWSDmsAvroPayload"})
DEBEZIUM = TableShape(
    ordering_fields="_event_bin_file,_event_pos",
    merge_mode="",
    options={PAYLOAD: f"{PACKAGE}debezium.MySqlDebeziumAvroPayload"},
)
DMS_COLUMNS = "id, Op, v"
DEBEZIUM_COLUMNS = "id, _change_operation_type, _event_bin_file, _event_pos, v"

MARKED = {
    "dms": (
        DMS,
        DMS_COLUMNS,
        ("('a', 'I', 1), ('b', 'I', 1), ('c', 'I', 1), ('d', 'I', 1)"),
        ("('a', 'D', 2), ('b', 'U', 2), ('x', 'D', 2)"),
        ("('a', 'I', 3), ('b', 'D', 3)"),
        ("('c', 'D', 4), ('a', 'U', 4), ('y', 'I', 4)"),
        {"a": 4, "d": 1, "y": 4},
    ),
    "debezium": (
        DEBEZIUM,
        DEBEZIUM_COLUMNS,
        ", ".join(f"('{key}', 'c', 'bin.01', 10L, 1)" for key in "abcdef"),
        ("('a', 'd', 'bin.01', 11L, 2), ('b', 'd', 'bin.01', 9L, 2), ('c', 'u', 'bin.02', 1L, 2)"),
        ("('d', 'u', 'bin.00', 99L, 3), ('c', 'd', 'bin.01', 99L, 3), ('a', 'c', 'bin.01', 10L, 3)"),
        ("('e', 'd', 'bin.02', 0L, 4), ('f', 'u', 'bin.01', 10L, 4), ('a', 'c', 'bin.01', 12L, 4)"),
        {"a": 4, "b": 1, "c": 2, "d": 1, "f": 4},
    ),
}


def compacted_twin(table: HudiTable, path: Path) -> HudiTable:
    """A copy that Hudi compacts where Lakeward compacts the table: both have the rows as before."""
    before = table.snapshot()
    twin = table.copy_to(path)

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    return twin


@pytest.mark.wide
@pytest.mark.parametrize("story", MARKED)
def test_merge_properties(spark: SparkSession, tmp_path: Path, story: str):
    """Rows that a column marks as deleted, as the payload class would have it, by writers that set it and by such that
    follow the table's properties."""
    shape, columns, first, second, third, fourth, expected = MARKED[story]
    table = HudiTable(spark, tmp_path / "table", shape)
    bare = table.reshaped(options={})
    for rows, writer in ((first, table), (second, table), (third, bare)):
        frame = spark.sql(f"SELECT * FROM VALUES {rows} AS t({columns})")
        writer.write(frame, "insert" if rows is first else "upsert")
    before = table.snapshot()
    log_compact(table.path)
    assert table.snapshot() == before
    bare.write(spark.sql(f"SELECT * FROM VALUES {fourth} AS t({columns})"), "upsert")
    before = table.snapshot()
    assert {row["id"]: row["v"] for row in table.frame().collect()} == expected
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    bare.write(spark.sql(f"SELECT * FROM VALUES {fourth.replace(', 4)', ', 5)')} AS t({columns})"), "upsert")
    after = table.snapshot()
    table.compact()
    assert table.snapshot() == table.read_optimized() == after


@pytest.mark.wide
def test_marked_rows_that_are_no_deletes(spark: SparkSession, tmp_path: Path):
    """Hudi returns marked rows of logs that are older than the mark, and compacts them as rows. What the table says of
    them and what readers make of them differ, so they are left to Hudi."""
    table = HudiTable(spark, tmp_path / "table", TableShape())
    for operation, rows in (
        ("insert", "('a', 1L, 'I'), ('b', 1L, 'I')"),
        ("upsert", "('a', 2L, 'D')"),
        ("upsert", "('b', 2L, 'I')"),
    ):
        table.write(spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, ts, op)"), operation)
    properties = table.path / ".hoodie" / "hoodie.properties"
    prefix = "hoodie.record.merge.property.hoodie.payload.delete."
    properties.write_text(properties.read_text() + f"{prefix}field=op\n{prefix}marker=D\n")
    properties.with_name(".hoodie.properties.crc").unlink()
    before = table.snapshot()
    assert len(before) == 2

    with pytest.raises(Unsupported, match="mark of deletion"):
        log_compact(table.path)

    table.compact()
    assert len(table.snapshot()) == 2


Change = tuple[str, str, str, bool]
"""What a row is called, its two ordering values as SQL, and whether it is deleted."""

VALUES = {
    "bigint": ("10L", "11L", "9L"),
    "int": ("0", "1", "-1"),
    "smallint": ("5S", "6S", "4S"),
    "string": ("'m'", "'n'", "'a'"),
    "double": ("0D", "1.5D", "-0D"),
    "timestamp": ("TIMESTAMP'2024-01-02 00:00:00'", "TIMESTAMP'2024-01-02 00:00:01'", "TIMESTAMP'1960-01-01 00:00:00'"),
    "decimal(10,2)": ("CAST(5.25 AS decimal(10,2))", "CAST(5.26 AS decimal(10,2))", "CAST(-5.25 AS decimal(10,2))"),
    "date": ("DATE'2024-01-02'", "DATE'2024-01-03'", "DATE'1969-01-01'"),
}
"""A value of each type, a greater one and a smaller one."""


def write_ordered(
    spark: SparkSession, tables: list[HudiTable], rows: dict[str, tuple[str, str, bool]], what: str
) -> None:
    values = ", ".join(f"('{key}', {a}, {b}, '{what}', {str(gone).lower()})" for key, (a, b, gone) in rows.items())
    for table in tables:
        frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, a, b, v, _hoodie_is_deleted)")
        table.write(frame, "insert" if what == "base" else "upsert")


@pytest.mark.wide
@pytest.mark.parametrize(
    ("first", "second", "log_format"),
    [
        ("bigint", "string", "avro"),
        ("string", "int", "avro"),
        ("int", "int", "parquet"),
        ("smallint", "timestamp", "parquet"),
        ("decimal(10,2)", "double", "avro"),
        ("bigint", "date", "parquet"),
    ],
)
def test_several_ordering_fields(spark: SparkSession, tmp_path: Path, first: str, second: str, log_format: str):
    """All nine relations of two values to the base row's, as data, as deletes and as deletes over data, and deletes by
    key alone; after LOG, further writes, and FULL, which ends as Hudi's own compaction does."""
    table = HudiTable(
        spark,
        tmp_path / "table",
        TableShape(ordering_fields="a,b", merge_mode="EVENT_TIME_ORDERING", log_format=log_format),
    )
    pairs = [(a, b) for a in VALUES[first] for b in VALUES[second]]
    base = VALUES[first][0], VALUES[second][0], False
    has_deletes = "date" not in (first, second)  # Hudi 1.2.0 cannot read its own
    keys = [f"{kind}{number}" for kind in ("put", "delete", "both", "gone", "last") for number in range(len(pairs))]
    write_ordered(spark, [table], dict.fromkeys(keys, base), "base")
    changed = {f"put{number}": (*pair, False) for number, pair in enumerate(pairs)}
    changed |= {f"both{number}": (*pairs[1], False) for number in range(len(pairs))}
    write_ordered(spark, [table], changed, "changed")
    if has_deletes:
        deleted = {f"{kind}{number}": (*pair, True) for kind in ("delete", "both") for number, pair in enumerate(pairs)}
        write_ordered(spark, [table], deleted, "deleted")
    by_key = ", ".join(f"('gone{number}', {a}, {b})" for number, (a, b) in enumerate(pairs))
    table.write(
        spark.sql(f"SELECT *, 'x' AS v, false AS _hoodie_is_deleted FROM VALUES {by_key} AS t(id, a, b)"), "delete"
    )
    write_ordered(spark, [table], {"gone0": (*pairs[-1], False), "gone1": base}, "again")
    before = table.snapshot()
    assert ('"v":"changed"' in str(before)) and len(before) < len(keys)

    _, outputs = log_compact(table.path)

    kinds = [block.type for each in outputs for block in blocks_of(table, each.file_name)]
    assert kinds.count(BlockType.DELETE) == 1 + has_deletes, "deletes without ordering values, and with"
    assert table.snapshot() == before
    write_ordered(spark, [table], {f"last{number}": (*pair, False) for number, pair in enumerate(pairs)}, "last")
    twin = compacted_twin(table, tmp_path / "twin")
    both = [table, twin]
    write_ordered(spark, both, {f"put{number}": (*pair, has_deletes) for number, pair in enumerate(pairs)}, "more")
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    table.compact()
    assert table.snapshot(with_meta=False) == table.read_optimized(with_meta=False) == twin.snapshot(with_meta=False)


WITHOUT_KEYS = {"hoodie.populate.meta.fields": "false"}
WITH_METADATA = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}

KEYLESS = {
    "non-partitioned": TableShape(options=WITHOUT_KEYS),
    "simple, by commit time, with a metadata table": TableShape(
        partition_fields="part",
        ordering_fields="",
        merge_mode="COMMIT_TIME_ORDERING",
        options=WITHOUT_KEYS | WITH_METADATA,
    ),
    "complex": TableShape(partition_fields="part", key_fields="id,n", log_format="parquet", options=WITHOUT_KEYS),
    "numbers as keys, in buckets": TableShape(key_fields="n", index="BUCKET", options=WITHOUT_KEYS),
}


def keyless_rows(spark: SparkSession, *values: tuple[str, str, int, str, int]) -> DataFrame:
    return spark.sql(
        "SELECT id, part, CAST(ts AS bigint) ts, name, CAST(n AS int) n FROM VALUES "
        + ", ".join(map(str, values))
        + " AS t(id, part, ts, name, n)"
    )


@pytest.mark.wide
@pytest.mark.parametrize("name", KEYLESS)
def test_rows_without_keys(spark: SparkSession, tmp_path: Path, name: str):
    """Upserts and deletes over files of Spark's row writer and of the Avro writer; FULL, then LOG over our base file,
    and FULL over both. Hudi's own compaction of a copy gives the same, and its upserts find every key."""
    table = HudiTable(spark, tmp_path / "table", KEYLESS[name])
    bulk = KEYLESS[name].index != "BUCKET"
    first = [(key, "pq"[number % 2], 10, f"first {key}", number) for number, key in enumerate("abcdefgh")]
    table.write(keyless_rows(spark, *first), "bulk_insert" if bulk else "insert")
    table.write(
        keyless_rows(spark, ("a", "p", 11, "later", 0), ("x", "p", 10, "new", 20), ("b", "q", 9, "late", 1)), "upsert"
    )
    table.write(keyless_rows(spark, ("c", "p", 12, "", 2)), "delete")
    twin = compacted_twin(table, tmp_path / "twin")
    for file in table.path.rglob("*.parquet"):
        if ".hoodie" not in file.parts:
            assert set(pq.read_table(file).column("_hoodie_record_key").to_pylist()) <= {None, ""}
    for tick in (13, 14):
        for each in (table, twin):
            each.write(keyless_rows(spark, ("a", "p", tick, "again", 0), ("d", "q", tick, "again", 3)), "upsert")
            each.write(keyless_rows(spark, ("e", "p", tick, "", 4)), "delete")
    before = table.snapshot()
    assert before == twin.snapshot()
    assert len([row for row in before if '"id":"a"' in row]) == 1

    code, result = lakeward("compact", str(table.path), "--type", "log", "--writers", "stopped")
    assert code == 0, result
    assert table.snapshot() == before
    table.write(keyless_rows(spark, ("a", "p", 15, "behind", 0)), "upsert")
    before = table.snapshot()
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    code, result = lakeward("verify", str(table.path))
    assert code == 0, result
    table.write(keyless_rows(spark, ("a", "p", 16, "at last", 0)), "upsert")
    before = table.snapshot()
    table.compact()
    assert table.snapshot() == before


COLUMNS = {"name": "string", "n": "int", "x": "double", "inner": "struct<a:int,b:string>"}
OPTIONS = {"hoodie.metadata.enable": "false", "hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}


def merge_into(spark: SparkSession, names: list[str], chance: random.Random, tick: int) -> None:
    """Update some columns of some rows: values and nulls, early and late."""
    # In the table's order, as people write them.
    chosen = sorted(chance.sample(list(COLUMNS), chance.choice([1, 2])), key=list(COLUMNS).index)
    rows = []
    for key in chance.sample("abcdefghijklmnop", 8):
        values = {
            "name": f"'{key}{tick}'",
            "n": f"{tick}",
            "x": f"{tick}.5D",
            "inner": f"named_struct('a', {tick}, 'b', CAST(NULL AS string))",
        }
        of_row = [f"'{key}' AS id", f"{chance.choice([tick - 3, tick, tick + 2])}L AS ts"]
        of_row += [
            f"CAST({'NULL' if chance.random() < 0.3 else values[column]} AS {COLUMNS[column]}) AS {column}"
            for column in chosen
        ]
        rows.append(f"SELECT {', '.join(of_row)}")
    assigned = ", ".join(f"{column} = s.{column}" for column in ("ts", *chosen))
    for name in names:
        spark.sql(
            f"MERGE INTO {name} t USING ({' UNION ALL '.join(rows)}) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET {assigned}"
        )


@pytest.mark.wide
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_blocks_of_some_columns(spark: SparkSession, tmp_path: Path, mode: str, log_format: str):
    """Partial rows over a base file, over one another, over and under full rows, under deletes; FULL twice, the second
    time over a base file of Lakeward, beside a copy that Hudi compacts."""
    chance = random.Random(f"{mode} {log_format}")
    own, hudis = (f"{each}_{mode[:5]}_{log_format}".lower() for each in ("own", "hudis"))
    spark.sql(f"SET hoodie.logfile.data.block.format={log_format}")
    spark.sql("SET hoodie.spark.sql.merge.into.partial.updates=true")
    # Where it writes a small base file again, 1.2.0 puts such rows into the places of whole ones, or fails.
    spark.sql("SET hoodie.parquet.small.file.limit=0")
    ordered = "preCombineField = 'ts', " if mode[0] == "E" else ""
    properties = f"type = 'mor', primaryKey = 'id', {ordered}'hoodie.record.merge.mode' = '{mode}', " + ", ".join(
        f"'{name}' = '{value}'" for name, value in OPTIONS.items()
    )
    columns = ", ".join(f"{name} {kind}" for name, kind in {"id": "string", "ts": "bigint", **COLUMNS}.items())
    shape = TableShape(ordering_fields="ts" if mode[0] == "E" else "", merge_mode=mode, log_format=log_format, name=own)
    table = HudiTable(spark, tmp_path / own, shape)
    try:
        spark.sql(f"CREATE TABLE {own} ({columns}) USING hudi TBLPROPERTIES ({properties}) LOCATION '{table.path}'")
        first = ", ".join(
            f"('{key}', 10, '{key}', 1, 1.0, named_struct('a', 1, 'b', '{key}'))" for key in "abcdefghijklmnop"
        )
        spark.sql(f"INSERT INTO {own} VALUES {first}")
        for tick in (11, 12):
            merge_into(spark, [own], chance, tick)
        spark.sql(f"UPDATE {own} SET name = 'whole', ts = 13 WHERE id IN ('c', 'd', 'e')")
        for tick in (14, 15):
            merge_into(spark, [own], chance, tick)
        spark.sql(f"DELETE FROM {own} WHERE id IN ('a', 'b', 'c')")
        before = table.snapshot()
        twin = table.copy_to(tmp_path / hudis)

        code, plan = lakeward("explain", str(table.path), "--type", "log")
        assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
        compact(table)
        hudi_compacts(twin)

        assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
        spark.sql(f"CREATE TABLE {hudis} USING hudi LOCATION '{twin.path}'")
        for tick in (17, 18, 19):
            merge_into(spark, [own, hudis], chance, tick)
        before = table.snapshot()
        assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
        code, result = lakeward("verify", str(table.path))
        assert code == 0, result
        compact(table)
        assert table.snapshot() == table.read_optimized() == before
    finally:
        spark.sql("RESET hoodie.logfile.data.block.format")
        spark.sql("RESET hoodie.spark.sql.merge.into.partial.updates")
        spark.sql("RESET hoodie.parquet.small.file.limit")
        for name in (own, hudis):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


UNAVAILABLE = "__debezium_unavailable_value"

PAYLOADS = {
    "OverwriteNonDefaultsWithLatestAvroPayload": "",
    "PartialUpdateAvroPayload": "ts",
    "debezium.PostgresDebeziumAvroPayload": "_event_lsn",
}
"""Payload classes, and what orders their tables."""


def write_parts(
    spark: SparkSession, tables: list[HudiTable], chance: random.Random, tick: int, keys: str, operation: str = "upsert"
) -> None:
    """A row for each key: some values missing or unavailable, early and late, and some deleted where a mark says so."""
    rows = []
    for key in keys:
        of_row = [f"'{key}'", f"{chance.choice([tick - 3, tick, tick + 2])}L"]
        of_row += [chance.choice(["NULL", f"'{UNAVAILABLE}'", f"'{tick}{column}'"]) for column in "ab"]
        of_row.append(chance.choice(["NULL", f"{tick}"]))
        of_row.append(chance.choice(["NULL", f"array({tick})"]))
        of_row.append(chance.choice(["NULL", f"named_struct('x', {tick}, 'y', CAST(NULL AS int))"]))
        of_row.append("'d'" if operation == "upsert" and chance.random() < 0.15 else "'u'")
        rows.append(f"({', '.join(of_row)})")
    columns = ("id", "n", "a", "b", "number", "list", "inner", "_change_operation_type")
    for table in tables:
        order = table.shape.ordering_fields or "ts"
        frame = spark.sql(
            f"SELECT id, n AS {order}, CAST(a AS string) a, CAST(b AS string) b, CAST(number AS int) number, "
            "CAST(list AS array<int>) list, CAST(inner AS struct<x:int,y:int>) inner, _change_operation_type "
            f"FROM VALUES {', '.join(rows)} AS t({', '.join(columns)})"
        )
        table.write(frame, operation)


@pytest.mark.wide
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_rows_that_are_filled(spark: SparkSession, tmp_path: Path, payload: str, log_format: str):
    """Random rows and deletes of a few keys; FULL twice, the second time over a base file of Lakeward, and Hudi goes
    on.
    """
    chance = random.Random(payload)
    shape = TableShape(
        ordering_fields=PAYLOADS[payload],
        merge_mode="",
        log_format=log_format,
        options={PAYLOAD: f"{PACKAGE}{payload}"},
    )
    table = HudiTable(spark, tmp_path / "table", shape)
    keys = "abcdefghijklmnopqrstuvwxyz"
    write_parts(spark, [table], chance, 10, keys, "insert")
    for tick in (11, 12, 13):
        write_parts(spark, [table], chance, tick, "".join(chance.sample(keys + keys.upper(), 24)))
        if tick == 12:
            table.write(
                table.frame().limit(3).drop(*[name for name in table.frame().columns if "hoodie" in name]), "delete"
            )
    twin = compacted_twin(table, tmp_path / "twin")
    both = [table, twin]
    for tick in (14, 15):
        state = chance.getstate()
        for each in both:
            chance.setstate(state)
            write_parts(spark, [each], chance, tick, "".join(chance.sample(keys + keys.upper(), 24)))
    before = table.snapshot()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    code, plan = lakeward("explain", str(table.path), "--type", "log")
    assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
    compact(table)
    assert table.snapshot() == table.read_optimized() == before
    table.compact() if table.pending_instants() else None


BASE = [
    ("a", 1, "a1"),
    ("k", 5, "k5"),
    ("b", 1, "b1"),
    ("k", 3, "k3"),
    ("t", 5, "t5"),
    ("k", 9, "k9"),
    ("t", 7, "t7"),
    ("u", 1, "u1"),
    ("u", 2, "u2"),
]
EVENT, COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def rows_of_values(spark: SparkSession, *values: tuple[str, int, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id string, ts long, v string").coalesce(1)


def table_of(spark: SparkSession, path: Path, mode: str, kind: str = "MERGE_ON_READ") -> HudiTable:
    ordering = "ts" if mode == EVENT else ""
    options = {"hoodie.datasource.write.table.type": kind}
    table = HudiTable(spark, path, TableShape(merge_mode=mode, ordering_fields=ordering, options=options))
    table.write(rows_of_values(spark, *BASE), "insert")
    return table


def in_file_order(table: HudiTable) -> list[tuple[str, str, str]]:
    """Key, sequence number and value of each row of the newest base file."""
    newest = max(table.path.glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    columns = ["_hoodie_record_key", "_hoodie_commit_seqno", "v"]
    found = pq.read_table(newest, columns=columns, partitioning=None).to_pylist()
    return [(row["_hoodie_record_key"], row["_hoodie_commit_seqno"], row["v"]) for row in found]


@pytest.mark.turns
@pytest.mark.parametrize("places", [True, False], ids=["by places", "by keys"])
@pytest.mark.parametrize("mode", [EVENT, pytest.param(COMMIT, marks=pytest.mark.wide)])
def test_compaction_comes_to_hudis_rows(spark: SparkSession, tmp_path: Path, mode: str, places: bool) -> None:
    """FULL leaves what queries showed, row by row in the order of Hudi's compaction of a copy; then Hudi goes on."""
    table = table_of(spark, tmp_path / "table", mode)
    named = {"hoodie.write.record.positions": str(places).lower()}
    table.write(rows_of_values(spark, ("k", 6, "new6"), ("b", 4, "b4")), "upsert", **named)
    table.write(rows_of_values(spark, ("t", 0, "")), "delete", **named)
    before = table.snapshot()
    assert ('"id":"t"' in "".join(before)) != places
    twin = table.copy_to(tmp_path / "twin")
    twin.compact()
    compact(table)
    assert table.snapshot() == twin.snapshot() == before
    assert in_file_order(table) == in_file_order(twin)
    for each in (table, twin):
        each.write(rows_of_values(spark, ("k", 20, "again"), ("n", 1, "n")), "upsert", **named)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    lakeward("verify", str(table.path), "--sample", "10")
    compact(table)
    twin.compact()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)


@pytest.mark.wide
@pytest.mark.parametrize("mode", [EVENT, COMMIT])
def test_writes_come_to_hudis_rows(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Copy-on-write: an upsert and a delete of Lakeward reach the first of the rows, as Hudi's do on a copy."""
    table = table_of(spark, tmp_path / "table", mode, "COPY_ON_WRITE")
    twin = table.copy_to(tmp_path / "twin")
    twin.write(
        rows_of_values(spark, ("k", 6, "new6"), ("n", 1, "n")),
        "upsert",
        **{"hoodie.parquet.small.file.limit": "1000000"},
    )
    twin.write(rows_of_values(spark, ("t", 0, "")), "delete")
    for name, operation, values in (
        ("up", "upsert", [("k", 6, "new6"), ("n", 1, "n")]),
        ("de", "delete", [("t", 0, "")]),
    ):
        source = tmp_path / f"{name}.jsonl"
        source.write_text("".join(f'{{"id": "{key}", "ts": {ts}, "v": "{v}"}}\n' for key, ts, v in values))
        options = ["--input", str(source), "--operation", operation, "--writers", "stopped", "--index", "simple"]
        lakeward("write", str(table.path), *options)
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    assert [key for key, *_ in in_file_order(table)] == [key for key, *_ in in_file_order(twin)]


CHANGELOG = {"hoodie.allow.operation.metadata.field": "true", "hoodie.combine.before.upsert": "false"}
SCHEMA = schema(maybe("name", "string"))


def changes(*given: tuple[str, str, int, str], part: str = "") -> list[dict[str, object]]:
    return [
        {"id": key, "part": part, "ts": ts, "name": name, "operation": operation} for operation, key, ts, name in given
    ]


@pytest.mark.wide
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_rows_with_their_kind_of_change(spark: SparkSession, tmp_path: Path, mode: str, log_format: str):
    """Updates, deletes and what was before an update, in time and late, over a base file of another writer; FULL twice,
    the second time over a base file of Lakeward. A writer that keeps the column compacts a copy to the same."""
    ordering = "ts" if mode[0] == "E" else ""
    shape = TableShape(ordering_fields=ordering, merge_mode=mode, log_format=log_format, options=CHANGELOG)
    table = HudiTable(spark, tmp_path / "table", shape)
    table.write(
        spark.sql("SELECT id, '' part, 10L ts, id name FROM VALUES ('a'), ('b'), ('c'), ('d') AS t(id)"), "bulk_insert"
    )
    first = changes(("U", "a", 11, "A1"), ("D", "b", 11, "B1"), ("-U", "c", 11, "C1"), ("D", "d", 9, "late"))
    second = changes(("-U", "a", 11, "A1"), ("U", "a", 12, "A2"), ("I", "b", 8, "again"), ("I", "e", 1, "new"))
    for rows in (first, second):
        write_records(spark, table, SCHEMA, rows, "upsert")
    before = table.snapshot()
    assert '"_hoodie_operation":"U"' in "".join(before)
    twin = table.copy_to(tmp_path / "twin")
    with hudi_client(spark, twin, SCHEMA, **{"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        instant = client.scheduleCompaction(spark._jvm.org.apache.hudi.common.util.Option.empty()).get()  # type: ignore[union-attr]
        client.compact(instant, True)

    code, plan = lakeward("explain", str(table.path), "--type", "log")
    assert code == 0 and '"choice": "LOG"' not in str(plan).replace("'", '"'), plan
    compact(table)

    assert table.snapshot() == table.read_optimized() == twin.snapshot() == before
    for each in (table, twin):
        write_records(spark, each, SCHEMA, changes(("D", "a", 13, "A3"), ("U", "e", 2, "newer")), "upsert")
    before = table.snapshot()
    assert table.snapshot(with_meta=False) == twin.snapshot(with_meta=False)
    code, result = lakeward("verify", str(table.path))
    assert code == 0, result
    compact(table)
    assert table.snapshot() == table.read_optimized() == before


@pytest.mark.wide
def test_the_newest_file_says_what_queries_heed(spark: SparkSession, tmp_path: Path):
    """After an update without the column queries show what is marked as deleted in other file groups: FULL takes that
    of the update alone, and they still do. After marks over another such update they fail on it: FULL takes the others,
    and behind one more update without the column what was marked stays deleted, also when Hudi compacts."""
    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part"))
    for part in "pqr":
        table.write(spark.sql(f"SELECT '{part}1' id, '{part}' part, 10L ts, 'first' name"), "bulk_insert")

    def write(operation: str, part: str, ts: int, **options: str) -> None:
        rows = changes((operation, f"{part}1", ts, f"{operation}{ts}"), part=part)
        write_records(spark, table, SCHEMA, rows, "upsert", **options)

    def left_out() -> list[str]:
        return [each["partition"] for each in compact(table)["decisions"] if each["reason"] == "unsupported-logs"]

    write("D", "r", 11, **CHANGELOG)
    write("U", "p", 11, **CHANGELOG)
    assert len(table.snapshot()) == 2
    write("U", "q", 11)
    before = table.snapshot()
    assert len(before) == 3
    assert left_out() == ["p", "r"]
    assert table.snapshot() == before

    write("U", "q", 12)
    write("U", "p", 12, **CHANGELOG)
    with pytest.raises(Py4JError, match="NullPointerException"):
        table.snapshot()
    assert left_out() == ["q"]
    write("U", "q", 13)
    before = table.snapshot()
    assert sorted(row["name"] for row in table.frame().collect()) == ["U12", "U13"]
    hudi_compacts(table)
    assert table.snapshot() == before
