"""Tables that went to version 10, were written to there, and came back: released Hudi reads them and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import IllegalArgumentException

from lakeward.format.file_name import is_native_log
from tests.hudi.table import HudiTable
from tests.interop.lakeward_cli import lakeward as command
from tests.interop.test_our_writes import KINDS, Turns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.wide]


AT_10 = ("--table-version", "10")
BIRTHS = {"9": (), "9, converted": (), "10": AT_10, "lsm_tree": (*AT_10, "--layout", "lsm_tree")}


@pytest.mark.parametrize("born", BIRTHS)
@pytest.mark.parametrize("name", ["mor-buckets", "mor-commit-time", "mor-record", "mor-listing-encoded", "cow"])
def test_hudi_goes_on_after_version_10(spark: SparkSession, tmp_path: Path, name: str, born: str) -> None:
    """A table that Hudi made, or that was made at version 10 in either layout: rows and deletes are written into native
    logs, and after the way down Hudi reads every row as of the downgrade and later, refuses to read as of before,
    writes on and keeps a metadata table. A table that Hudi made may have become one of the other layout in between."""
    kind = KINDS[name]
    p0, p1, p2 = kind.partitions
    turns = Turns(spark, HudiTable(spark, tmp_path / "t", kind.of_hudi), kind, {})
    first = {f"k{n}": (1, (p0, p1)[n % 2], "first") for n in range(8)}
    if not BIRTHS[born]:
        turns.theirs("upsert", first)
        turns.theirs("upsert", {"k0": (2, p0, "theirs"), "k1": (2, p1, "theirs")})
        turns.goes_to(10)
        if "converted" in born:
            words = ("--layout", "lsm_tree", "--writers", "stopped")
            exit_code, report = command("table", "convert", str(turns.table.path), *words)
            assert exit_code == 0, report
            assert report["steps"][0]["step"] == ("compaction" if kind.table_type == "MERGE_ON_READ" else "sorting")
    else:
        turns.create(*BIRTHS[born])
        turns.ours("upsert", first)
    base = turns.table.path
    before = turns.table.completed_instants()[-1][0]
    turns.ours("upsert", {"k1": (3, p1, "native"), "k2": (3, p0, "native"), "k30": (3, p2, "native")})
    turns.ours("delete", {"k3": (3, p1, "")})
    is_mor = kind.table_type == "MERGE_ON_READ"
    assert any(is_native_log(path.name) for path in base.rglob("*")) == (is_mor or bool(kind.options))

    steps = [step["step"] for step in turns.goes_to(9)["steps"]]
    assert ("clean" in steps, "metadata-table" in steps) == (is_mor, bool(kind.options))
    assert not [path for path in base.rglob("*") if is_native_log(path.name)]
    turns.check()
    newest = turns.table.completed_instants()[-1][0]
    assert turns.table.as_of(newest) == turns.table.snapshot()
    if is_mor:
        with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up the timestamp"):
            turns.table.as_of(before)
    else:
        assert turns.table.as_of(before)
    turns.theirs("upsert", {"k2": (5, p0, "after"), "k40": (5, p2, "after")})
    turns.theirs("delete", {"k4": (6, p0, "")})
    turns.check()
    exit_code, report = command("verify", str(base), "--all")
    assert exit_code == 0, report
