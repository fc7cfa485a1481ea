"""A table of version 10 laid out by hand, write by write, and beside it the rows that it holds, in dicts.

No release writes such tables, and neither does this go through our writer: what both did wrong would look right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.engine.task.operation_spec import OperationKind
from lakeward.format.file_name import NativeLogKind
from lakeward.format.parquet.base_file import SORTED_BY_KEY
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import METRICS, CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.merge.rules.merge_rules import RECORD_KEY_FIELD
from lakeward.services.compaction.plan.cost import log_cost
from lakeward.services.compaction.plan.decision import HYBRID_STRATEGY, LOG_STRATEGY, log_operation
from lakeward.services.compaction.plan.log_runs import files_of_run
from lakeward.services.compaction.plan.slice_profile import profile_slice
from lakeward.services.compaction.run.compactor import CompactionReport
from lakeward.table.timeline.service_instants import PLANNED_BY
from tests.format.log.native_log.native_files import SCHEMA, TABLE_JSON, native_name
from tests.our_reader import read_rows, scan
from tests.read.native_slices import COMMIT, EVENT, Flush, native, table_row
from tests.version_10 import judged_rows

PARTITION = "p"
Rows = dict[str, tuple[int | None, str]]


@dataclass(frozen=True)
class Record:
    key: str
    ts: int | None
    """None in a delete that always wins."""
    value: str | None
    """None in a delete."""


@dataclass
class Group:
    base: dict[str, Record]
    logs: list[tuple[str, tuple[Record, ...]]] = field(default_factory=list)


@dataclass(frozen=True)
class Begun:
    """A write that has not completed."""

    instant: str
    records: Mapping[str, tuple[Record, ...]]
    """Records by file group."""


class NativeTable:
    def __init__(self, base: Path, *, by_event_time: bool, **more: str) -> None:
        """
        Args:
            more: properties, `__` for the dots in their names.
        """
        self.base = base
        self.by_event_time = by_event_time
        self.is_lsm_tree = more.get("hoodie__table__storage__layout") == "LSM_TREE"
        self.groups: dict[str, Group] = {}
        self.timeline = base / ".hoodie" / "timeline"
        (self.timeline / "history").mkdir(parents=True)
        (base / PARTITION).mkdir()
        (base / PARTITION / ".hoodie_partition_metadata").touch()
        mode = "EVENT_TIME_ORDERING" if by_event_time else "COMMIT_TIME_ORDERING"
        properties = {
            "hoodie.table.name": "t",
            "hoodie.table.version": "10",
            "hoodie.timeline.layout.version": "2",
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.record.merge.mode": mode,
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.table.checksum": "498511606",
        } | {name.replace("__", "."): value for name, value in more.items()}
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (base / ".hoodie" / "hoodie.properties").write_text(text)

    def insert(self, file_id: str, records: Iterable[Record]) -> None:
        """A new file group, as its base file."""
        instant, of_group = self.now(), {record.key: record for record in records}
        self._pend(instant, [file_id])
        name = f"{file_id}_0-0-0_{instant}.parquet"
        rows = [table_row(key, each.ts, str(each.value), instant) for key, each in sorted(of_group.items())]
        table = pa.Table.from_pylist(rows, SCHEMA).replace_schema_metadata({SORTED_BY_KEY: RECORD_KEY_FIELD})
        pq.write_table(table, self.base / PARTITION / name)
        self._complete(instant, [(file_id, name)])
        self.groups[file_id] = Group(of_group)

    def begin(self, records: Mapping[str, Iterable[Record]]) -> Begun:
        """A write into logs of these file groups, which no reader sees yet."""
        begun = Begun(self.now(), {file_id: tuple(each) for file_id, each in records.items()})
        self._pend(begun.instant, begun.records)
        return begun

    def complete(self, begun: Begun) -> None:
        written = []
        for file_id, records in begun.records.items():
            flush = Flush(
                begun.instant,
                [(each.key, each.ts, each.value) for each in records if each.value is not None],
                [(each.key, each.ts) for each in records if each.value is None],
            )
            for content in native(flush, EVENT if self.by_event_time else COMMIT).items():
                kind = NativeLogKind.DELETES if ".deletes." in content[0] else NativeLogKind.DATA
                name = native_name(kind, instant=begun.instant, file_id=file_id).text
                (self.base / PARTITION / name).write_bytes(content[1])
                written.append((file_id, name))
            logs = self.groups[file_id].logs
            logs.append((begun.instant, records))
            logs.sort(key=lambda log: log[0])
        self._complete(begun.instant, written)

    def write(self, records: Mapping[str, Iterable[Record]]) -> None:
        self.complete(self.begin(records))

    def plan_log_compaction(self, file_id: str) -> str:
        """What a program of Hudi's schedules: the logs of the group's newest slice into one. Returns its instant."""
        instant = self.now()
        slice_ = next(each for each in scan(self.base).latest_slices if each.file_id == file_id)
        logs = [log.name.text for log in slice_.log_files]
        base_file = None if slice_.base_file is None else slice_.base_file.name
        metrics = dict.fromkeys(METRICS, 1.0)
        operation = CompactionOperation(PARTITION, file_id, slice_.base_instant, base_file, tuple(logs), metrics)
        plan = CompactionPlan((operation,), strategy=LOG_STRATEGY, preserve_metadata=True)
        content = write_compaction_plan(plan, native=True)
        (self.timeline / f"{instant}.logcompaction.requested").write_bytes(content)
        return instant

    def plan_run(self, file_id: str, writes: int) -> str:
        """A hybrid plan of Lakeward's: a LOG over the logs of the group's newest writes. Returns its instant."""
        instant, snapshot = self.now(), scan(self.base)
        slice_ = next(each for each in snapshot.latest_slices if each.file_id == file_id)
        profile = profile_slice(slice_, snapshot.log_compactions.get(slice_.group_id, ()))
        newest = sorted({log.instant for log in slice_.log_files})[-writes:]
        run = files_of_run(profile, tuple(log for log in profile.live if log.instant in newest))
        operation = log_operation(slice_, slice_.log_files, log_cost(run_bytes=1, logs=len(run)), run=run)
        plan = CompactionPlan(
            (operation,), version=3, strategy=HYBRID_STRATEGY, extra_metadata={PLANNED_BY: "lakeward"}
        )
        (self.timeline / f"{instant}.compaction.requested").write_bytes(write_compaction_plan(plan, native=True))
        return instant

    def compacted(self, report: CompactionReport) -> None:
        """What FULL operations do to the rows; a LOG does nothing to them."""
        for plan in report.plans:
            for operation in plan.operations:
                if operation.kind is OperationKind.FULL:
                    group = self.groups[operation.file_id]
                    group.base, group.logs = self._merged(group), []

    @property
    def rows(self) -> Rows:
        """What a query gives."""
        merged = [self._merged(group) for group in self.groups.values()]
        return {key: (each.ts, str(each.value)) for of_group in merged for key, each in of_group.items()}

    def check(self, base: Path | None = None) -> None:
        """Our reader and the second one give these rows, of the table or of a copy of it."""
        base = base or self.base
        assert {row["id"]: (row["ts"], row["v"]) for row in read_rows(base)} == self.rows
        judged = judged_rows(base, ordering_fields=("ts",) if self.by_event_time else ())
        assert {key: (row["ts"], row["v"]) for key, row in judged.items()} == self.rows

    def now(self) -> str:
        """An instant behind all that the timeline has."""
        names = [path.name for path in self.timeline.iterdir() if path.is_file()]
        times = [part for name in names for part in name.partition(".")[0].split("_")]
        newest = max(times, default="20260101000000000")
        moment = datetime.strptime(newest[:14], "%Y%m%d%H%M%S") + timedelta(milliseconds=int(newest[14:]) + 1)
        return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"

    def _merged(self, group: Group) -> dict[str, Record]:
        """The logs among themselves, then onto the base; in the layout `lsm_tree` the base is the oldest."""
        won = dict(group.base) if self.is_lsm_tree else {}
        for _, records in group.logs:
            for record in records:
                won[record.key] = self._newer(won.get(record.key), record)
        rows = (
            won
            if self.is_lsm_tree
            else group.base | {key: self._newer(group.base.get(key), record) for key, record in won.items()}
        )
        return {key: record for key, record in rows.items() if record.value is not None}

    def _newer(self, old: Record | None, new: Record) -> Record:
        if old is None or not self.by_event_time or old.ts is None or new.ts is None:
            return new
        return new if new.ts >= old.ts else old

    def _pend(self, instant: str, file_ids: Iterable[str]) -> None:
        profile = CommitMetadata(
            {PARTITION: tuple(WriteStat(file_id=each) for each in file_ids)}, operation_type="UPSERT"
        )
        (self.timeline / f"{instant}.deltacommit.requested").touch()
        (self.timeline / f"{instant}.deltacommit.inflight").write_bytes(write_commit_metadata(profile))

    def _complete(self, instant: str, written: Iterable[tuple[str, str]]) -> None:
        stats = tuple(
            WriteStat(
                file_id=file_id,
                path=f"{PARTITION}/{name}",
                partition_path=PARTITION,
                file_size_in_bytes=(self.base / PARTITION / name).stat().st_size,
                num_writes=5,
            )
            for file_id, name in written
        )
        metadata = CommitMetadata({PARTITION: stats}, extra_metadata={"schema": TABLE_JSON}, operation_type="UPSERT")
        (self.timeline / f"{instant}_{self.now()}.deltacommit").write_bytes(write_commit_metadata(metadata))
