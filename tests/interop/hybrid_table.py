"""A table with every partition of the metadata table, and a hybrid plan of Lakeward on it (`planner.publish=hybrid`).

Hudi wrote it and a model was given the same; we log-compacted it twice, then planned FULL and LOG in one plan, and Hudi
committed another write after the plan.

Touches: one table folder, through Spark and through `lakeward`.
"""

from __future__ import annotations

import json
import pickle
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from tests.hudi.metadata_table import INDEXES, WITHOUT_METADATA
from tests.hudi.model import Row, TableModel
from tests.hudi.table import HudiTable, Rows
from tests.interop.lakeward_cli import lakeward
from tests.interop.made_once import made_once
from tests.interop.test_compaction import assert_verified
from tests.interop.test_hybrid_compaction import EVENT, leave_pending, shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "planner.publish": "hybrid",
    "planner.small_base_size": "1KiB",
    "planner.log_ratio": "0.02",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}
"""What makes a few rows do."""
OPTIONS = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]

MERGED = {"hoodie.metadata.compact.max.delta.commits": "1"}
BY_RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX", **MERGED}
BY_BLOOMS = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true", **MERGED}
"""How writers find their keys; before they do, they compact the metadata table, with what is in it from us."""

PLANNER = planner_of(CompactionType.HYBRID, GroupFilter(), SETTINGS)

NOTHING_MORE = ("--set", "planner.group_trigger.delta_commits=100")
WITH_METADATA = {"hoodie.metadata.enable": "true"}


def some(part: str, numbers: range, ts: int, value: str) -> list[Row]:
    width = 400 if part == "hot" else 1
    return [{"id": f"{part}{n}", "part": part, "ts": ts, "v": f"{value * width}{n}"} for n in numbers]


def select(rows: list[Row]) -> str:
    values = ", ".join(f"('{row['id']}', '{row['part']}', {row['ts']}L, '{row['v']}')" for row in rows)
    return f"SELECT * FROM VALUES {values} AS t(id, part, ts, v)"


@dataclass(slots=True)
class Reported:
    """A table, and what it must hold."""

    spark: SparkSession
    table: HudiTable
    model: TableModel
    instant: str = ""
    """The plan's instant."""

    def upsert(self, *parts: list[Row], **options: str) -> None:
        rows = [row for part in parts for row in part]
        self.table.write(self.spark.sql(select(rows)), "upsert", **options)
        self.model.upsert(rows, new_keys_go_to_logs=False)

    def delete(self, *parts: list[Row], **options: str) -> None:
        """No key comes back after it: Hudi's record index forgets such keys."""
        rows = [row for part in parts for row in part]
        self.table.write(self.spark.sql(select(rows)), "delete", **options)
        self.model.delete(rows)

    def leave_planned(self, *options: str) -> None:
        """We plan, and die before the work begins."""
        command = ("compact", str(self.table.path), "--writers", "stopped", *OPTIONS, *options)
        with pytest.MonkeyPatch.context() as patch:
            leave_pending(patch, lambda: lakeward(*command))
        (self.instant,) = self.table.pending_instants()

    def unschedule(self) -> None:
        exit_code, printed = lakeward("unschedule", str(self.table.path), self.instant, "--writers", "stopped")
        assert exit_code == 0, printed
        assert not self.table.pending_instants()

    def copy_to(self, folder: Path) -> Reported:
        return replace(self, table=self.table.copy_to(folder), model=deepcopy(self.model))

    def expected(self) -> dict[str, str]:
        return {row["id"]: row["v"] for row in self.model.rows()}

    def check(self) -> None:
        """Hudi sees what the model has: by the metadata table, without it, and where its statistics leave files out;
        and what the metadata table says is true."""
        expected = self.expected()
        assert values_of(self.table.snapshot(with_meta=False, **WITH_METADATA)) == expected
        assert values_of(self.table.snapshot(with_meta=False, **WITHOUT_METADATA)) == expected
        skipping = self.table.frame(**WITH_METADATA, **{"hoodie.enable.data.skipping": "true"})
        found = {row["id"] for row in skipping.where("ts >= 14").select("id").collect()}
        assert found == {row["id"] for row in self.model.rows() if row["ts"] >= 14}
        assert_verified(self.table)

    def go_on(self) -> None:
        """Hudi finds keys of every group by each index, and compacts."""
        self.upsert(
            *(some("warm", range(4, 12), 20, "l"), some("late", range(5, 9), 3, "l"), some("hot", range(6), 20, "l")),
            some("cold", range(38, 42), 20, "new"),
            **BY_RECORD_INDEX,
        )
        self.delete(some("warm", range(11, 13), 21, ""), some("late", range(38, 40), 21, ""), **BY_BLOOMS)
        self.check()
        self.table.compact()
        self.check()
        assert self.table.read_optimized(with_meta=False) == self.table.snapshot(with_meta=False)


