"""The demo where Hudi cannot be fetched, and how it times; with Hudi it is what `make demo` runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.demo.__main__ import Spent, add_lakeward, demo_with_shipped_table, merge_seconds
from deploy.demo.warm import WarmLakeward
from tests.golden_tables import copy_golden


@pytest.mark.slow
def test_the_shipped_table_stands_in(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It says so, compacts the table that ships with the tests, and finds the rows that Hudi had found."""
    assert demo_with_shipped_table(tmp_path) == 0
    printed = capfd.readouterr().out
    assert "stands in" in printed
    assert "The same rows." in printed


@pytest.mark.slow
def test_one_process_compacts_one_table_after_the_other(tmp_path: Path) -> None:
    """It says what each took, which its first, cold one does not show; where one fails it says so, and is gone."""
    tables = [copy_golden("v9", tmp_path / name) for name in ("cold", "warm")]
    lakeward = WarmLakeward(tmp_path / "log")
    took = []
    for table in tables:
        lakeward.begin(table)
        took.append(lakeward.ended())
        (instant,) = (file.name.split(".")[0] for file in table.rglob("*.compaction.inflight"))
        assert 0 < merge_seconds(table, instant) < took[-1]
    assert took[1] < took[0]
    lakeward.begin(tmp_path / "no table")
    with pytest.raises(RuntimeError, match="ended with 2"):
        lakeward.ended()
    lakeward.leave()
    assert "LW-NO-TABLE" in (tmp_path / "log").read_text()


def test_the_merge_ends_with_the_last_new_base_file(tmp_path: Path) -> None:
    """The times of files show it: from the plan's start to base files of its own instant."""
    times = {".hoodie/timeline/2.compaction.inflight": 100.0, "p/a_0_1.parquet": 120, "p/a_0_2.parquet": 103}
    times |= {"q/b_0_2.parquet": 104.5, ".hoodie/timeline/2_3.commit": 130}
    for name, seconds in times.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (seconds, seconds))
    assert merge_seconds(tmp_path, "2") == 4.5


def test_what_lakeward_took_is_added_up() -> None:
    """Wall and CPU time of its processes alone."""
    spent = Spent()
    took = [add_lakeward(spent, "version") for _ in range(2)]
    assert spent.seconds == sum(took) > 0
    assert spent.cpu_seconds > 0
