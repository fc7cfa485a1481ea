"""The life of a table on disk, step by step and at random: what writers and services leave, without Hudi.

Files hold what the service looks at and nothing else: timeline files are real, base files are a Parquet footer behind
padding, logs are padding. Every step ends at a moment between two acts of a writer.

Keeps:   1. equal seed, equal history;
         2. a write that has not completed puts base files only into new file groups: what it does to an old one only a
            listing knows (see `IncrementalView`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeward.format.avro.container import write_record
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, write_commit_metadata
from lakeward.format.timeline.compaction_plan import METRICS, CompactionOperation, CompactionPlan, write_compaction_plan
from lakeward.format.timeline.instant import comparable_time, parse_instant
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import take_snapshot
from tests.clocks import SkippingClock

SCHEMAS = ('{"type":"record","name":"r","fields":[]}', '{"type":"record","name":"r","fields":[{"name":"a"}]}')
FOOTER = b"\x00" + (1).to_bytes(4, "little") + b"PAR1"
_TEXTS = {"type": "array", "items": "string"}

PROPERTIES = {
    "hoodie.table.name": "t",
    "hoodie.table.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.checksum": "498511606",
}


@dataclass
class Write:
    """One that has begun and not ended."""

    time: str
    action: str
    stats: dict[str, list[WriteStat]] = field(default_factory=dict)
    operation: str = "UPSERT"
    plan: CompactionPlan | None = None


class TableHistory:
    def __init__(self, base: Path, seed: int, *, native: bool = False) -> None:
        """
        Args:
            native: the table has version 10, and its logs are native.
        """
        self.base = base
        self.native = native
        self.chance = random.Random(seed)
        self.partitions = ("",) if seed % 5 == 0 else ("p=1", "2024/01", "2024/02", "a b", "p=2")
        self.timeline = base / ".hoodie" / "timeline"
        self.timeline.mkdir(parents=True)
        self.pending: list[Write] = []
        self.clock = 0
        self.archives = 0
        self.log: list[str] = []
        self.set_properties()
        self.steps: dict[str, tuple[int, Callable[[], None]]] = {
            "write": (12, self.write),
            "begin": (5, self.begin_write),
            "complete": (5, self.complete_a_write),
            "roll back": (1, self.roll_back),
            "plan": (3, lambda: self.plan("compaction")),
            "plan logs": (2, lambda: self.plan("logcompaction")),
            "start plan": (3, self.start_plan),
            "complete plan": (4, self.complete_plan),
            "fail plan": (1, self.fail_plan),
            "unschedule": (1, self.unschedule),
            "clean": (4, self.clean),
            "replace": (1, self.replace_groups),
            "archive": (2, self.archive),
            "savepoint": (1, self.savepoint),
            "properties": (1, self.set_properties),
            "break": (1, self.break_a_file),
            "nothing": (1, lambda: None),
        }

    def step(self) -> str:
        names = list(self.steps)
        (name,) = self.chance.choices(names, [self.steps[name][0] for name in names])
        self.log.append(name)
        self.steps[name][1]()
        return name

    # Writers

    def write(self) -> None:
        self.begin_write()
        self._complete(self.pending.pop())

    def begin_write(self) -> None:
        write = Write(self._now(), "deltacommit", operation=self.chance.choice(["UPSERT", "INSERT", "DELETE"]))
        groups = self._groups()
        for partition, file_id in self.chance.sample(groups, min(len(groups), self.chance.randint(0, 3))):
            self._add_log(write, partition, file_id)
        if not groups or self.chance.random() < 0.3:
            partition = self.chance.choice(self.partitions)
            self._add_base(write, partition, f"{self.chance.getrandbits(64):016x}-0")
        self._pend(write, "requested")
        self._pend(write, "inflight", self._profile(write) if self.chance.random() < 0.5 else b"")
        self.pending.append(write)

    def rewrite(self, partition: str, file_id: str) -> str:
        """One write of a new base file, after which the group has a slice more. Returns its instant."""
        write = Write(self._now(), "deltacommit")
        self._pend(write, "requested")
        self._add_base(write, partition, file_id)
        self._complete(write)
        return write.time

    def complete_a_write(self) -> None:
        if writes := [write for write in self.pending if write.plan is None]:
            write = self.chance.choice(writes)
            self.pending.remove(write)
            if self.chance.random() < 0.2:
                self._leave_and_take_a_retried_file(write)
            self._complete(write)

    def roll_back(self) -> None:
        if writes := [write for write in self.pending if write.plan is None]:
            write = self.chance.choice(writes)
            self.pending.remove(write)
            self._delete_files(write)
            for file in self.timeline.glob(f"{write.time}.*"):
                file.unlink()
            self._service("rollback", b"rollback")

    def _leave_and_take_a_retried_file(self, write: Write) -> None:
        """A task ran twice; the committer deletes what no stat names, which a listing may have seen meanwhile."""
        for stats in write.stats.values():
            for number, stat in enumerate(stats):
                if stat.path is None or ".log." not in stat.path:
                    continue
                again = stat.path.replace("_1-0-0", "_1-0-9")
                (self.base / stat.path).rename(self.base / again)
                stats[number] = WriteStat(**{**_fields(stat), "path": again})
                return

    # Services

    def plan(self, action: str) -> None:
        snapshot = take_snapshot(LocalStorage(), str(self.base), clock=SkippingClock())
        busy = {*snapshot.pending_compactions, *snapshot.pending_log_compactions}
        slices = [
            slice_
            for group in snapshot.file_groups
            if (group.partition_path, group.file_id) not in busy
            and (slice_ := group.latest_slice) is not None
            and slice_.log_files
        ]
        if not slices or snapshot.timeline.broken:
            return
        operations = tuple(
            CompactionOperation(
                slice_.partition_path,
                slice_.file_id,
                slice_.base_instant,
                slice_.base_file.name if slice_.base_file else None,
                tuple(log.name.text for log in slice_.log_files),
                dict.fromkeys(METRICS, 1.0),
            )
            for slice_ in self.chance.sample(slices, self.chance.randint(1, min(3, len(slices))))
        )
        write = Write(self._now(), action, plan=CompactionPlan(operations), operation="COMPACT")
        assert write.plan is not None
        self._pend(write, "requested", self._plan_bytes(write.plan))
        self.pending.append(write)

    def _plan_bytes(self, plan: CompactionPlan) -> bytes:
        return write_compaction_plan(plan, native=self.native)

    def start_plan(self) -> None:
        if write := self._a_plan(started=False):
            assert write.plan is not None
            self._pend(write, "inflight")
            for operation in write.plan.operations:
                add = self._add_base if write.action == "compaction" else self._add_log
                add(write, operation.partition_path, operation.file_id)

    def complete_plan(self) -> None:
        if write := self._a_plan(started=True):
            self.pending.remove(write)
            if self.chance.random() < 0.5:
                self._delete_files(write)  # the attempt before; this one writes under other names
                again = {path: [_retried(stat) for stat in stats] for path, stats in write.stats.items()}
                for stats in again.values():
                    for stat in stats:
                        assert stat.path is not None and stat.file_size_in_bytes is not None
                        self._put(stat.path, stat.file_size_in_bytes)
                write.stats = again
            write.action = {"compaction": "commit", "logcompaction": "deltacommit"}[write.action]
            write.operation = {"commit": "COMPACT", "deltacommit": "LOG_COMPACT"}[write.action]
            self._complete(write)

    def fail_plan(self) -> None:
        """An attempt is rolled back: its files go, and so does its inflight file."""
        if write := self._a_plan(started=True):
            self._delete_files(write)
            write.stats = {}
            (self.timeline / f"{write.time}.{write.action}.inflight").unlink()

    def unschedule(self) -> None:
        if write := self._a_plan(started=False):
            self.pending.remove(write)
            (self.timeline / f"{write.time}.{write.action}.requested").unlink()

    def clean(self) -> None:
        """Whole old slices, of a few groups."""
        snapshot = take_snapshot(LocalStorage(), str(self.base), clock=SkippingClock())
        deleted: dict[str, list[str]] = {}
        failed: dict[str, list[str]] = {}
        busy = {*snapshot.pending_compactions, *snapshot.pending_log_compactions}
        for group in snapshot.file_groups:
            if len(group.slices) < 2 or (group.partition_path, group.file_id) in busy or self.chance.random() < 0.5:
                continue
            for slice_ in group.slices[1:]:
                for file in ([slice_.base_file] if slice_.base_file else []) + list(slice_.log_files):
                    where = failed if self.chance.random() < 0.05 else deleted
                    where.setdefault(group.partition_path, []).append(Path(file.path).name)
                    if where is deleted or self.chance.random() < 0.5:
                        (self.base / file.path).unlink()
        if deleted or failed or self.chance.random() < 0.2:
            self._service("clean", clean_metadata(deleted, failed))

    def replace_groups(self) -> None:
        groups = self._groups()
        if not groups:
            return
        partition, _ = self.chance.choice(groups)
        write = Write(self._now(), "replacecommit", operation="INSERT_OVERWRITE")
        self._pend(write, "requested")
        self._add_base(write, partition, f"{self.chance.getrandbits(64):016x}-0")
        replaced = {partition: [file_id for path, file_id in groups if path == partition]}
        self._put_completed(write, replace_metadata(write.stats, replaced))

    def archive(self) -> None:
        """The oldest completed instants leave, into a history file of their own."""
        found = [i for file in sorted(self.timeline.iterdir()) if (i := parse_instant(file.name, 2)) is not None]
        by_time: dict[str, list[str]] = {}
        for instant in found:
            by_time.setdefault(instant.time, []).append(instant.file_name)
        rows = []
        names: list[str] = []
        for time in sorted(by_time, key=comparable_time)[: self.chance.randint(0, 6)]:
            completed = [i for i in found if i.time == time and i.completion_time]
            if not completed or any(i.action in ("savepoint", "replacecommit") for i in completed):
                break
            if (self.timeline / completed[0].file_name).stat().st_size == 0:
                break
            rows += [(time, i.completion_time, i.action) for i in completed]
            names += sorted(by_time[time], key=lambda name: "_" in name)
        if len(names) == len(found) or not rows:
            return
        history = self.timeline / "history"
        history.mkdir(exist_ok=True)
        self.archives += 1
        name = f"{rows[0][0]}_{rows[-1][0]}_0.parquet"
        columns = dict(zip(("instantTime", "completionTime", "action"), zip(*rows, strict=True), strict=True))
        table = pa.table({key: list(values) for key, values in columns.items()})
        pq.write_table(table.append_column("plan", pa.nulls(len(rows), pa.binary())), history / name)
        files = [{"fileName": file.name} for file in sorted(history.glob("*.parquet"))]
        (history / f"manifest_{self.archives}").write_text(json.dumps({"files": files}))
        (history / "_version_").write_text(str(self.archives))
        for name in names:
            (self.timeline / name).unlink()

    def savepoint(self) -> None:
        completed = [i for file in self.timeline.iterdir() if (i := parse_instant(file.name, 2)) and i.completion_time]
        writes = [i for i in completed if i.action in ("commit", "deltacommit")]
        if writes and not list(self.timeline.glob("*.savepoint")):
            time = self.chance.choice(sorted(writes, key=lambda i: i.time)).time
            (self.timeline / f"{time}.savepoint.inflight").touch()
            snapshot = take_snapshot(LocalStorage(), str(self.base), clock=SkippingClock())
            files: dict[str, tuple[str, ...]] = {}
            for slice_ in snapshot.latest_slices:
                names = [] if slice_.base_file is None else [slice_.base_file.name]
                names += [log.name.text for log in slice_.log_files]
                files[slice_.partition_path] = (*files.get(slice_.partition_path, ()), *names)
            saved = write_savepoint_metadata(SavepointMetadata("t", "", files))
            (self.timeline / f"{time}_{self._now()}.savepoint").write_bytes(saved)

    def set_properties(self) -> None:
        lines = {**PROPERTIES, "hoodie.some.number": str(self.chance.randint(0, 10**6))}
        if self.native:
            lines["hoodie.table.version"] = "10"
        file = self.base / ".hoodie" / "hoodie.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def break_a_file(self) -> None:
        """A completed commit that is not what it promises; who wrote which files is not known then."""
        if self.chance.random() < 0.3:
            (self.timeline / f"{self._now()}.upgrade").touch()
            return
        write = Write(self._now(), "deltacommit")
        groups = self._groups()
        for partition, file_id in self.chance.sample(groups, min(1, len(groups))):
            self._add_log(write, partition, file_id)
        self._put_completed(write, self.chance.choice([b"", b"torn"]))

    # How things are formatted

    def _now(self) -> str:
        self.clock += 1
        minutes, seconds = divmod(self.clock, 60)
        return f"20260101{minutes // 60:02}{minutes % 60:02}{seconds:02}000"

    def _groups(self) -> list[tuple[str, str]]:
        snapshot = take_snapshot(LocalStorage(), str(self.base), clock=SkippingClock())
        return [(group.partition_path, group.file_id) for group in snapshot.file_groups]

    def _a_plan(self, *, started: bool) -> Write | None:
        plans = [
            write
            for write in self.pending
            if write.plan is not None and started == (self.timeline / f"{write.time}.{write.action}.inflight").exists()
        ]
        return self.chance.choice(plans) if plans else None

    def _add_base(self, write: Write, partition: str, file_id: str) -> None:
        self._add(write, partition, file_id, f"{file_id}_1-0-0_{write.time}.parquet")

    def _add_log(self, write: Write, partition: str, file_id: str) -> None:
        if not self.native or self.chance.random() < 0.2:  # some of before the upgrade
            self._add(write, partition, file_id, f".{file_id}_{write.time}.log.1_1-0-0")
            return
        for kind in self.chance.choice([["log"], ["deletes"], ["log", "deletes"]]):
            self._add(write, partition, file_id, f"{file_id}_1-0-0_{write.time}_1.{kind}.parquet")

    def _add(self, write: Write, partition: str, file_id: str, name: str) -> None:
        path = f"{partition}/{name}" if partition else name
        size = self._put(path, self.chance.randint(20, 200))
        stat = WriteStat(
            file_id=file_id,
            path=path,
            partition_path=partition,
            file_size_in_bytes=size,
            num_writes=self.chance.choice([None, 5]),
        )
        write.stats.setdefault(partition, []).append(stat)

    def _put(self, path: str, size: int) -> int:
        file = self.base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / ".hoodie_partition_metadata").touch()
        file.write_bytes(FOOTER.rjust(size, b"x"))
        return size

    def _delete_files(self, write: Write) -> None:
        for stats in write.stats.values():
            for stat in stats:
                assert stat.path is not None
                (self.base / stat.path).unlink()

    def _pend(self, write: Write, state: str, data: bytes = b"") -> None:
        (self.timeline / f"{write.time}.{write.action}.{state}").write_bytes(data)

    def _profile(self, write: Write) -> bytes:
        stats = {path: tuple(WriteStat(file_id=s.file_id) for s in each) for path, each in write.stats.items()}
        return write_commit_metadata(CommitMetadata(stats, operation_type=write.operation))

    def _complete(self, write: Write) -> None:
        metadata = CommitMetadata(
            {path: tuple(stats) for path, stats in write.stats.items()},
            extra_metadata={"schema": self.chance.choice(SCHEMAS)},
            operation_type=write.operation,
        )
        self._put_completed(write, write_commit_metadata(metadata))

    def _put_completed(self, write: Write, data: bytes) -> None:
        (self.timeline / f"{write.time}_{self._now()}.{write.action}").write_bytes(data)

    def _service(self, action: str, data: bytes) -> None:
        time = self._now()
        (self.timeline / f"{time}.{action}.requested").write_bytes(b"plan")
        (self.timeline / f"{time}.{action}.inflight").touch()
        (self.timeline / f"{time}_{self._now()}.{action}").write_bytes(data)


def clean_metadata(deleted: dict[str, list[str]], failed: dict[str, list[str]], *, version: int = 2) -> bytes:
    partition = {
        "type": "record",
        "name": "HoodieCleanPartitionMetadata",
        "fields": [
            {"name": "partitionPath", "type": "string"},
            {"name": "successDeleteFiles", "type": _TEXTS},
            {"name": "failedDeleteFiles", "type": _TEXTS},
            {"name": "isPartitionDeleted", "type": ["null", "boolean"]},
        ],
    }
    schema = {
        "type": "record",
        "name": "HoodieCleanMetadata",
        "fields": [
            {"name": "partitionMetadata", "type": {"type": "map", "values": partition}},
            {"name": "version", "type": ["int", "null"]},
        ],
    }
    cleaned = {
        path: {
            "partitionPath": path,
            "successDeleteFiles": deleted.get(path, []),
            "failedDeleteFiles": failed.get(path, []),
            "isPartitionDeleted": False,
        }
        for path in deleted.keys() | failed.keys()
    }
    return write_record(schema, {"partitionMetadata": cleaned, "version": version})


def replace_metadata(
    stats: dict[str, list[WriteStat]], replaced: dict[str, list[str]], extra_metadata: dict[str, str] | None = None
) -> bytes:
    stat = {
        "type": "record",
        "name": "HoodieWriteStat",
        "fields": [{"name": name, "type": "string"} for name in ("fileId", "path", "partitionPath")],
    }
    schema = {
        "type": "record",
        "name": "HoodieReplaceCommitMetadata",
        "fields": [
            {"name": "partitionToWriteStats", "type": {"type": "map", "values": {"type": "array", "items": stat}}},
            {"name": "partitionToReplaceFileIds", "type": {"type": "map", "values": _TEXTS}},
            {"name": "extraMetadata", "type": {"type": "map", "values": "string"}},
        ],
    }
    written = {
        path: [{"fileId": s.file_id, "path": s.path, "partitionPath": path} for s in each]
        for path, each in stats.items()
    }
    record = {
        "partitionToWriteStats": written,
        "partitionToReplaceFileIds": replaced,
        "extraMetadata": extra_metadata or {},
    }
    return write_record(schema, record)


def _retried(stat: WriteStat) -> WriteStat:
    assert stat.path is not None
    return WriteStat(**{**_fields(stat), "path": stat.path.replace("_1-0-0", "_1-0-7")})


def _fields(stat: WriteStat) -> dict[str, object]:
    return {name: getattr(stat, name) for name in stat.__slots__}
