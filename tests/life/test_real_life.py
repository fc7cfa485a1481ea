"""Five hundred commits of a real table, each followed by what a daemon does: few logs and files are there at any time,
and every row is right. Hudi writes where it has the layout, Lakeward's writer where no release of Hudi does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeward.base.clock import Clock, SystemClock
from lakeward.index.index_type import IndexType
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.plan.trigger import Trigger
from lakeward.services.metadata.run.metadata_round import MetadataServices
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.bench import Bench
from tests.services.clean.run.retiring import retire, rules
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import new_table, values, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS, EVERY, RETAINED, KEYS = 500, 5, 10, 3000
SETTINGS = {
    "planner.small_base_size": "1",
    "hoodie.compaction.logfile.num.threshold": "5",
    "hoodie.compaction.logfile.size.threshold": "1",
}
EVERY_TIME = Trigger(delta_commits=1)
LIVE_MAX = 20
"""Logs of the slice that readers merge: four times as many as a LOG needs."""
TIMELINE_MAX = 250
"""Files of the active timeline: three for each of some 40 commits, and as many of services."""


@dataclass
class RealLife:
    base: Path
    write: Callable[[int, list[str]], None]
    """Writes the number as the value of the keys."""
    clock: Clock
    type: CompactionType
    retires: bool
    files_max: int
    """Logs of a slice, merged ones included."""
    has_metadata_table: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    most: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    def live(self, commits: int) -> None:
        self._commit(0, [f"k{number}" for number in range(KEYS)])
        for number in range(1, commits + 1):
            keys = [f"k{self.chance.randrange(KEYS)}" for _ in range(20)] + [f"n{number}"]
            self._commit(number, sorted(set(keys)))
            if number % EVERY == 0:
                self._service()
            self._look()
        assert {key: int(value) for key, value in values(read_rows(self.base)).items()} == self.rows
        print(f"{commits} commits: at most {self.most}; {self.done}")

    def _commit(self, number: int, keys: list[str]) -> None:
        self.write(number, keys)
        self.rows |= dict.fromkeys(keys, number)

    def _service(self) -> None:
        bench = Bench(self.base)
        bench.clock = self.clock
        planner = planner_of(self.type, GroupFilter(), SETTINGS, trigger=EVERY_TIME, sources_retire=self.retires)
        report = bench.compactor(planner).compact()
        for operation in report.outcome.operations:
            kind = str(operation.operation_type)
            self.done[kind] = self.done.get(kind, 0) + 1
        how = rules(RETAINED, retires_by_anchors=self.retires)
        cleans = retire(self.base, LocalStorage(), ScriptedProcesses(), how, clock=self.clock)[0].cleans
        for clean in cleans:
            kind = "retired" if clean.retires else "cleaned"
            self.done[kind] = self.done.get(kind, 0) + clean.files
        table = replace(serviced_table(str(self.base), LocalStorage(), ScriptedProcesses()), clock=self.clock)
        if self.has_metadata_table:
            MetadataServices(table).run()
        Archiver(table, ArchiveOptions()).archive()

    def _look(self) -> None:
        snapshot: TableSnapshot = scan(self.base)
        (slice_,) = snapshot.latest_slices
        live, logs = len(snapshot.live_logs(slice_).live), len(slice_.log_files)
        data = [path for path in (self.base / "p").iterdir() if not path.name.startswith(".hoodie")]
        timeline = sum(path.is_file() for path in (self.base / ".hoodie" / "timeline").iterdir())
        of_metadata = self.base / ".hoodie" / "metadata"
        seen = {
            "live logs": live,
            "logs": logs,
            "data files": sum(not path.name.endswith(".crc") for path in data),
            "KiB of data": sum(path.stat().st_size for path in data) >> 10,
            "timeline files": timeline,
            "files of the metadata table": sum(path.is_file() for path in of_metadata.rglob("*")),
        }
        self.most = {name: max(found, self.most.get(name, 0)) for name, found in seen.items()}
        assert live <= LIVE_MAX and logs <= self.files_max, seen
        assert seen["data files"] <= 3 * self.files_max, seen
        assert timeline <= TIMELINE_MAX, seen


@pytest.mark.wide
@pytest.mark.timeout(0)
@pytest.mark.parametrize("type_", [CompactionType.HYBRID, CompactionType.LOG])
@pytest.mark.parametrize("has_metadata_table", [False, True], ids=["by listing", "metadata table"])
def test_lsm_tree(tmp_path: Path, type_: CompactionType, has_metadata_table: bool) -> None:
    """Version 10, which Lakeward's writer writes: merged logs retire."""
    clock = SkippingClock()
    base = new_table(tmp_path / "table", version=10, is_lsm_tree=True, has_metadata_table=has_metadata_table)

    def commit(number: int, keys: list[str]) -> None:
        rows = [(key, number, "p", str(number)) for key in keys]
        write(base, rows, clock=clock, index=IndexType.BUCKET, buckets=1)

    life = RealLife(base, commit, clock, type_, retires=True, files_max=45, has_metadata_table=has_metadata_table)
    life.live(runs(COMMITS))
    assert life.done["LOG"] > 10 and life.done["retired"] > 50


@pytest.mark.wide
@pytest.mark.interop
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("type_", "retires"), [(CompactionType.HYBRID, False), (CompactionType.LOG, True)], ids=["as set", "log, retiring"]
)
def test_default(spark: SparkSession, tmp_path: Path, type_: CompactionType, retires: bool) -> None:
    """Version 9, which Hudi 1.2.0 writes, with defaults, and with log compactions alone behind anchors. In the end Hudi
    reads the rows."""
    from tests.hudi.table import HudiTable, TableShape

    table = HudiTable(spark, tmp_path / "table", TableShape(partition_fields="part", index="BUCKET", buckets=1))

    def commit(number: int, keys: list[str]) -> None:
        listed = ", ".join(f"'{key}'" for key in keys)
        of_keys = f"SELECT explode(array({listed})) AS id"
        rows = f"SELECT id, {number}L AS ts, 'p' AS part, '{number}' AS v FROM ({of_keys})"
        table.write(spark.sql(rows), "upsert" if number else "insert")

    life = RealLife(table.path, commit, SystemClock(), type_, retires=retires, files_max=45 if retires else 105)
    life.live(runs(COMMITS))
    assert {row["id"]: int(row["v"]) for row in map(json.loads, table.snapshot())} == life.rows
    assert life.done["LOG"] > 10
