"""Rows that come for other partitions: Hudi and Lakeward write the same to two copies of a table, and get the same.

Tables that are merged on read or copied on write, each global index, and each answer to whether rows move; and Hudi
goes on with its own index where Lakeward wrote.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakeward.write
from lakeward.base.clock import SystemClock
from lakeward.index.index_type import IndexType
from lakeward.write.request import FileSizes
from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward as command
from tests.write.writing import COLUMNS, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide, pytest.mark.timeout(1800)]

Row = tuple[str, int, str, bool]
"""Key, ordering value, partition, whether it deletes."""
GLOBAL = "GLOBAL_RECORD_LEVEL_INDEX"
INDEXES = {
    "GLOBAL_SIMPLE": IndexType.GLOBAL_SIMPLE,
    "GLOBAL_BLOOM": IndexType.GLOBAL_BLOOM,
    GLOBAL: IndexType.METADATA,
}
FIRST: list[Row] = [(f"k{n}", 10, "p0", False) for n in range(1, 10)]
STEPS: list[tuple[str, list[Row]]] = [
    (
        "upsert",
        [
            ("k1", 20, "p1", False),  # moves
            ("k2", 5, "p1", False),  # is too old
            ("k3", 10, "p1", False),  # as old as what is there
            ("k4", 30, "p1", False),  # wins over the next one
            ("k4", 25, "p2", False),
            ("k5", 40, "p0", False),  # so does this, and stays
            ("k5", 35, "p1", False),
            ("k7", 20, "p9", True),  # deletes a row of another partition
            ("k8", 5, "p9", True),  # is too old for it
            ("k9", 5, "p0", True),
            ("k20", 1, "p0", False),  # is new, and loses to the next one
            ("k20", 2, "p1", False),
            ("k21", 9, "p9", True),  # deletes nothing
        ],
    ),
    ("delete", [("k6", 0, "p2", False), ("k20", 0, "p0", False), ("k22", 0, "p0", False)]),
    ("upsert", [("k1", 50, "p0", False), ("k6", 1, "p3", False), ("k20", 1, "p0", False), ("k9", 60, "p3", False)]),
    ("upsert", [("k1", 60, "p0", False), ("k4", 60, "p0", False), ("k3", 9, "p0", False), ("k8", 60, "p1", False)]),
]
LAST: list[Row] = [(f"k{n}", 90, f"p{n % 3}", False) for n in (*range(1, 10), 20, 30)]


def kinds() -> list[object]:
    """Hudi 1.2.0 makes two rows of a key where rows stay and a table that is merged on read has no record index."""
    found = []
    for table_type in ("MERGE_ON_READ", "COPY_ON_WRITE"):
        for index in INDEXES:
            for mode in ("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"):
                for moves in (True, False):
                    kind = (table_type, index, mode, moves)
                    if (
                        kind[:2] in (("MERGE_ON_READ", "GLOBAL_SIMPLE"), ("MERGE_ON_READ", "GLOBAL_BLOOM"))
                        and not moves
                    ):
                        continue
                    found.append(pytest.param(*kind, id="-".join(map(str, kind))))
    return found


@pytest.mark.parametrize(("table_type", "index", "mode", "moves"), kinds())
def test_the_same_as_hudi(
    spark: SparkSession, tmp_path: Path, table_type: str, index: str, mode: str, moves: bool
) -> None:
    """The same rows in the same partitions after each write, in this process or through Spark; each key once."""
    options = {
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": str(index == GLOBAL).lower(),
        **{f"hoodie.{name}.index.update.partition.path": str(moves).lower() for name in ("simple", "bloom", "record")},
    }
    by_event_time = mode == "EVENT_TIME_ORDERING"
    shape = TableShape(
        partition_fields="part",
        index=index,
        options=options,
        merge_mode=mode,
        ordering_fields="ts" if by_event_time else "",
    )
    hudis = HudiTable(spark, tmp_path / "hudis", shape)
    hudis.write(frame(spark, FIRST, 0), "upsert")
    own = hudis.copy_to(tmp_path / "own")
    for number, (operation, rows) in enumerate(STEPS, 1):
        if not by_event_time:
            rows = [row for row in rows if row[0] not in ("k4", "k5", "k20") or operation == "delete"]
        hudis.write(frame(spark, rows, number), operation)
        if number == len(STEPS):
            lakeward.write.write(
                frame(spark, rows, number),
                str(own.path),
                operation=operation,
                writers_stopped=True,
                index=INDEXES[index],
                update_partition_path=moves,
                sizes=FileSizes(small_file=0),
            )
        else:
            how = {"index": INDEXES[index], "moves_rows": moves, "sizes": FileSizes(small_file=0)}
            write(own.path, batch(rows, number), operation, clock=SystemClock(), **how)
        assert where(own) == where(hudis), (number, operation)
    for table in (hudis, own):
        table.write(frame(spark, LAST, 9), "upsert")
    found = where(own)
    assert found == where(hudis)
    assert len({row[0] for row in found}) == len(found), "each key once"
    exit_code, report = command("verify", str(own.path), "--all")
    assert exit_code == 0, report


def frame(spark: SparkSession, rows: list[Row], number: int) -> DataFrame:
    values = [(key, ts, part, f"v{number}", deletes) for key, ts, part, deletes in rows]
    return spark.createDataFrame(values, "id string, ts bigint, part string, v string, _hoodie_is_deleted boolean")


def batch(rows: list[Row], number: int) -> pa.RecordBatch:
    keys, times, partitions, deletes = (list(each) for each in zip(*rows, strict=True))
    columns = [keys, times, partitions, [f"v{number}"] * len(rows), deletes]
    schema = COLUMNS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    return pa.RecordBatch.from_arrays(
        [pa.array(each, field.type) for each, field in zip(columns, schema, strict=True)], schema=schema
    )


def where(table: HudiTable) -> list[tuple[str, str, int, str]]:
    """Each row as Hudi reads it: key, partition, ordering value and text."""
    rows = (json.loads(row) for row in table.snapshot())
    return sorted((row["id"], row["_hoodie_partition_path"], row["ts"], row["v"]) for row in rows)
