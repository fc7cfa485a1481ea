"""A table of the layout `lsm_tree`, or of `default`, with a log compaction behind it, written by our writer, with a
metadata table or without, and what its readers must give whatever happens to the logs that were merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakeward.base.clock import Clock
from lakeward.format.file_name import parse_any_log
from lakeward.format.timeline.compaction_plan import METRICS, CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.index.index_type import IndexType
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.plan.hudi_cleaner_keys import CleanRules
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.cleaner import CleanReport, clean_and_purge
from lakeward.services.clean.run.purge import PurgedRun
from lakeward.services.compaction.plan.decision import HYBRID_STRATEGY, LOG_STRATEGY
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.timeline.service_instants import PLANNED_BY
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.bench import NOTHING, Bench
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.judged import judged_values
from tests.write.writing import new_table, values, write

KEYS = 6
BUCKET = {"index": IndexType.BUCKET, "buckets": 1}


def rules(retain: int = 2, *, window: float = 0.0, keep: float = 0.0, **options: Any) -> CleanRules:
    policy = CleanPolicy(CleanPolicyKind.COMMITS, retain)
    return CleanRules(CleanOptions(policy, reader_window=window, **options), keep_deleted=keep, quarantine_max=None)


def retire(
    base: Path | str,
    storage: Storage,
    processes: ScriptedProcesses,
    how: CleanRules | None = None,
    *,
    clock: Clock | None = None,
    **options: object,
) -> tuple[CleanReport, tuple[PurgedRun, ...]]:
    """Clean and purge, by two commits and for no reader unless `how` says otherwise."""
    table = serviced_table(str(base), storage, processes, **options)
    table = replace(table, clock=clock or table.clock)
    return clean_and_purge(table, how or rules(), selected=lambda _: None, is_part=False)


@dataclass
class RetiringTable:
    base: Path
    has_metadata_table: bool
    clock: SkippingClock = field(default_factory=SkippingClock)
    rows: dict[str, str] = field(default_factory=dict)
    past: dict[str, dict[str, str]] = field(default_factory=dict)
    """What there was as of each write."""
    processes: ScriptedProcesses = field(default_factory=ScriptedProcesses)

    def upsert(self, number: int) -> str:
        """All keys get another value, one goes, and one comes."""
        keys = {f"k{each}": f"{each}.{number}" for each in range(KEYS)} | {f"n{number}": "new"}
        batch = [(key, number, "p", value) for key, value in keys.items()]
        instant = write(self.base, batch, clock=self.clock, **BUCKET).instant
        self.rows |= keys
        assert instant is not None
        self.past[instant] = dict(self.rows)
        return instant

    def delete(self, key: str, number: int) -> str:
        instant = write(self.base, [(key, number, "p", None)], "delete", clock=self.clock, **BUCKET).instant
        del self.rows[key]
        assert instant is not None
        self.past[instant] = dict(self.rows)
        return instant

    @property
    def slice(self) -> FileSlice:
        (slice_,) = scan(self.base).latest_slices
        return slice_

    def plan_log_compaction(self, logs: Iterable[str] | None = None, *, foreign: bool = True) -> str:
        """Schedule it as a program of Hudi's does, or as a run of a hybrid plan: all logs of the newest slice into one.
        Returns its instant."""
        slice_ = self.slice
        names = tuple(slice_.log_names if logs is None else logs)
        base_file = None if slice_.base_file is None else slice_.base_file.name
        metrics = dict.fromkeys(METRICS, 1.0)
        operation = CompactionOperation("p", slice_.file_id, slice_.base_instant, base_file, names, metrics)
        plan = CompactionPlan((operation,), strategy=LOG_STRATEGY, preserve_metadata=True)
        if not foreign:
            is_lsm_tree = scan(self.base).config.is_lsm_tree
            run = replace(operation, operation_type="LOG", run=names if is_lsm_tree else None)
            plan = CompactionPlan((run,), version=3, strategy=HYBRID_STRATEGY, extra_metadata={PLANNED_BY: "lakeward"})
        table = self.serviced()
        (instant,) = table.minter(scan(self.base)).mint()
        native = scan(self.base).config.version.has_native_logs
        action = "logcompaction" if foreign else "compaction"
        timeline = self.base / ".hoodie" / "timeline"
        (timeline / f"{instant}.{action}.requested").write_bytes(write_compaction_plan(plan, native=native))
        return instant

    def serviced(self) -> ServicedTable:
        return replace(serviced_table(str(self.base), LocalStorage(), self.processes), clock=self.clock)

    def log_compact(self, *, foreign: bool = False) -> str:
        instant = self.plan_log_compaction(foreign=foreign)
        bench = Bench(self.base)
        bench.clock = self.clock
        (plan,) = bench.compactor(NOTHING).compact().plans
        assert plan.instant == instant and plan.completion_time is not None
        return instant

    def clean(
        self, how: CleanRules | None = None, *, storage: Storage | None = None, **options: object
    ) -> tuple[CleanReport, tuple[PurgedRun, ...]]:
        return retire(self.base, storage or LocalStorage(), self.processes, how, clock=self.clock, **options)

    @property
    def logs(self) -> list[str]:
        """Names of the row logs that there are."""
        return sorted(
            path.name for path in (self.base / "p").iterdir() if parse_any_log(path.name, native=True) is not None
        )

    def check(self) -> None:
        """Readers give the rows that there are, by listing and by the metadata table, and so does the second reader
        where logs are native."""
        assert values(read_rows(self.base)) == self.rows
        if scan(self.base).config.version.has_native_logs:
            assert judged_values(self.base) == self.rows
        if self.has_metadata_table:
            check_agrees(self.base)


def retiring_table(
    base: Path,
    *,
    has_metadata_table: bool = True,
    by_event_time: bool = True,
    version: int = 10,
    is_lsm_tree: bool = True,
) -> RetiringTable:
    """A base file and logs of it."""
    more = {} if by_event_time else {"ordering_fields": ()}
    new_table(base, version=version, is_lsm_tree=is_lsm_tree, has_metadata_table=has_metadata_table, **more)
    table = RetiringTable(base, has_metadata_table)
    for number in range(4):
        table.upsert(number)
    if not by_event_time:  # otherwise the delete always wins, and no log compaction takes it
        table.delete("k1", 4)
    return table
