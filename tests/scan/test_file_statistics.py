"""File slices that are passed over by column statistics: never one with a row that is chosen."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from random import Random, randrange
from typing import Any

import pyarrow as pa
import pytest

import lakeward
from lakeward.base.clock import SystemClock
from lakeward.base.errors import BrokenFile
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.metadata.record import ColumnStatsRecord
from lakeward.format.parquet.row_groups import ValueRange
from lakeward.format.stats.stats_value import ValueKind, ValueType, Wrapper
from lakeward.scan import file_statistics, table_scan
from lakeward.scan.file_statistics import by_statistics, file_range
from lakeward.scan.scan_plan import plan_scan
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.snapshot import SchemaHistory
from lakeward.table.table_config import TableConfig
from tests.write.writing import new_table, rows_of, write

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("n", pa.int32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("fare", pa.float64()),
        ("text", pa.string()),
    ]
)
DAYS = [date(1969, 12, 30), date(1970, 1, 1), date(2026, 1, 31)]


def rows(chance: Random, keys: range, ts: int) -> pa.RecordBatch:
    """Rows of a few values each, so that files differ; a part of them null."""
    level = chance.randrange(3)

    def made(number: int) -> tuple[object, ...]:
        values: list[Any] = [
            level * 10 + chance.randrange(3),
            DAYS[level],
            level * 1_000_000 - 1 + chance.randrange(3),
            chance.choice([float("nan"), -0.0, 1.5]),
            "x" * chance.choice([0, 5000]) + "abc"[level],
        ]
        values = [None if chance.random() < 0.3 else value for value in values]
        return (f"k{number}", ts, "pqr"[number % 3], *values)

    return rows_of([made(number) for number in keys], COLUMNS)


def table_by_chance(path: Path, chance: Random) -> Path:
    table = new_table(path, schema=schema_text(COLUMNS, "t"), version=chance.choice([8, 9, 10]))
    for ts in range(1, 2 + chance.randrange(5)):
        first = chance.randrange(20)
        operation = chance.choice(["upsert", "upsert", "delete"]) if ts > 1 else "upsert"
        write(table, rows(chance, range(first, first + 1 + chance.randrange(12)), ts), operation)
    return table


def words(chance: Random, depth: int = 0) -> str:
    if depth < 2 and chance.random() < 0.4:
        joined = f"{words(chance, depth + 1)} {chance.choice(['and', 'or'])} {words(chance, depth + 1)}"
        return f"{chance.choice(['', 'not '])}({joined})"
    column = chance.choice(["ts", "n", "n", "day", "at", "fare", "text"])
    values = {
        "ts": ["1", "3", "99"],
        "n": ["0", "1.5", "11", "22", "-5"],
        "day": [f"'{day}'" for day in DAYS],
        "at": ["'1969-12-31T23:59:59.999999'", "'1970-01-01T00:00:01'", "'1970-01-01T00:00:02.000001'"],
        "fare": ["0", "1.5", "2"],
        "text": ["'a'", "'b'", "'zzz'"],
    }[column]
    one, other = chance.choice(values), chance.choice(values)
    return chance.choice(
        [
            f"{column} {chance.choice(['=', '!=', '<', '<=', '>', '>='])} {one}",
            f"{column} in ({one}, {other})",
            f"{column} between {one} and {other}",
            f"{column} is {chance.choice(['', 'not '])}null",
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("run", range(4))
def test_a_scan_gives_what_one_without_statistics_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    """Keeps 1 of scan/file_statistics, over tables and filters by chance. LAKEWARD_SEED repeats."""
    seed = int(os.environ.get("LAKEWARD_SEED", randrange(2**32))) + run
    print(f"LAKEWARD_SEED={seed}")
    chance = Random(seed)
    monkeypatch.setattr(file_statistics, "WORTH_SLICES_MIN", 1)
    table = lakeward.Table(str(table_by_chance(tmp_path / "t", chance)), timezone="UTC")
    filters = [words(chance) for _ in range(40)]
    optimized = [chance.random() < 0.3 for _ in filters]
    pairs = list(zip(filters, optimized, strict=True))

    def answer(text: str, only: bool) -> str:
        return str(table.scan(where=text, read_optimized=only).to_arrow().to_pylist())  # where NaN is itself

    found = [answer(*pair) for pair in pairs]
    monkeypatch.setattr(table_scan, "by_statistics", lambda storage, snapshot, where, plan, *, clock: plan)
    for pair, rows_found in zip(pairs, found, strict=True):
        assert rows_found == answer(*pair), pair


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    """Two file groups with a base file and a log; n is 1 and 5 in the one, 11 and 15 in the other, of which the log has
    the greater."""
    table = new_table(tmp_path / "t", schema=schema_text(COLUMNS, "t"))
    nothing = (None, None, None, None)
    write(table, rows_of([("a", 1, "p", 1, *nothing), ("b", 1, "q", 11, *nothing)], COLUMNS))
    write(table, rows_of([("a", 2, "p", 5, *nothing), ("b", 2, "q", 15, *nothing)], COLUMNS))
    return table


def passed_over(table: Path, where: str) -> int:
    return table_scan_of(table, where).plan.groups_by_statistics


def table_scan_of(table: Path, where: str) -> table_scan.TableScan:
    scan = lakeward.Table(str(table)).scan(where=where)._scan
    assert isinstance(scan, table_scan.TableScan)
    return scan


@pytest.mark.parametrize(
    ("where", "passed"),
    [
        ("n = 5", 1),
        ("n = 11", 1),  # a version of the row has it, and it is not known without reading which one is newest
        ("n = 8", 2),
        ("n > 15 or ts > 2", 2),
        ("n > 0", 0),
        ("n is null", 0),
        ("day is not null", 0),
        ("text = 'none'", 0),
    ],
)
def test_the_range_of_a_slice_is_that_of_base_and_logs(merged: Path, where: str, passed: int) -> None:
    assert passed_over(merged, where) == passed


def test_logs_that_grow_are_read(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below version 8 a log may have more blocks by now than its record is of."""
    before, since = (TableConfig({"hoodie.table.version": version}).layout for version in ("6", "8"))
    assert before < file_statistics._COMMIT_LAYOUT <= since
    monkeypatch.setattr(file_statistics, "_COMMIT_LAYOUT", 3)
    assert passed_over(merged, "n = 8") == 0


