"""How well a table's files separate values, by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.cli.main import run
from tests.write.writing import new_table, write


def test_a_table_in_order_of_one_column(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """File groups are apart by the column that they were written in the order of, and not by the other; the document
    has the same figures, and says what clustering would cost. Nothing is written."""
    table = new_table(tmp_path / "t", partition_fields=())
    for day in range(4):
        write(table, [(f"k{day}{at}", day * 10 + at, "p", f"v{at}") for at in range(5)], "bulk_insert")
    before = sorted(path.name for path in table.rglob("*"))

    assert run(["layout", str(table), "--by", "ts,v"]) == 0
    text = capfd.readouterr().out
    assert "4 file groups of" in text and "in 1 partition, by column_stats of the metadata table." in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "ts 1.0 1 0.0 1.0 of 4.0 file groups, 25% of the bytes" in lines
    assert "v 4.0 4 3.0 4.0 of 4.0 file groups, 100% of the bytes" in lines
    assert "3 to 4 4 " + "█" * 40 in lines
    assert "Clustering by ts, v would rewrite" in text and "in 4 file groups into about 1 of at most 120.0 MiB." in text

    assert run(["layout", str(table), "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert found["clustering"] is None
    of_column = {each["column"]: each for each in found["columns"]}
    assert (of_column["ts"]["mean_depth"], of_column["v"]["groups_read"]) == (1.0, 4.0)
    assert list(of_column) == ["id", "ts", "part", "v"]
    assert sorted(path.name for path in table.rglob("*")) == before


def test_a_table_without_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """There is nothing to measure, and that is said."""
    assert run(["layout", str(new_table(tmp_path / "t")), "--by", "ts"]) == 0
    assert "0 file groups" in capfd.readouterr().out
