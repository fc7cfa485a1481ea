"""Files of a table that Hudi wrote are damaged in each way: no row is lost, and a file that is back counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable, TableShape
from tests.interop.lakeward_cli import lakeward

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]

DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut in half": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "cut by a byte": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "emptied": lambda file: file.write_bytes(b""),
    "gone": lambda file: file.unlink(),
    "torn": lambda file: file.write_bytes(b"#HUDI#" + bytes(file.stat().st_size - 6)),
}
COMPACT = ("--writers", "stopped", "--type", "full", "--engine", "local", "--no-metadata-services")


def write(spark: SparkSession, path: Path, shape: TableShape) -> HudiTable:
    """Two partitions, with logs of several blocks and files: small log files roll over within a commit."""
    table = HudiTable(spark, path, shape)
    for ts, (first, last) in enumerate([(0, 40), (5, 30), (10, 40)]):
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, {ts}L AS ts, concat('v{ts}-', id) AS v, concat('p', id % 2) AS p "
            f"FROM range({first}, {last})"
        )
        table.write(rows, "upsert", **{"hoodie.logfile.max.size": "1500", "hoodie.logfile.data.block.max.size": "500"})
    rows = spark.sql("SELECT concat('k', id) AS id, 9L AS ts, '' AS v, concat('p', id % 2) AS p FROM range(0, 4)")
    table.write(rows, "delete")
    return table


@pytest.mark.parametrize("log_format", ["avro", "parquet"])
def test_a_damaged_group_waits_for_its_file(spark: SparkSession, tmp_path: Path, log_format: str) -> None:
    """`compact` does the other group and names the file; once that is back, its own is done, and Hudi reads all."""
    shape = TableShape(partition_fields="p", log_format=log_format)
    written = write(spark, tmp_path / "table", shape)
    expected = written.snapshot()
    for number, name in enumerate(DAMAGE):
        for extension in (".log.", ".parquet"):
            if (name, extension) == ("torn", ".parquet"):
                continue
            table = written.copy_to(tmp_path / f"{number}{extension[1]}")
            file = max(f for f in (table.path / "p0").iterdir() if extension in f.name and not f.name.endswith(".crc"))
            if file.name.startswith(".hoodie"):
                (file,) = (table.path / "p0").glob("[!.]*.parquet")
            content, mode = file.read_bytes(), file.stat()
            DAMAGE[name](file)
            exit_code, report = lakeward("compact", str(table.path), *COMPACT)
            assert exit_code == 1, (name, extension)
            assert [damaged["path"] for damaged in report["damage"]] == [f"p0/{file.name}"]
            (plan,) = report["compactions"]
            assert [operation["partition_path"] for operation in plan["operations"]] == ["p1"]
            assert lakeward("verify", str(table.path), "--merge-sample", "5")[0] == 6
            file.write_bytes(content)
            assert file.stat().st_size == mode.st_size
            exit_code, report = lakeward("compact", str(table.path), *COMPACT)
            assert exit_code == 0, report
            (plan,) = report["compactions"]
            assert [operation["partition_path"] for operation in plan["operations"]] == ["p0"]
            assert table.snapshot() == expected, (name, extension)
