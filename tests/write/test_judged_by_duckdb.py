"""Tables of version 10 that DuckDB reads: their files as they lie there, and their rows by SQL."""

from __future__ import annotations

import datetime
import os
import random
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.format.avro.schema_text import schema_text
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, LOG, compact
from tests.duckdb_judge import DuckDB
from tests.faults import FaultyStorage
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.write.writing import BUCKETS, new_table, write

SEED = int(os.environ.get("LAKEWARD_SEED", random.randrange(2**31)))
COLUMNS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("part", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("truth", pa.bool_()),
        pa.field("small", pa.int32()),
        pa.field("half", pa.float32()),
        pa.field("real", pa.float64()),
        pa.field("price", pa.decimal128(12, 3)),
        pa.field("large", pa.decimal128(38, 6)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
        pa.field("raw", pa.binary()),
        pa.field("inner", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.struct([("d", pa.decimal128(5, 1))])))])),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("counts", pa.map_(pa.string(), pa.int64())),
        pa.field("_hoodie_is_deleted", pa.bool_()),
    ]
)
TYPES = {
    "ts": "BIGINT",
    "truth": "BOOLEAN",
    "_hoodie_is_deleted": "BOOLEAN",
    "small": "INTEGER",
    "half": "FLOAT",
    "real": "DOUBLE",
    "price": "DECIMAL(12,3)",
    "large": "DECIMAL(38,6)",
    "day": "DATE",
    "at": "TIMESTAMP WITH TIME ZONE",
    "local": "TIMESTAMP",
    "raw": "BLOB",
    "inner": "STRUCT(a INTEGER, b STRUCT(d DECIMAL(5,1))[])",
    "tags": "VARCHAR[]",
    "counts": "MAP(VARCHAR, BIGINT)",
}
"""In DuckDB's words; all else is text."""
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
KEYS = [*(f"k{number}" for number in range(12)), "ü", "\uffff", "\U0001f600"]
"""One of the last two is the greater by its bytes, and the other as UTF-16."""


def a_row(key: str, ts: int, number: int, *, is_deleted: bool = False) -> dict[str, Any]:
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999) + datetime.timedelta(hours=number)
    return {
        "id": key,
        "part": f"p{KEYS.index(key) % 2}",
        "ts": ts,
        "truth": number % 3 == 0 if number % 4 else None,
        "small": -number,
        "half": number / 4,
        "real": -number / 3,
        "price": Decimal(-number).scaleb(-3) if number % 5 else None,
        "large": Decimal(10**20 + number).scaleb(-6),
        "day": moment.date(),
        "at": moment.replace(tzinfo=datetime.UTC),
        "local": moment,
        "raw": bytes([number % 256, 0, 255]),
        "inner": {"a": number, "b": [{"d": Decimal(number).scaleb(-1)}, {"d": None}]} if number % 2 else None,
        "tags": [key, "", None][: number % 4],
        "counts": [("x", number), ("y", None)][: number % 3],
        "_hoodie_is_deleted": is_deleted,
    }


class Story:
    """One table and what happens to it, by chance."""

    def __init__(self, path: Path, chance: random.Random, *, by_event_time: bool, is_lsm: bool) -> None:
        self.base = new_table(
            path,
            version=10,
            schema=schema_text(COLUMNS, "t"),
            ordering_fields=("ts",) if by_event_time else (),
            is_lsm_tree=is_lsm,
        )
        self._chance = chance
        self._clock = SkippingClock()
        self._numbers = count(1)

    def upsert(self) -> None:
        """Some of the rows are deletes, with their ordering values."""
        chance = self._chance
        rows = [
            a_row(key, chance.randint(0, 6), next(self._numbers), is_deleted=chance.random() < 0.3)
            for key in self._some()
        ]
        write(self.base, pa.RecordBatch.from_pylist(rows, COLUMNS), clock=self._clock, **BUCKETS)

    def delete(self) -> None:
        rows = [a_row(key, 0, 0) for key in self._some()]
        columns = pa.schema([COLUMNS.field("id"), COLUMNS.field("part")])
        write(self.base, pa.RecordBatch.from_pylist(rows, columns), "delete", clock=self._clock, **BUCKETS)

    def full(self) -> None:
        compact(self.base, FaultyStorage(), ScriptedProcesses(), FULL, clock=self._clock)

    def log(self) -> None:
        compact(self.base, FaultyStorage(), ScriptedProcesses(), LOG, clock=self._clock)

    def _some(self) -> list[str]:
        return self._chance.sample(KEYS, self._chance.randint(3, len(KEYS)))


@pytest.mark.slow
@pytest.mark.parametrize("is_lsm", [False, True], ids=["default", "lsm_tree"])
@pytest.mark.parametrize("by_event_time", [True, False], ids=["event time", "commit time"])
def test_duckdb_comes_to_our_rows(tmp_path: Path, by_event_time: bool, is_lsm: bool) -> None:
    """After each write, LOG and FULL, with all columns; and it finds each file of the layout lsm_tree sorted."""
    print(f"LAKEWARD_SEED={SEED}")
    for number in range(runs(1)):
        chance = random.Random(f"{SEED} {number} {by_event_time}")
        story = Story(tmp_path / str(number), chance, by_event_time=by_event_time, is_lsm=is_lsm)
        acts = [
            story.upsert,
            story.delete,
            story.upsert,
            story.log,
            story.upsert,
            story.full,
            story.delete,
            story.upsert,
        ]
        for act in acts:
            act()
            duckdb = DuckDB.of(story.base)
            hudis = duckdb.rows("ts" if by_event_time else None, is_lsm=is_lsm)
            assert hudis == read_rows(story.base), act.__name__
            assert not is_lsm or all(duckdb.is_strictly_ascending(path) for _, path in duckdb.files())


@pytest.mark.parametrize("is_lsm", [False, True], ids=["default", "lsm_tree"])
def test_duckdb_finds_the_tables_types_and_true_statistics_in_each_file(tmp_path: Path, is_lsm: bool) -> None:
    """Base files, and logs of writes and of a LOG: rows with all columns, deletes with the key and what orders them."""
    story = Story(tmp_path / "t", random.Random(7), by_event_time=True, is_lsm=is_lsm)
    for act in (story.upsert, story.upsert, story.delete, story.log, story.upsert):
        act()
    duckdb, found = DuckDB.of(story.base), set()
    for kind, path in duckdb.files():
        found.add(kind)
        of_rows = dict.fromkeys([*META, "_hoodie_file_name", *COLUMNS.names], "VARCHAR") | TYPES
        of_deletes = {"_hoodie_record_key": "VARCHAR", "ts": "BIGINT"}
        assert duckdb.columns(path) == (of_deletes if kind == "deletes" else of_rows)
        assert duckdb.wrong_statistics(path) == [], kind
        said = duckdb.footer(path)
        assert {*said} - {"COMPACTED_BLOCK_TIMES"} == (
            set() if kind == "base" else {"VERSION", "INSTANT_TIME", "SCHEMA"}
        )
    assert found == {"base", "log", "deletes"}
