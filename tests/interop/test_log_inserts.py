"""New keys that Lakeward put into logs, and what released Hudi makes of them: it finds each, and doubles none.

By the record index; what its default index does with them is the loss that `lakeward index inserts` names.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable
from tests.interop.lakeward_cli import compact
from tests.interop.lakeward_cli import lakeward as command
from tests.interop.test_our_writes import KINDS, Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow]

KIND = KINDS["mor-record"]
NOT_BUILT = {"hoodie.metadata.global.record.level.index.enable": "false"}
"""The record index of a writer that does not build it, where it was taken away."""


def files(turns: Turns) -> tuple[int, int]:
    """Base files and logs outside of `.hoodie`."""
    folders = [folder for folder in turns.table.path.iterdir() if folder.name.startswith("p")]
    names = [file.name for folder in folders for file in folder.iterdir() if not file.name.endswith(".crc")]
    return sum(name.endswith(".parquet") for name in names), sum(".log." in name for name in names)


def verified(turns: Turns) -> None:
    turns.check()
    exit_code, report = command("verify", str(turns.table.path), "--all")
    assert exit_code == 0, report
    exit_code, report = command("index", "inserts", str(turns.table.path))
    assert exit_code == 0, report


def begun(spark: SparkSession, path: Path, *, by_hudi: bool = False) -> Turns:
    """A table with keys in base files, and others in logs alone. One by Hudi does not say its index."""
    turns = Turns(spark, HudiTable(spark, path, KIND.of_hudi), KIND, {})
    if not by_hudi:
        turns.create()
    write = turns.hudis if by_hudi else turns.own
    write("upsert", {f"k{n}": (1, ("p0", "p1")[n % 2], "base") for n in range(4)})
    exit_code, said = command("index", "inserts", str(path), "--into-logs")
    assert exit_code == 0, said
    for n in range(4, 10):
        printed = turns.own("upsert", {f"k{n}": (1, ("p0", "p1")[n % 2], "log"), "k0": (n, "p0", "again")})
        assert (printed["inserted"], printed["updated"]) == (1, 1)
    assert files(turns) == (2, 9)
    return turns


@pytest.mark.turns(37)
def test_hudi_finds_keys_that_are_in_logs_alone(spark: SparkSession, tmp_path: Path) -> None:
    """It reads them, updates them where they are, deletes them, and its next new keys go into base files; also when it
    has built its record index again. A full compaction brings all into base files."""
    turns = begun(spark, tmp_path / "t")
    verified(turns)
    turns.hudis("upsert", {"k4": (20, "p0", "hudis"), "k5": (0, "p1", "late"), "k20": (20, "p0", "hudis")})
    turns.hudis("delete", {"k6": (20, "p0", "")})
    verified(turns)

    spark.sql(f"CREATE TABLE in_logs USING hudi LOCATION '{turns.table.path}'")
    spark.sql("CALL delete_metadata_table(table => 'in_logs')").collect()
    assert not (turns.table.path / ".hoodie" / "metadata").exists()
    turns.hudis("upsert", {"k7": (30, "p1", "rebuilt"), "k21": (30, "p1", "hudis")})
    verified(turns)
    turns.own("upsert", {"k8": (40, "p0", "own"), "k30": (40, "p1", "own"), "k6": (40, "p0", "back")})
    verified(turns)

    assert compact(turns.table)["compactions"]
    turns.hudis("upsert", {"k9": (50, "p1", "hudis"), "k30": (50, "p1", "hudis")})
    turns.check_read(turns.table.snapshot(with_meta=False))
    verified(turns)


@pytest.mark.wide
@pytest.mark.parametrize("options", [{"hoodie.index.type": "SIMPLE"}, NOT_BUILT])
def test_what_doubles_a_key_is_reported(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], options: dict[str, str]
) -> None:
    """The loss that the help names: Hudi's default index, and its record index where that is not built, insert a key
    of a log again. A table that says its index is written by no other one, and Hudi refuses SIMPLE there."""
    turns = begun(spark, tmp_path / "t", by_hudi=True)
    if options is NOT_BUILT:
        spark.sql(f"CREATE TABLE not_built USING hudi LOCATION '{turns.table.path}'")
        spark.sql("CALL delete_metadata_table(table => 'not_built')").collect()
    turns.table.write(turns.frame({"k4": (60, "p0", "twice")}), "upsert", **{**KIND.options, **options})
    assert sum('"k4"' in row for row in turns.table.snapshot(with_meta=False)) == 2
    capfd.readouterr()
    exit_code, _ = command("index", "inserts", str(turns.table.path))
    said = capfd.readouterr().err
    assert exit_code == 2 and "doubled 1 key" in said and "'k4'" in said, said
