"""Cases of a clean as text: a table and a policy in, what happens to every file slice out.

`clean.cases` says how they are written.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from lakeward.format.file_name import CDC_SUFFIX, LogFileName
from lakeward.format.timeline.compaction_plan import CompactionOperation, CompactionPlan
from lakeward.format.timeline.instant import Instant, State, instant_file_name, parse_instant, parse_instant_time
from lakeward.services.clean.plan.decision import CleanOutcome, ConsumerHold, SliceDecision, SourceDecision
from lakeward.services.clean.plan.keeper import Keeper
from lakeward.services.clean.plan.planner import plan_clean
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.plan.reader_protection import Watermark
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, FrozenGroup, LogFile
from lakeward.table.quarantine import Manifest, QuarantinedRun, QuarantineKind
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import CDC_ENABLED, LSM_TREE, PARTIAL_UPDATE_MODE, STORAGE_LAYOUT
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import TOKEN, completed, minute, pending, snapshot_of

LOG, CHANGE_LOG = "+", "~"
PENDING_MAPS = {"compaction": "pending_compactions", "logcompaction": "pending_log_compactions"}
PROPERTIES_OF = {
    "": {},
    "changes": {CDC_ENABLED: "true"},
    "version 8": {"hoodie.table.version": "8"},
    "partial": {PARTIAL_UPDATE_MODE: "KEEP_VALUES"},
}


@dataclass
class CleanTable:
    """What the lines of a case have said so far."""

    policy: CleanPolicy = field(default_factory=CleanPolicy)
    now: float = 0.0
    partitions: tuple[str, ...] | None = None
    window: float = 0.0
    watermarks: list[Watermark] = field(default_factory=list)
    left_in_place: dict[str, QuarantinedRun] = field(default_factory=dict)
    instants: list[Instant] = field(default_factory=list)
    groups: dict[tuple[str, str], FileGroup] = field(default_factory=dict)
    replaced: dict[tuple[str, str], str] = field(default_factory=dict)
    frozen: list[FrozenGroup] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=lambda: {STORAGE_LAYOUT: LSM_TREE})
    retires_by_anchors: bool = False
    fields: dict[str, Any] = field(default_factory=lambda: defaultdict(dict))

    def snapshot(self) -> TableSnapshot:
        return snapshot_of(
            [group for group_id, group in self.groups.items() if group_id not in self.replaced],
            self.instants,
            properties=self.properties,
            replaced=self.replaced,
            replaced_groups=tuple(group for group_id, group in self.groups.items() if group_id in self.replaced),
            frozen=tuple(self.frozen),
            **{name: dict(values) for name, values in self.fields.items()},
        )

    def plan(self) -> CleanOutcome:
        return plan_clean(
            self.snapshot(),
            self.policy,
            now=self.now,
            partitions=self.partitions,
            reader_window=self.window,
            watermarks=self.watermarks,
            left_in_place=self.left_in_place,
            retires_by_anchors=self.retires_by_anchors,
        )


def read_table(text: str) -> CleanTable:
    table = CleanTable()
    for line in text.splitlines():
        _read_line(table, line)
    return table


def _read_line(table: CleanTable, line: str) -> None:
    match line.split():
        case ["policy", kind, retain]:
            table.policy = CleanPolicy(CleanPolicyKind(kind), int(retain))
        case ["now", time]:
            table.now = parse_instant_time(minute(int(time)), UTC) / 1000
        case ["window", minutes]:
            table.window = 60.0 * int(minutes)
        case ["consumer", name, "unknown"]:
            table.watermarks.append(Watermark(name, None, "nobody knows"))
        case ["consumer", name, "at", time]:
            table.watermarks.append(Watermark(name, minute(int(time))))
        case ["left_in_place", *files, "of", clean, "until", end]:
            until = parse_instant_time(minute(int(end)), UTC) / 1000
            manifest = Manifest(QuarantineKind.CLEAN, 0.0, until, in_place=True, files=())
            run = QuarantinedRun(minute(int(clean)), QuarantineKind.CLEAN, (manifest,))
            table.left_in_place.update(dict.fromkeys(map(path_of, files), run))
        case ["layout", "default", *words]:
            table.properties = PROPERTIES_OF[" ".join(word for word in words if word != "asked")]
            table.retires_by_anchors = "asked" in words
        case ["only", *partitions]:
            table.partitions = tuple(partitions)
        case ["done", action, *times]:
            for time in times:
                requested, _, at = time.partition("-")
                table.instants += completed(minute(int(requested)), action, minute(int(at or requested)))
        case ["group", group, *slices]:
            group_id = _group_id(group)
            table.groups[group_id] = FileGroup(*group_id, _slices(group_id, slices))
        case ["replaced", group, "by", time]:
            table.replaced[_group_id(group)] = minute(int(time))
        case ["frozen", group]:
            table.frozen.append(FrozenGroup(*_group_id(group), minute(1), "nobody knows"))
        case ["merged", group, time, *logs]:
            is_own = logs[-1] != "elsewhere"
            group_id = _group_id(group)
            names = frozenset(_name(group_id, log) for log in (logs if is_own else logs[:-1]))
            done = table.fields["log_compactions"].get(group_id, ())
            merged = LogCompaction(
                minute(int(time)), names, ranks_last=STORAGE_LAYOUT in table.properties, is_own=is_own
            )
            table.fields["log_compactions"][group_id] = (*done, merged)
        case ["savepoint", time, *files]:
            table.instants += [_instant(minute(int(time)), "savepoint")]
            table.fields["savepointed"][minute(int(time))] = frozenset(
                f"{partition}/{name}" for (partition, _), name in map(_file, files)
            )
        case ["pending", ("compaction" | "logcompaction") as action, time, group, "from", base, *files]:
            group_id = _group_id(group)
            table.instants += pending(minute(int(time)), action)
            table.fields[PENDING_MAPS[action]][group_id] = minute(int(time))
            names = [_name(group_id, file) for file in files]
            operation = CompactionOperation(
                *group_id,
                base_instant=minute(int(base)),
                base_file=next((name for name in names if name.endswith(".parquet")), None),
                log_files=tuple(name for name in names if not name.endswith(".parquet")),
                metrics={},
            )
            table.fields["plans"][minute(int(time))] = CompactionPlan((operation,))
        case ["pending", "clustering", time, group]:
            table.instants += pending(minute(int(time)), "clustering")
            table.fields["pending_clusterings"][_group_id(group)] = minute(int(time))
        case ["pending", action, time]:
            table.instants += pending(minute(int(time)), action)
        case _:
            raise AssertionError(f"no such line: {line}")


def _instant(time: str, action: str) -> Instant:
    instant = parse_instant(instant_file_name(time, action, State.COMPLETED, 2, time), 2)
    assert instant is not None
    return instant


def _group_id(text: str) -> tuple[str, str]:
    partition, _, file_id = text.rpartition("/")
    return partition or "p", file_id


def _file(text: str) -> tuple[tuple[str, str], str]:
    group, _, file = text.partition("@")
    return _group_id(group), _name(_group_id(group), file)


def path_of(text: str) -> str:
    """The path of `group@10`, `group@+10` or `group@~10`."""
    (partition, _), name = _file(text)
    return f"{partition}/{name}"


def _name(group_id: tuple[str, str], file: str) -> str:
    """The name of `10`, a base file, of `+10`, a log, or of `~10`, a log of changes."""
    if file.startswith((LOG, CHANGE_LOG)):
        return _log_name(group_id[1], file).text
    return f"{group_id[1]}_{TOKEN}_{minute(int(file))}.parquet"


def _log_name(file_id: str, file: str) -> LogFileName:
    suffix = CDC_SUFFIX if file.startswith(CHANGE_LOG) else ""
    return LogFileName(file_id, minute(int(file[1:])), 1, TOKEN, suffix)


def _slices(group_id: tuple[str, str], words: list[str]) -> tuple[FileSlice, ...]:
    """Newest first, from words that are oldest first: a base or an opened slice begins one, a log goes on with it."""
    slices: list[list[str]] = []
    for word in words:
        if not word.startswith((LOG, CHANGE_LOG)) or not slices:
            slices.append([])
        slices[-1].append(word)
    return tuple(_slice(group_id, files) for files in reversed(slices))


def _slice(group_id: tuple[str, str], files: list[str]) -> FileSlice:
    partition, file_id = group_id
    opened = minute(int(files[0].strip("+?")))
    logs = []
    base = None
    for file in files:
        if file.endswith("?"):
            continue
        name = _name(group_id, file)
        if file.startswith((LOG, CHANGE_LOG)):
            logs.append(LogFile(_log_name(file_id, file), partition, 1))
        else:
            base = BaseFile(file_id, opened, name, partition, 10, TOKEN)
    return FileSlice(partition, file_id, opened, base, tuple(logs))


# ------------------------------------------------------------------------------------------------ the outcome as text


def format_outcome(outcome: CleanOutcome) -> str:
    lines = [f"earliest {'none' if outcome.earliest is None else _minute(outcome.earliest.time)}"]
    lines += [_format(decision) for decision in outcome.decisions]
    lines += [_format_source(source) for source in outcome.sources]
    lines += [f"{group.file_id}: frozen" for group in outcome.frozen]
    lines += [f"{hold.consumer} holds {hold.commits}, {_behind(hold)}" for hold in outcome.consumers]
    lines += ["no plan yet" if outcome.is_left_for_readers else "no plan"] if outcome.hindrance else []
    return "\n".join(lines)


def _format(decision: SliceDecision) -> str:
    slice_ = decision.slice
    partition = "" if slice_.partition_path == "p" else f"{slice_.partition_path}/"
    where = f"{partition}{slice_.file_id} {_minute(slice_.base_instant)}"
    if decision.is_dead:
        return f"{where}: dead, {' '.join(decision.dead_by)}"
    return f"{where}: stays, {', '.join(map(_keeper, decision.keepers))}"


def _format_source(source: SourceDecision) -> str:
    log = f"{source.slice.file_id} +{_minute(source.log.instant)}"
    if source.retires:
        return f"{log}: retires, merged by {_minute(source.merged_by)}"
    return f"{log}: waits, {', '.join(map(_keeper, source.keepers))}"


def _keeper(keeper: Keeper) -> str:
    words = [str(keeper.reason)]
    if keeper.consumer is not None:
        words.append(keeper.consumer)
    if keeper.instant is not None:
        words.append(f"of {_minute(keeper.instant)}")
    if keeper.commits is not None:
        words.append(f"for {keeper.commits} more")
    if keeper.versions is not None:
        words.append(f"for {keeper.versions} more slices")
    if keeper.read_up_to is not None:
        words.append(f"up to {_minute(keeper.read_up_to)}")
    if keeper.not_before is not None:
        start = parse_instant_time(minute(0), UTC) / 1000
        words.append(f"until {round((keeper.not_before - start) / 60)}")
    return " ".join(words)


def _behind(hold: ConsumerHold) -> str:
    return "unknown" if hold.seconds_behind is None else f"{round(hold.seconds_behind / 60)} behind"


def _minute(time: str) -> int:
    return round((parse_instant_time(time, UTC) - parse_instant_time(minute(0), UTC)) / 60_000)
