"""Real Hudi writes a table, Lakeward compacts it, real Hudi and hudi-rs judge: the proof that all else stands on."""

from __future__ import annotations

import itertools
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.hudi.table import HudiTable
from tests.interop.cases import NARROW, WIDE, Case
from tests.interop.lakeward_cli import compact
from tests.interop.story import Story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGINNING = "000"


def test_narrow_cases_hold_every_pair():
    """Every value of every column of the cases meets every value of every other one in some table."""
    names = [column.name for column in fields(Case) if column.name not in Case.FREE]
    for one, other in itertools.combinations(names, 2):
        met = {(getattr(case, one), getattr(case, other)) for case in NARROW}
        # The in-memory index is a tenth kind of table beside the nine of the square; it meets one value of each.
        wanted = itertools.product(
            {getattr(case, one) for case in NARROW} - {"MEMORY"}, {getattr(case, other) for case in NARROW} - {"MEMORY"}
        )
        assert set(wanted) <= met


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("case", [*NARROW, *(pytest.param(case, marks=pytest.mark.wide) for case in WIDE)], ids=str)
def test_hudi_reads_the_same_before_and_after(spark: SparkSession, tmp_path: Path, case: Case):
    """Every query of released Hudi answers as before, or as it does where Hudi itself compacted; then life goes on."""
    story = Story(spark, tmp_path / "table", case)
    story.tell()
    table = story.table
    before, before_by_hudi_rs = table.snapshot(), table.read_by_hudi_rs()
    assert table.snapshot(with_meta=False) == story.expected()
    twin = table.copy_to(tmp_path / "twin")

    compact(table)
    hudi_compacts(twin)

    after = table.snapshot()
    assert after == twin.snapshot()
    if case.history != "pending":
        # (With a plan pending, Hudi's own compaction may change what is read: see `TableModel.rows`.)
        assert after == before
    assert table.read_optimized() == after
    # (Some logs hudi-rs cannot read; then there is only its answer afterwards.)
    has_answer = after == before and not isinstance(before_by_hudi_rs, str)
    assert table.read_by_hudi_rs() == (before_by_hudi_rs if has_answer else twin.read_by_hudi_rs())
    assert not table.pending_instants()
    assert not [name for name in table.files() if name.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/"))]
    assert_same_history(table, twin)

    # The in-memory index is one map for all tables of a JVM: it cannot serve two copies of one table.
    copies = [table] if case.index == "MEMORY" else [table, twin]
    story.go_on(copies)

    for copy in copies:
        assert copy.snapshot(with_meta=False) == story.expected()


def hudi_compacts(table: HudiTable) -> None:
    for instant in table.pending_instants():
        table.compact_pending(instant)
    table.compact()


def assert_same_history(table: HudiTable, twin: HudiTable) -> None:
    """Time travel to each instant and the incremental query between each pair, our compactions taken for Hudi's."""
    # A plan keeps its place by requested time whoever runs it, and whenever.
    ours, theirs = sorted(table.completed_instants()), sorted(twin.completed_instants())
    assert len(ours) == len(theirs)
    for (instant, _), (instant_there, _) in zip(ours, theirs, strict=True):
        assert table.as_of(instant) == twin.as_of(instant_there), f"time travel to {instant}"

    windows, windows_there = all_windows(ours), all_windows(theirs)
    for window, window_there in zip(windows, windows_there, strict=True):
        assert table.incremental(*window) == twin.incremental(*window_there), f"incremental {window}"


def all_windows(instants: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """From each completion time to each later one, and from the beginning to the last."""
    ends = [completed for _, completed in instants]
    return [(min(pair), max(pair)) for pair in itertools.combinations(ends, 2)] + [(BEGINNING, max(ends))]
