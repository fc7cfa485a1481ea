"""A table that Hudi compacts inline, by its default of five delta commits: the replay of that rule writes what Hudi
wrote."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.estimate import ERROR_MAX
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.compaction.simulation.replay import measure_fit, replay
from lakeward.services.compaction.simulation.table_trace import read_trace
from lakeward.storage.local import LocalStorage
from tests.hudi.table import HudiTable, TableShape
from tests.our_reader import scan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INLINE = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "5"}
WRITES = 17


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.turns(25)
def test_a_replay_writes_what_hudi_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """The replay of its default rule makes as many compactions, whose bytes are within what `simulate` calls close; the
    model, asked about the compactions that were made, is as near."""
    table = HudiTable(spark, tmp_path / "t", TableShape(partition_fields="part"))
    for number in range(WRITES):
        first, last = (0, 4000) if number == 0 else (number * 150, number * 150 + 700)
        rows = spark.sql(
            f"SELECT concat('k', id) AS id, concat('p', id % 2) AS part, {number}L AS ts, "
            f"sha2(concat(id, '-', {number}), 256) AS v FROM range({first}, {last})"
        )
        table.write(rows, "upsert", **INLINE)
    made = len(table.compactions())
    assert made == (WRITES - 1) // 5

    trace = read_trace(LocalStorage(), scan(table.path), last_seconds=86400.0, now=time.time() + 1)
    fit = measure_fit(trace)
    hudi = planner_of(CompactionType.FULL, GroupFilter(), {}, trigger=Trigger())
    really = replay(trace, planner=None, model=fit.model, reads_per_day=1.0)
    by_rule = replay(trace, planner=hudi, model=fit.model, reads_per_day=1.0)
    assert (by_rule.jobs, really.jobs) == (made, made)
    assert by_rule.fulls == really.fulls
    assert by_rule.compaction_bytes == pytest.approx(really.compaction_bytes, rel=ERROR_MAX)
    assert fit.is_close, fit.factor
