"""The life of one table of the interop suite: random rows, and the writes that real Hudi makes of them.

Each write goes to the table and to the model, from the same rows. A story is played once before the compaction that is
judged (`begin`), and goes on after it (`go_on`), possibly on a second copy of the table.

Touches: what `HudiTable` touches.
Keeps:   1. equal case and seed, equal rows;
         2. the story holds what the case says, and always: late and tied updates, new keys, hard deletes, a null in
            every nullable column, and a partition (or, unpartitioned, some keys) deleted whole; and updates after a
            delete, but where there is a record index, since Hudi 1.2.0's forgets such keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakeward.format.supplemental_logging import SUPPLEMENTAL_LOGGING
from lakeward.table.table_config import CDC_ENABLED
from tests.hudi.model import MARK, MARK_COLUMN, SOFT_DELETE_COLUMN, Row, TableModel
from tests.hudi.table import HudiTable, Rows, TableShape
from tests.interop.cases import BLOOMS, CHANGES, METADATA, RECORD_INDEX, Case

PARTITIONS = {
    "flat": ("p",),
    "hive": ("a", "b", "gone"),
    "encoded": ("x y", "a/b=ü", "gone"),
    "nested": ("p1", "p1/x", "gone"),
}
DOOMED_PARTITION = "gone"

LAYOUTS = {
    "flat": {"partition_fields": ""},
    "hive": {"partition_fields": "part", "hive_style": True},
    "encoded": {"partition_fields": "part", "url_encode": True},
    "nested": {"partition_fields": "part"},
}

EPOCH = datetime(2020, 1, 1, tzinfo=UTC)

# What an ordering value looks like at tick n, so that the values sort as the ticks do.
ORDERING_VALUES: dict[str, Callable[[int], Any]] = {
    "int": lambda n: n,
    "bigint": lambda n: n * 10_000_000_000,
    "float": lambda n: n + 0.5,
    "double": lambda n: n * 1.1,
    "decimal(10,2)": lambda n: Decimal(n) + Decimal("0.25"),
    "string": lambda n: f"ts-ü-{n:04}",
    "date": lambda n: date(1969, 12, 20) + timedelta(days=n),
    "timestamp": lambda n: EPOCH + timedelta(microseconds=n),
    "timestamp_ntz": lambda n: (EPOCH + timedelta(microseconds=n)).replace(tzinfo=None),
}

Random = random.Random

# Every type that Spark can put into a Hudi column, with values at its edges. Not there, because Hudi 1.2.0 itself
# cannot write or read it with default settings: tinyint, nulls inside an array, dates before the Gregorian calendar.
ALL_TYPES: dict[str, tuple[str, Callable[[Random], Any]]] = {
    "c_boolean": ("boolean", lambda r: r.random() < 0.5),
    "c_smallint": ("smallint", lambda r: r.choice([-32768, 32767, 5])),
    "c_int": ("int", lambda r: r.choice([-(2**31), 2**31 - 1, r.randrange(1000)])),
    "c_bigint": ("bigint", lambda r: r.choice([-(2**63), 2**63 - 1, r.randrange(1000)])),
    "c_float": ("float", lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("-inf"), 3.4028234663852886e38])),
    "c_double": ("double", lambda r: r.choice([0.0, -0.0, 0.1, float("nan"), float("inf"), 5e-324])),
    "c_decimal": ("decimal(10,2)", lambda r: Decimal(r.randrange(-(10**10) + 1, 10**10)) / 100),
    "c_wide_decimal": ("decimal(38,18)", lambda r: Decimal(r.randrange(-(10**30), 10**30)).scaleb(-18)),
    "c_string": ("string", lambda r: r.choice(["", "plain", "ünïcødé \U0001f30a", 'quo"te\\\n', "x" * 300])),
    "c_binary": ("binary", lambda r: r.choice([b"", b"\x00\xff", r.randbytes(20)])),
    "c_date": ("date", lambda r: r.choice([date(1600, 2, 29), date(1969, 12, 31), date(9999, 12, 31)])),
    "c_timestamp": ("timestamp", lambda r: EPOCH + timedelta(microseconds=r.randrange(-(10**15), 10**15))),
    "c_array": ("array<int>", lambda r: [r.choice([-1, 1, 2]) for _ in range(r.randrange(4))]),
    "c_map": ("map<string,bigint>", lambda r: {key: r.choice([None, 7]) for key in r.sample("abc", r.randrange(3))}),
    "c_struct": (
        "struct<a:int,b:array<string>,c:struct<d:date>>",
        lambda r: {"a": r.choice([None, 1]), "b": r.choice([None, [], ["q", ""]]), "c": {"d": date(2000, 2, 29)}},
    ),
    "c_array_of_struct": (
        "array<struct<k:string,v:decimal(5,1)>>",
        lambda r: [{"k": f"k{n}", "v": r.choice([None, Decimal("1.5")])} for n in range(r.randrange(3))],
    ),
}

# A type apart: hudi-rs 0.5 panics on every table that has it, so only some tables do, and the others keep both judges.
NTZ_TYPE: dict[str, tuple[str, Callable[[Random], Any]]] = {
    "c_timestamp_ntz": (
        "timestamp_ntz",
        lambda r: (EPOCH + timedelta(microseconds=r.randrange(-(10**15), 10**15))).replace(tzinfo=None),
    ),
}

FEW_TYPES: dict[str, tuple[str, Callable[[Random], Any]]] = {
    "value": ("string", lambda r: f"v{r.randrange(10**6)}"),
    "number": ("int", lambda r: r.randrange(-(2**31), 2**31)),
    "amount": ("double", lambda r: r.random()),
}

WIDER = {"c_int": "bigint", "number": "bigint"}
"""Columns that get another type where a schema evolves by more than a new column, and which. (Floats become doubles by
their digits in Hudi; `tests/hudi/evolved_table.py` has them, and all other types.)"""
DROPPED = ("c_date", "amount")
DROPPING = {"hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true"}

ODD_NAMES = {
    "value": "größe",
    "number": "n٣",
    "amount": "日本",
    "c_int": "_",
    "c_bigint": "x_ª",
    "c_string": "null",
    "c_struct": "A",
    "c_array_of_struct": "K",
    "added": "Ⴀ",
}
"""Names that Hudi takes, and how columns are called with them: two differ from what is inside of them in case alone."""

PAYLOADS = {
    "commit": "org.apache.hudi.common.model.OverwriteNonDefaultsWithLatestAvroPayload",
    "event": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
}
"""Payload classes that give a table partial updates, whose nulls are no values."""


class Story:
    """One table and its model. `case` and `seed` say everything about them."""

    def __init__(self, spark: SparkSession, path: Path, case: Case, seed: int = 0) -> None:
        self._spark = spark
        self.case = case
        self._random = random.Random(f"{case} {seed}")
        self._columns = {
            "id": "string",
            "sub": "int",
            "part": "string",
            "ts": case.ordering_type,
            **({"tb": "int"} if case.ordering == "several" else {}),
            **{name: kind for name, (kind, _) in self._payload().items()},
        }
        if case.deletes == "soft":
            self._columns[SOFT_DELETE_COLUMN] = "boolean"
        if case.deletes == "marked":
            self._columns[MARK_COLUMN] = "string"
        self._next_id = 0
        self._first: set[tuple[str, int]] = set()
        ordered_by = {"commit": (), "event": ("ts",), "several": ("ts", "tb")}[case.ordering]
        fills = case.merging == "filled"
        mode = "EVENT_TIME_ORDERING" if ordered_by else "COMMIT_TIME_ORDERING"
        self.table = HudiTable(
            spark,
            path,
            TableShape(
                name=path.name,
                merge_mode="" if fills else mode,
                ordering_fields=",".join(ordered_by),
                key_fields="id,sub" if case.keys == "composite" else "id",
                index="INMEMORY" if case.index == "MEMORY" else case.index,
                log_format=case.log_format,
                options={**METADATA[case.metadata], **self._by_kind(bool(ordered_by))},
                **LAYOUTS[case.layout],
            ),
        )
        self.model = TableModel(("part", "id", "sub"), ordered_by, fills)

    def _by_kind(self, by_value: bool) -> dict[str, str]:
        """The writers' options of partial updates, of an older version, and of changes that are captured."""
        options = {}
        if self.case.merging == "filled":
            options["hoodie.datasource.write.payload.class"] = PAYLOADS["event" if by_value else "commit"]
        if self.case.version != "9":
            options |= {"hoodie.write.table.version": self.case.version, "hoodie.write.auto.upgrade": "false"}
        if self.case.captures_changes:
            options |= {CDC_ENABLED: "true", SUPPLEMENTAL_LOGGING: CHANGES[self.case.changes]}
        return options

    def begin(self) -> None:
        """From nothing to a table with every kind of log in it, and the history that the case asks for."""
        partitions = PARTITIONS[self.case.layout]
        rows = [self._new_row(tick=10, part=part) for part in partitions for _ in range(36 // len(partitions))]
        self._first = {(row["id"], row["sub"]) for row in rows}
        self._write([self.table], rows, self.case.first, first=True)
        if self.case.deletes == "marked":
            self._say_what_marks_deletes()
        self._write([self.table], self._changes(sample=10, new=2, ticks=(9, 10, 10, 11)), "upsert")
        if self.case.history == "compacted":
            self.table.compact()
            self.model.compact()
        self._delete([self.table], self._doomed_rows())
        if self.case.history == "pending":
            self.table.schedule_compaction()
            self.model.schedule_compaction()
        options = self._evolve()
        rows = self._changes(sample=20, new=3, ticks=(8, 9, 10, 12, 13), soft_deletes=4)
        self._write([self.table], rows, "upsert", **options)

    def _say_what_marks_deletes(self) -> None:
        """The table's own properties, which writers and readers use."""
        properties = self.table.path / ".hoodie" / "hoodie.properties"
        prefix = "hoodie.record.merge.property.hoodie.payload.delete."
        properties.write_text(properties.read_text() + f"{prefix}field={MARK_COLUMN}\n{prefix}marker={MARK}\n")
        properties.with_name(".hoodie.properties.crc").unlink(missing_ok=True)

    def _evolve(self) -> dict[str, str]:
        """Another schema from here on. Returns what a writer must set for it."""
        if self.case.evolves == "no":
            return {}
        if self.case.evolves == "added":
            self._columns["added"] = "string"
            return {}
        kept = {name: WIDER.get(name, kind) for name, kind in self._columns.items() if name not in DROPPED}
        self._columns = {**kept, "added": "string"}
        return DROPPING

    def go_on(self, tables: list[HudiTable]) -> None:
        """Life goes on after a compaction: the same writes to each of these copies, then Hudi compacts them. What the
        metadata table has is what writers find keys by, and it is compacted at each write."""
        self.model.compact()
        if not self.case.is_readable:
            tables = [table.reshaped(log_format="avro") for table in tables]
        rows = self._changes(sample=12, new=3, ticks=(9, 12, 14), soft_deletes=2)
        by_record_index, by_blooms = self._by_indexes(tables)
        self._write(by_record_index, rows, "upsert")
        self._delete(by_blooms, self._random.sample(self.model.rows(), 3))
        for table in by_blooms:
            table.compact()

    def _by_indexes(self, tables: list[HudiTable]) -> tuple[list[HudiTable], list[HudiTable]]:
        """The same tables, twice: written to by the record index if there is one, and by bloom filters and ranges of
        keys of the metadata table if there are some."""
        had = METADATA[self.case.metadata]
        options = dict(tables[0].shape.options)
        options |= {"hoodie.metadata.compact.max.delta.commits": "1"} if had else {}
        has_blooms = BLOOMS.items() <= had.items()
        is_fixed = self.case.index == "BUCKET"  # where a key lies is in its hash
        by_blooms = [
            table.reshaped(index="BLOOM", options={**options, "hoodie.bloom.index.use.metadata": "true"})
            if has_blooms and not is_fixed
            else table.reshaped(options=options)
            for table in tables
        ]
        by_record_index = [table.reshaped(index="GLOBAL_RECORD_LEVEL_INDEX") for table in by_blooms]
        return (by_record_index if self._has_record_index() else by_blooms), by_blooms

    def write_on(self, tables: list[HudiTable]) -> None:
        """The same writes to each of these copies, and no compaction."""
        self._write(tables, self._changes(sample=12, new=2, ticks=(9, 11, 14), soft_deletes=2), "upsert")
        self._delete(tables, self._random.sample(self.model.rows(), 3))

    def expected(self) -> Rows:
        """The model's rows, formatted like those of `HudiTable.snapshot(with_meta=False)`."""
        return self.table.formatted(self._frame(self.model.rows()), with_meta=False)

    # Rows

    def _payload(self) -> dict[str, tuple[str, Callable[[Random], Any]]]:
        if self.case.columns == "few":
            return FEW_TYPES
        return ALL_TYPES | NTZ_TYPE if self.case.index == "MEMORY" else ALL_TYPES

    def _new_row(self, *, tick: int, part: str | None = None) -> Row:
        self._next_id += 1
        # A key lives in one partition for good: with a non-global index it would be two rows otherwise.
        parts = [name for name in PARTITIONS[self.case.layout] if name != DOOMED_PARTITION]
        key = {
            "id": f"{self.case.index}-ключ-{self._next_id // 2 if self._is_composite() else self._next_id}",
            "sub": self._next_id % 2,
            "part": part or self._random.choice(parts),
        }
        return self._filled(key, tick)

    def _has_record_index(self) -> bool:
        return RECORD_INDEX.items() <= METADATA[self.case.metadata].items()

    def _is_composite(self) -> bool:
        return self.case.keys == "composite"

    def _filled(self, key: Row, tick: int) -> Row:
        row = {
            **{name: key[name] for name in ("id", "sub", "part")},
            "ts": ORDERING_VALUES[self.case.ordering_type](tick),
        }
        if "tb" in self._columns:
            row["tb"] = self._random.randrange(3)
        for name, (_, value) in self._payload().items():
            row[name] = None if self._random.random() < 0.15 else value(self._random)
        if SOFT_DELETE_COLUMN in self._columns:
            row[SOFT_DELETE_COLUMN] = False
        if MARK_COLUMN in self._columns:
            row[MARK_COLUMN] = self._random.choice([None, "U"])
        if "added" in self._columns:
            row["added"] = self._random.choice([None, "added"])
        return row

    def _doomed_rows(self) -> list[Row]:
        """A whole partition where there are some, and a few of the first rows elsewhere: of a file group without rows
        Hudi keeps no statistics, and we then none of its partition (`format/metadata/partition_stats.py`)."""
        doomed = [row for row in self.model.rows() if row["part"] == DOOMED_PARTITION]
        others = [
            row
            for row in self.model.rows()
            if row["part"] != DOOMED_PARTITION and (row["id"], row["sub"]) in self._first
        ]
        return doomed + self._random.sample(others, 4)

    def _changes(self, *, sample: int, new: int, ticks: tuple[int, ...], soft_deletes: int = 0) -> list[Row]:
        """Updates of known keys at one of these ticks (deleted keys among them), some soft deletes, some inserts."""
        keys = self.model.known_keys()
        if self._has_record_index():
            keys = [(row["part"], row["id"], row["sub"]) for row in self.model.rows()]
        rows = [
            self._filled(dict(zip(("part", "id", "sub"), key, strict=True)), self._random.choice(ticks))
            for key in self._random.sample(keys, sample)
            if key[0] != DOOMED_PARTITION
        ]
        for name, says_so in ((SOFT_DELETE_COLUMN, True), (MARK_COLUMN, MARK)):
            if name in self._columns:
                for row in rows[:soft_deletes]:
                    row[name] = says_so
        return rows + [self._new_row(tick=max(ticks)) for _ in range(new)]

    # Writes

    def _write(
        self, tables: list[HudiTable], rows: list[Row], operation: str, *, first: bool = False, **options: str
    ) -> None:
        for table in tables:
            table.write(self._frame(rows), operation, **options)
        index = self.case.index
        self.model.upsert(rows, new_keys_go_to_logs=index == "MEMORY" or (index == "BUCKET" and not first))

    def _delete(self, tables: list[HudiTable], rows: list[Row]) -> None:
        for table in tables:
            table.write(self._frame(rows), "delete")
        self.model.delete(rows)

    def _frame(self, rows: list[Row]) -> DataFrame:
        called = ODD_NAMES if self.case.names == "odd" else {}
        schema = ", ".join(f"`{called.get(name, name)}` {kind}" for name, kind in self._columns.items())
        ordered = [tuple(row.get(name) for name in self._columns) for row in rows]
        return self._spark.createDataFrame(ordered, schema)
