"""A table of the layout `lsm_tree` with real files, serviced on a clock that is moved, in an order that a seed draws:
level 0 compacted by LOG, what it merged retiring, FULL, cleans, an archiver, and queries that list the table at any
moment and read what they listed at any later one within the reader window.

A query knows the rows that were there when it listed. One that a reader of the layout makes (`native_log_judge`) takes
all that lies in the slice at that moment, logs included that have retired and are not deleted yet.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from lakeward.base.clock import Clock
from lakeward.index.index_type import IndexType
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.metadata.run.metadata_round import MetadataServices
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan, slice_rows
from tests.processes import ScriptedProcesses
from tests.services.bench import Bench
from tests.services.clean.run.retiring import retire, rules
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.judged import judged_values
from tests.write.writing import new_table, values, write

KEYS = 12
WINDOW = 100.0
"""Seconds for which a query may run."""
SETTINGS = {
    "planner.small_base_size": "1",
    "planner.log_ratio": "20",
    "planner.large_log_ratio": "100",
    "hoodie.compaction.logfile.num.threshold": "3",
    "hoodie.compaction.logfile.size.threshold": "1",
}
STEPS = {"write": 10, "delete": 1, "compact": 4, "full": 1, "clean": 4, "archive": 1, "begin": 4, "end": 3}


@dataclass
class Query:
    listed: TableSnapshot
    rows: dict[str, str]
    until: float


@dataclass
class LsmTree:
    base: Path
    chance: Random
    clock: Clock = field(default_factory=SkippingClock)
    rows: dict[str, str] = field(default_factory=dict)
    queries: list[Query] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    number: int = 0

    def __post_init__(self) -> None:
        self.by_event_time = self.chance.random() < 0.5
        self.has_metadata_table = self.chance.random() < 0.5
        more = {} if self.by_event_time else {"ordering_fields": ()}
        new_table(self.base, version=10, is_lsm_tree=True, has_metadata_table=self.has_metadata_table, **more)
        self._write(range(KEYS))

    def live(self, steps: int) -> LsmTree:
        for _ in range(steps):
            (step,) = self.chance.choices(list(STEPS), list(STEPS.values()))
            getattr(self, f"_{step}")(*([self._some_keys()] if step in ("write", "delete") else []))
            self._pass(self.chance.choice([0.0, 1.0, 20.0, 60.0]))
            self._check()
        while self.queries:
            self._end()
        return self

    def _some_keys(self) -> list[int]:
        return sorted(self.chance.sample(range(KEYS), self.chance.randint(1, 4)))

    def _write(self, keys: range | list[int]) -> None:
        self.number += 1
        rows = [(f"k{key}", self.number, "p", f"{key}.{self.number}") for key in keys]
        write(self.base, rows, clock=self.clock, index=IndexType.BUCKET, buckets=1)
        self.rows |= {key: value for key, _, _, value in rows}

    def _delete(self, keys: list[int]) -> None:
        there = [f"k{key}" for key in keys if f"k{key}" in self.rows]
        if len(there) < len(self.rows):  # a table keeps some rows
            self.number += 1
            rows = [(key, self.number, "p", None) for key in there]
            write(self.base, rows, "delete", clock=self.clock, index=IndexType.BUCKET, buckets=1)
            self.rows = {key: value for key, value in self.rows.items() if key not in there}

    def _compact(self, kind: CompactionType = CompactionType.HYBRID) -> None:
        bench = Bench(self.base)
        bench.clock = self.clock
        settings = SETTINGS if kind is CompactionType.HYBRID else {}
        planner = planner_of(kind, GroupFilter(), settings, sources_retire=True)
        for operation in bench.compactor(planner).compact().outcome.operations:
            self.done[str(operation.operation_type)] += 1

    def _full(self) -> None:
        self._compact(CompactionType.FULL)

    def _clean(self) -> None:
        how = rules(self.chance.randint(1, 4), window=WINDOW)
        report, purged = retire(self.base, LocalStorage(), ScriptedProcesses(), how, clock=self.clock)
        for clean in report.cleans:
            self.done["retired" if clean.retires else "cleaned"] += clean.files
        self.done["purged runs"] += len(purged)

    def _archive(self) -> None:
        table = replace(serviced_table(str(self.base), LocalStorage(), ScriptedProcesses()), clock=self.clock)
        if self.has_metadata_table:
            MetadataServices(table).run()
        self.done["archived"] += len(Archiver(table, ArchiveOptions(5, 8, 4)).archive().archived)

    def _begin(self) -> None:
        until = self.clock.now() + self.chance.uniform(0, WINDOW)
        self.queries.append(Query(scan(self.base), dict(self.rows), until))

    def _end(self) -> None:
        if self.queries:
            query = self.queries.pop(self.chance.randrange(len(self.queries)))
            slices = query.listed.latest_slices
            found = [row for each in slices for row in slice_rows(self.base, query.listed, each)]
            assert values(found) == query.rows, "a query reads what was there when it listed"
            self.done["queries"] += 1

    def _pass(self, seconds: float) -> None:
        """No query runs for longer than the window."""
        now = self.clock.now()
        while any(query.until < now + seconds for query in self.queries):
            self._end()
        self.clock.sleep(seconds)

    def _check(self) -> None:
        assert values(read_rows(self.base)) == self.rows
        assert judged_values(self.base) == self.rows
        if self.has_metadata_table:
            check_agrees(self.base)