def test_names_of_columns_that_changed_are_not_asked_for(merged: Path) -> None:
    """With schema on read the statistics of a name may be of another column."""
    scan = table_scan_of(merged, "n = 8")
    evolved = replace(scan.snapshot, schema_history=SchemaHistory())
    plan = plan_scan(scan.snapshot, scan.query)
    assert by_statistics(scan.storage, evolved, scan.query.where, plan, clock=SystemClock()) == plan
    assert by_statistics(scan.storage, scan.snapshot, scan.query.where, plan, clock=SystemClock()).slices == ()


def test_statistics_that_cannot_be_read_pass_nothing_over(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of scan/file_statistics."""

    def broken(*_: object, **__: object) -> None:
        raise BrokenFile("It is broken.", why="For the test.", remedy="None.")

    monkeypatch.setattr(file_statistics, "load_metadata_table", broken)
    assert passed_over(merged, "n = 8") == 0


def test_a_file_that_the_metadata_table_does_not_know_is_read(merged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer did not keep the metadata table in step."""
    lookup = MetadataReader.lookup

    def without_one(*given: Any, **named: Any) -> Any:
        found = lookup(*given, **named)
        return dict(list(found.items())[:1])

    monkeypatch.setattr(MetadataReader, "lookup", without_one)
    assert passed_over(merged, "n = 8") == 0  # each group lacks one of its two files


KNOWN = ColumnStatsRecord(
    file_name="f",
    column="n",
    min_value=3,
    max_value=7,
    value_count=10,
    null_count=2,
    total_size=0,
    total_uncompressed_size=0,
    value_type=ValueType(ValueKind.INT),
)
OF_1 = replace(KNOWN, value_type=None, wrapper=Wrapper.INT)
UTC = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (KNOWN, pa.int32()),
        (KNOWN, pa.int64()),
        (OF_1, pa.int32()),
        (replace(OF_1, wrapper=Wrapper.LONG), pa.int64()),
        (replace(OF_1, wrapper=Wrapper.DATE), pa.date32()),
        (replace(KNOWN, value_type=ValueType(ValueKind.DATE)), pa.date32()),
        (replace(KNOWN, value_type=ValueType(ValueKind.TIMESTAMP_MICROS)), UTC),
        (replace(KNOWN, value_type=ValueType(ValueKind.LOCAL_TIMESTAMP_MICROS)), pa.timestamp("us")),
    ],
)
def test_ranges_that_are_certain(record: ColumnStatsRecord, kind: pa.DataType) -> None:
    assert file_range(record, kind, is_base=True) == (ValueRange(3, 7),)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (None, pa.int32()),
        (replace(KNOWN, is_deleted=True), pa.int32()),
        (replace(KNOWN, value_type=ValueType(ValueKind.LONG)), pa.int32()),
        (replace(KNOWN, null_count=None), pa.int32()),
        (replace(KNOWN, value_count=None), pa.int32()),
        (replace(KNOWN, min_value=None), pa.int32()),
        (replace(KNOWN, min_value=8), pa.int32()),
        (replace(KNOWN, min_value=3.0), pa.int32()),
        (replace(KNOWN, null_count=10), pa.int32()),  # a column chunk without statistics is said to be of nulls
        (replace(KNOWN, null_count=10, min_value=None, max_value=None), pa.int32()),
        (replace(KNOWN, value_type=ValueType(ValueKind.TIMESTAMP_MILLIS)), UTC),
        (replace(KNOWN, value_type=ValueType(ValueKind.LOCAL_TIMESTAMP_MICROS)), UTC),
        (replace(OF_1, wrapper=Wrapper.LONG), UTC),
        (replace(OF_1, wrapper=Wrapper.TIMESTAMP_MICROS), UTC),
        (KNOWN, pa.date32()),
    ],
)
def test_of_others_nothing_is_believed(record: ColumnStatsRecord | None, kind: pa.DataType) -> None:
    assert file_range(record, kind, is_base=True) == ()


def test_a_log_of_nulls_has_no_value() -> None:
    """Its writer saw each of them; as for a base file, nothing is believed where it says a range, too."""
    nulls = replace(KNOWN, null_count=10, min_value=None, max_value=None, value_type=ValueType(ValueKind.NULL))
    assert file_range(nulls, pa.int32(), is_base=False) == (None,)
    assert file_range(replace(KNOWN, null_count=10), pa.int32(), is_base=False) == ()
