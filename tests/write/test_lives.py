"""Lives of tables, drawn by chance: writes, every service and the deaths of processes, against a dictionary of rows.

A seed is one life; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Refused
from lakeward.format.file_name import is_native_log
from lakeward.index.index_type import IndexType
from lakeward.protocol.pending.rollback import Step
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.rollback.run.roll_back import find_decisions, roll_back_writes
from lakeward.services.savepoint.run import create_savepoint, delete_savepoint
from lakeward.services.together.restore.run.restore import restore
from lakeward.services.together.versions.run.version_step import change_version
from lakeward.table.quarantine import load_quarantine
from lakeward.table.snapshot import TableSnapshot
from tests.crash.compacting import FULL, LOG, age_temporary_files, compact
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import METADATA
from tests.our_reader import scan
from tests.processes import LookedOn, ScriptedProcesses
from tests.runs import runs
from tests.services.archive.run.archiving import SOON
from tests.services.clean.run.cleaning import choose_old
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.versions.run.layouts import Conversion
from tests.write.test_histories import INDEXES, History
from tests.write.writing import Row, new_table

Rows = dict[str, Row]
BY_THE_RULES = planner_of(
    CompactionType.HYBRID,
    GroupFilter(),
    {
        "planner.small_base_size": "1",
        "planner.log_ratio": "2",
        "planner.large_log_ratio": "100",
        "hoodie.compaction.logfile.num.threshold": "2",
        "hoodie.compaction.logfile.size.threshold": "1",
    },
)
"""Some tiny tables have more logs than their bases are large, others not."""


@dataclass
class Life(History):
    """A table, and what its processes do and die of."""

    processes: ScriptedProcesses = field(default_factory=ScriptedProcesses)
    storage: FaultyStorage = field(default_factory=FaultyStorage)
    states: dict[str, tuple[Rows, dict[str, int]]] = field(default_factory=dict)
    """What there was as of each commit."""

    def __post_init__(self) -> None:
        self.processes.stillness = LookedOn()

    def table(self) -> ServicedTable:
        return replace(serviced_table(str(self.base), self.storage, self.processes), clock=self.clock)

    def snapshot(self) -> TableSnapshot:
        return scan(self.base)

    # What a process does

    def write(self, rows: list[Row], operation: str, **request: Any) -> None:
        with self._mortal():
            super().write(rows, operation, storage=self.storage, processes=self.processes, **request)

    def compact(self, planner: Planner = FULL) -> None:
        if self.table_type == "MERGE_ON_READ":
            self.shown.append({FULL: "full", LOG: "log", BY_THE_RULES: "full and log"}[planner])
            with self._mortal():
                compact(self.base, self.storage, self.processes, planner, clock=self.clock)

    def compact_logs(self) -> None:
        self.compact(LOG)

    def compact_by_the_rules(self) -> None:
        """FULL of some file groups and LOG of others, which are one plan on version 10."""
        self.compact(BY_THE_RULES)

    def clean(self) -> None:
        self.shown.append("clean")
        # What is kept stays in its place, where the metadata table has it no more.
        keep = 0.0 if self.has_metadata_table else self.chance.choice([0.0, 3600.0])
        # It is refused where files of replaced groups would stay, since a pending plan needs them.
        with self._mortal(), suppress(Refused):
            Cleaner(self.table(), {}, keep_seconds=keep).clean(
                lambda snapshot: choose_old(snapshot, load_quarantine(self.storage, str(self.base)))
            )

    def archive(self) -> None:
        self.shown.append("archive")
        with self._mortal():
            Archiver(self.table(), SOON).archive()

    def savepoint(self) -> None:
        self.shown.append("savepoint")
        saved = sorted(self.snapshot().timeline.savepoints)
        commits = [each.time for each in self.snapshot().timeline.completed_writes if each.time not in saved]
        with self._mortal(), suppress(Refused):
            if saved and self.chance.random() < 0.5:
                delete_savepoint(self.table(), self.chance.choice(saved))
            elif commits:
                create_savepoint(self.table(), self.chance.choice(commits), user="me", comment="")

    def restore(self) -> None:
        commits = [each.time for each in self.snapshot().timeline.completed_writes if each.time in self.states]
        if commits and self.index["index"] is not IndexType.METADATA:
            self.go_back(self.chance.choice(commits))

    def go_back(self, target: str) -> None:
        self.shown.append(f"restore {target}")
        with self._mortal(), suppress(Refused):
            restore(self.table(), target)
            self.rows, self.newest = (dict(each) for each in self.states[target])

    def change_version(self) -> None:
        """To the other one. What it takes to go back to 9, every other service does."""
        self.come_to(10 if self.version == 9 else 9)

    def come_to(self, target: int) -> None:
        if target == 9 and self.index["index"] is IndexType.METADATA:
            return  # the index goes with the metadata table
        self.shown.append(f"version {target}")

        def merge(file_ids: Sequence[str]) -> None:
            full = planner_of(CompactionType.FULL, GroupFilter(file_groups=tuple(file_ids)), {})
            compact(self.base, self.storage, self.processes, full, clock=self.clock)

        with self._mortal(), suppress(Refused):
            change_version(self.table(), target, merge, is_upgrade=target == 10)
            if target == 9:
                assert not [path for path in self.base.rglob("*") if is_native_log(path.name)], "\n".join(self.shown)

    def convert(self) -> None:
        """To the other layout, and back."""
        self.lay_out("default" if self.snapshot().config.is_lsm_tree else "lsm_tree")

    def lay_out(self, layout: str) -> None:
        self.shown.append(f"layout {layout}")
        with self._mortal(), suppress(Refused):  # below version 10
            Conversion(self.base, self.storage, self.processes, self.clock).run(layout)
            assert self.snapshot().config.is_lsm_tree == (layout == "lsm_tree"), "\n".join(self.shown)

    @property
    def version(self) -> int | None:
        return self.snapshot().config.version.number

    # How it dies

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        """A death is where the act ends."""
        try:
            yield
        except Killed as death:
            self.shown.append(f"died after {death}")

    def die(self) -> None:
        """A process dies in the middle of something, or does not, and the next one tidies up."""
        acts = [self.upsert] * 3 + [self.delete, self.insert, self.overwrite, self.compact, self.compact_logs]
        act = self.chance.choice([*acts, self.clean, self.archive, self.savepoint, self.change_version, self.convert])
        before, version, was_lsm_tree = dict(self.rows), self.version, self.snapshot().config.is_lsm_tree
        kind = self.chance.choice([FaultKind.KILL, FaultKind.TORN])
        self.storage = FaultyStorage(Fault(kind, self.chance.randrange(150)))
        act()
        self.storage = FaultyStorage()
        self.processes.kill_all()
        age_temporary_files(self.base)
        if act == self.change_version and version is not None:
            self.come_to(19 - version)  # which no other service may do, where it was stopped between the properties
        if act == self.convert:
            self.lay_out("default" if was_lsm_tree else "lsm_tree")
        self.tidy_up()
        if self.found() != sorted(self.rows.values()):
            self.shown.append("it was nothing")
            self.rows = before

    def tidy_up(self) -> None:
        table = self.table()
        todo = [decision.instant for decision in find_decisions(table) if decision.step is not Step.LEAVE]
        roll_back_writes(self.table(), todo)

    def check(self) -> None:
        assert self.found() == sorted(self.rows.values()), "\n".join(self.shown)
        for write in self.snapshot().timeline.completed_writes:
            self.states.setdefault(write.time, (dict(self.rows), dict(self.newest)))
        # It has no partition in which a rollback left nothing, a savepoint is of the same instant as its commit, and a
        # clean that died has deleted what it still lists, until the next one goes on with it.
        now = self.snapshot()
        is_even = all(each.base_files or each.log_files for each in now.files)
        is_even = is_even and not any(each.action == "clean" for each in now.timeline.pending)
        if self.has_metadata_table and is_even and not now.timeline.savepoints:
            check_agrees(self.base)

    @property
    def has_metadata_table(self) -> bool:
        return (self.base / METADATA).exists()


def live(path: Path, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    version = chance.choice([9, 10, 10])
    table_type = chance.choice(["MERGE_ON_READ", "MERGE_ON_READ", "COPY_ON_WRITE"])
    by_event_time = chance.random() < 0.7
    index, indexes = chance.choice(INDEXES)
    has_metadata = index["index"] is IndexType.METADATA or chance.random() < 0.5
    is_lsm_tree = version == 10 and chance.random() < 0.5
    base = new_table(
        path,
        version=version,
        table_type=table_type,
        ordering_fields=("ts",) if by_event_time else (),
        indexes=indexes,
        has_metadata_table=has_metadata,
        is_lsm_tree=is_lsm_tree,
    )
    life = Life(chance, base, table_type, by_event_time, index)
    life.shown.append(
        f"seed {seed}: version {version} {table_type} {by_event_time=} {has_metadata=} {is_lsm_tree=} {index}"
    )
    acts = [life.upsert] * 6 + [life.delete] * 2 + [life.insert, life.overwrite, life.delete_partition]
    acts += [life.compact, life.compact_logs, life.compact_by_the_rules] * 2
    acts += [life.clean, life.clean, life.archive, life.savepoint, life.restore]
    acts += [life.change_version, life.convert] + [life.die] * 4
    for _ in range(steps):
        chance.choice(acts)()
        life.check()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(20)))])
def test_a_life(tmp_path: Path, seed: int) -> None:
    """After each act, and each death in the middle of one, the table holds the rows of the dictionary; and what comes
    back to version 9 has no native log left."""
    live(tmp_path / "t", seed, 14 if seed else 3)
