"""Verification of a sample: a few file slices, chosen by seed, read as a query reads them and judged.

One slice is one task (`engine/task/slice_check.py`), on Spark as all data work is. The table may change meanwhile: a
problem of a slice that is no longer there, because it was compacted or cleaned, is none.

Touches: reads the table; writes nothing and takes no lock.
Keeps:   1. equal snapshots, numbers and seeds give the same slices;
         2. a problem is reported only if its file slice is still the latest of its group afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from random import Random

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, NotFound
from lakeward.base.paths import join
from lakeward.engine.dispatch.dispatcher import Dispatcher, Failure, Progress
from lakeward.engine.task.slice_check_spec import CheckedSlice, ExpectedFile, SliceCheck
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.timeline.commit_metadata import WriteStat, read_commit_metadata
from lakeward.format.timeline.instant import State
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.refusals.eligibility import TableService, find_refusals, refuse
from lakeward.read.logs.committed_writes import committed_writes
from lakeward.read.logs.log_scan import NEWEST
from lakeward.read.slice_input import SliceInput
from lakeward.read.table_rules import merge_rules
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.instant_content import InstantContents

RunCheck = Callable[[SliceCheck, int], CheckedSlice]


@dataclass(frozen=True, slots=True)
class SampleProblem:
    group: GroupId
    what: str


@dataclass(frozen=True, slots=True)
class SampleReport:
    """What was checked, and what was wrong with it."""

    groups: tuple[GroupId, ...]
    """File groups that were read to their end."""
    rows: int
    keys: int
    """How many were merged again the slow way."""
    problems: tuple[SampleProblem, ...]
    not_merged: tuple[SampleProblem, ...]
    """Slices that hold what this release cannot merge."""
    read: ReadMeter = field(default_factory=ReadMeter)
    """How much was read of those that were."""


def verify_sample(
    storage: Storage,
    base_path: str,
    *,
    number: int,
    seed: int,
    dispatcher: Dispatcher,
    run_check: RunCheck,
    clock: Clock,
    timezone: str | None = None,
    lately: Collection[str] = (),
    memory_bytes: int = MEMORY_BYTES,
    guard: Guard = lambda: None,
) -> SampleReport:
    """Check `number` of the latest file slices. Raises `Refused`, whatever the guard raises, and `TaskFailed`.

    Args:
        run_check: called where the check runs; has its own access to the storage.
        lately: instants whose file slices come first: those of our own commits since the last verification.
        guard: called with every report of progress; stops the work by raising.
    """

    def scan() -> TableSnapshot:
        return take_snapshot(storage, base_path, timezone=timezone, clock=clock)

    snapshot = scan()
    refuse(base_path, find_refusals(snapshot, TableService.VERIFICATION))
    chosen = choose_slices(snapshot, number=number, seed=seed, lately=lately)
    if not chosen:
        return SampleReport((), 0, 0, (), ())
    dispatcher.probe(guard)
    expected = _Expected(storage, snapshot)
    checks = [_check_of(base_path, snapshot, slice_, expected, memory_bytes) for slice_ in chosen]

    def report(progress: Progress) -> None:
        guard()

    outcomes = dispatcher.run(run_check, checks, description="verification of a sample", on_progress=report)
    groups, problems, not_merged = [], [], []
    rows = keys = 0
    read = ReadMeter()
    for slice_, outcome in zip(chosen, outcomes, strict=True):
        if isinstance(outcome, Failure):
            outcome.error.file_group = slice_.group_id
            raise outcome.error
        if outcome.result.not_merged is not None:
            not_merged.append(SampleProblem(slice_.group_id, outcome.result.not_merged))
            continue
        groups.append(slice_.group_id)
        rows += outcome.result.rows
        keys += outcome.result.keys
        read.add(outcome.result.read)
        problems += [SampleProblem(slice_.group_id, what) for what in outcome.result.problems]
    if problems:
        still_there = _still_latest(chosen, scan())
        problems = [problem for problem in problems if problem.group in still_there]
    return SampleReport(tuple(groups), rows, keys, tuple(problems), tuple(not_merged), read)


def choose_slices(snapshot: TableSnapshot, *, number: int, seed: int, lately: Collection[str]) -> list[FileSlice]:
    """Choose slices to verify: those that `lately` wrote into come first. A group with a pending compaction has two
    slices to read together; it is left for another time."""
    slices = sorted(
        (slice_ for slice_ in snapshot.latest_slices if slice_.group_id not in snapshot.pending_compactions),
        key=lambda slice_: slice_.group_id,
    )
    Random(seed).shuffle(slices)
    wanted = frozenset(lately)
    slices.sort(key=lambda slice_: wanted.isdisjoint(_instants_of(slice_)))  # stable: the shuffle decides the rest
    return slices[:number]


def _instants_of(slice_: FileSlice) -> set[str]:
    base = {slice_.base_file.instant} if slice_.base_file is not None else set()
    return base | {log.name.instant for log in slice_.log_files}


def _check_of(
    base_path: str, snapshot: TableSnapshot, slice_: FileSlice, expected: _Expected, memory_bytes: int
) -> SliceCheck:
    assert snapshot.schema is not None, "eligibility refuses a table without a schema"
    base = join(slice_.partition_path, slice_.base_file.name) if slice_.base_file is not None else None
    logs = tuple(join(slice_.partition_path, log.name.text) for log in slice_.log_files)
    files = [] if slice_.base_file is None or base is None else [expected.base_file(base, slice_.base_file.instant)]
    # A log that several writes may append to is as long as the last of them left it, which its first one cannot say.
    if snapshot.config.version.has_logs_of_one_write:
        files += [expected.log_file(path, log.name.instant) for path, log in zip(logs, slice_.log_files, strict=True)]
    return SliceCheck(
        SliceInput(
            base_path=base_path,
            partition_path=slice_.partition_path,
            file_id=slice_.file_id,
            base_file=base,
            log_files=logs,
            instant=NEWEST,
            schema=snapshot.schema,
            rules=merge_rules(snapshot),
            memory_bytes=memory_bytes,
            key_fields=snapshot.config.made_key_fields,
            committed=committed_writes(snapshot.timeline, snapshot.config.version),
            since=slice_.since,
        ),
        tuple(files),
    )


class _Expected:
    """What commits say of the files that they wrote; each commit is read once."""

    def __init__(self, storage: Storage, snapshot: TableSnapshot) -> None:
        self._contents = InstantContents(storage, snapshot.base_path, snapshot.config, snapshot.timeline)
        self._snapshot = snapshot
        self._stats: dict[str, dict[str, WriteStat]] = {}

    def base_file(self, path: str, instant: str) -> ExpectedFile:
        stat = self._stats_of(instant).get(path, WriteStat())
        return ExpectedFile(path, stat.file_size_in_bytes, stat.num_writes)

    def log_file(self, path: str, instant: str) -> ExpectedFile:
        stat = self._stats_of(instant).get(path, WriteStat())
        return ExpectedFile(path, stat.file_size_in_bytes)

    def _stats_of(self, time: str) -> dict[str, WriteStat]:
        """Write stats by path. Nothing where the commit was archived, or cannot be read any more."""
        if time not in self._stats:
            self._stats[time] = self._read(time)
        return self._stats[time]

    def _read(self, time: str) -> dict[str, WriteStat]:
        snapshot = self._snapshot
        instant = snapshot.timeline.find_write(time)
        if instant is None or instant.state is not State.COMPLETED:
            return {}
        path = join(timeline_folder(snapshot.base_path, snapshot.config), instant.file_name)
        try:
            commit = read_commit_metadata(
                self._contents.read(instant.file_name), file=path, layout=snapshot.config.layout
            )
        except (NotFound, BrokenFile):
            return {}
        stats = [stat for of in commit.partition_to_write_stats.values() for stat in of]
        change_logs = {name: size for stat in stats for name, size in (stat.cdc_stats or {}).items()}
        return {stat.path: stat for stat in stats if stat.path} | {
            name: WriteStat(path=name, file_size_in_bytes=size) for name, size in change_logs.items()
        }


def _still_latest(chosen: list[FileSlice], snapshot: TableSnapshot) -> set[GroupId]:
    """Groups whose latest slice is still the one that was read; logs may have come since. Of a group that damage froze
    meanwhile, the damage is what was found."""
    latest = {slice_.group_id: slice_.base_instant for slice_ in snapshot.latest_slices}
    damaged = {(group.partition_path, group.file_id) for group in snapshot.frozen if group.damage}
    return damaged | {slice_.group_id for slice_ in chosen if latest.get(slice_.group_id) == slice_.base_instant}
