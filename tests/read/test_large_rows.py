"""Rows that are too large to be written, by their keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Unsupported
from lakeward.merge.memory_budget import INTERPRETER_BYTES, MemoryBudget, total_for_row
from lakeward.read.query.slice_query import REWRITE
from tests.read.log_files import data_block, row
from tests.read.slice_queries import BASE, lay_out, parquet_block, read

LARGE = row("k", 10, "x" * 2_000)
SMALL = [row(f"k{number}", 10, "x" * 500) for number in range(20)]
WRITING = replace(REWRITE, row_bytes_max=2_000)


@pytest.mark.parametrize(
    ("base", "logs", "where"),
    [
        ([*SMALL, LARGE], [], f"the base file {BASE}"),
        (SMALL, [data_block("200", [LARGE, SMALL[0]])], r"\.fg_200\.log\.1_0-0-0"),
        (SMALL, [parquet_block("200", [SMALL[0], LARGE], 2)], r"\.fg_200\.log\.1_0-0-0"),
    ],
    ids=["base", "avro", "parquet"],
)
def test_a_row_that_could_not_be_written(tmp_path: Path, base: list, logs: list[bytes], where: str):
    """Keeps of read/large_rows: refused with its key, its file and what would be enough; it can be read."""
    given = lay_out(tmp_path, base, logs, group_rows=100)
    with pytest.raises(Unsupported, match=rf"key 'k' in .*{where}.*is too large.* 6 times .*--memory"):
        read(given, WRITING)
    assert len(read(given)[0]) == len(read(given, replace(WRITING, row_bytes_max=10_000))[0]) == 21
    assert len(read(lay_out(tmp_path / "small", SMALL, [data_block("200", SMALL)], group_rows=100), WRITING)[0]) == 20


def test_a_row_has_what_is_left_for_rows():
    """Six times the largest one and the interpreter are the budget, and what is asked for is just enough."""
    budget = MemoryBudget()
    assert INTERPRETER_BYTES + 6 * budget.row == budget.total
    assert MemoryBudget(total_for_row(100_000_000)).row >= 100_000_000
    assert MemoryBudget(total_for_row(100_000_000) - 2 * 1024 * 1024).row < 100_000_000
    assert MemoryBudget(1).row == 4 * 1024 * 1024