def values_of(rows: Rows) -> dict[str, str]:
    found = [json.loads(row) for row in rows]
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def compact(table: HudiTable, *options: str) -> list[dict[str, Any]]:
    given = ("--writers", "stopped", "--no-metadata-services")
    exit_code, printed = lakeward("compact", str(table.path), *given, *OPTIONS, *options)
    assert exit_code == 0, printed
    return printed["compactions"]  # type: ignore[no-any-return]


def write_and_plan(spark: SparkSession, path: Path, mode: str) -> Reported:
    """`hot` has large logs, `warm` and `late` small ones, in `late` there are such that come too late by event time,
    `cold` has one; no group but `cold` is without an output of a log compaction."""
    table = HudiTable(spark, path, replace(shape(mode), options=INDEXES))
    shown = Reported(spark, table, TableModel(("part", "id"), ("ts",) if mode == EVENT else ()))
    shown.upsert(*(some(part, range(40), 10, "a") for part in ("hot", "warm", "late", "cold")))
    shown.upsert(some("hot", range(40), 11, "b"), some("warm", range(5), 11, "b"), some("late", range(5), 12, "b"))
    shown.upsert(
        some("hot", range(5, 30), 12, "c"), some("warm", range(3, 8), 12, "c"), some("late", range(3, 8), 9, "c")
    )
    log_compact(table)
    shown.delete(some("warm", range(7, 9), 13, ""), some("late", range(2), 13, ""), some("hot", range(30, 32), 13, ""))
    log_compact(table)
    shown.upsert(
        # As large as the outputs before it, so that a LOG takes these, too.
        *(some("hot", range(9), 14, "d"), some("warm", range(9, 34), 14, "d"), some("late", range(3, 30), 5, "d")),
        some("cold", range(3), 14, "d"),
    )

    exit_code, printed = lakeward("plan", str(table.path), *OPTIONS)
    chosen = {each["partition"]: each["choice"] for each in printed["decisions"]}
    assert (exit_code, chosen) == (0, {"hot": "FULL", "warm": "LOG", "late": "LOG", "cold": "NONE"})
    shown.leave_planned()
    shown.upsert(
        *(some("hot", range(3), 15, "w"), some("warm", range(2, 5), 15, "w"), some("late", range(2, 12), 11, "w")),
        some("cold", range(2), 15, "w"),
    )
    return shown


def kept_once(spark: SparkSession, factory: pytest.TempPathFactory, mode: str) -> Reported:
    """That table in this mode, written once for all processes of a run."""

    def make(folder: Path) -> None:
        folder.mkdir()
        shown = write_and_plan(spark, folder / "table", mode)
        (folder / "shown").write_bytes(pickle.dumps((shown.table.shape, shown.model, shown.instant)))

    folder = made_once(factory, f"hybrid-{mode}", make)
    shape_, model, instant = pickle.loads((folder / "shown").read_bytes())
    return Reported(spark, HudiTable(spark, folder / "table", shape_), model, instant)


def log_compact(table: HudiTable) -> None:
    (done,) = compact(table, "--type", "log", "--set", "planner.publish=split")
    assert (done["action"], len(done["operations"])) == ("logcompaction", 3)


def carry_out(planned: Reported) -> None:
    """What was pending, and nothing else."""
    (done,) = compact(planned.table, *NOTHING_MORE)
    assert (done["instant"], done["action"], done["dropped"]) == (planned.instant, "compaction", [])
    kinds = {each["partition_path"]: each["kind"] for each in done["operations"]}
    assert kinds == {"hot": "FULL", "warm": "LOG", "late": "LOG"}
