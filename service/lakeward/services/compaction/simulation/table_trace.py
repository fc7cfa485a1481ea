"""The trace of a table, read from its timeline and the history of it.

    history, row by row       \\
                                -> bytes of each file by group -> what mattered at the beginning, and all since
    commits still active      /

Sizes are those that commits say. A base that was there before all that is known has the size of its file, where that
still lies there, or of the next base of its group. Which logs a LOG merged is in its plan.

Touches: storage, reading only: the active timeline, the history, plans of log compactions. No data file is opened.
Keeps:   1. the bytes of a trace are those of the files that the commits wrote;
         2. a window that begins before what the timeline still says is refused with the longest that can be had;
         3. a timeline with more files than `FILES_MAX` is refused before memory runs out.
See:     docs/decisions/0172-what-would-have-happened.md
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakeward.base.errors import BrokenFile, NotFound, Refused
from lakeward.base.paths import join
from lakeward.base.quantities import format_count, format_duration, format_time
from lakeward.format.file_name import parse_any_log
from lakeward.format.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from lakeward.format.timeline.instant import Instant, parse_instant_time
from lakeward.services.compaction.simulation.trace import (
    CommitAuthor,
    Trace,
    TracedCommit,
    TracedFile,
    properties_of,
)
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import hoodie_folder
from lakeward.table.timeline.archived import ArchivedPlan, each_archived_commit, history_folder
from lakeward.table.timeline.timeline import WRITE_ACTIONS
from lakeward.table.timeline.timeline_reader import TimelineReader

FILES_MAX = 1_000_000
"""Files that a trace may have: some 120 MiB."""
_PRUNED_EACH = 20_000
_STEP_EACH = 50
_AUTHORS = {
    "COMPACT": CommitAuthor.COMPACTION,
    "LOG_COMPACT": CommitAuthor.COMPACTION,
    "CLUSTER": CommitAuthor.CLUSTERING,
}


def check_can_be_traced(snapshot: TableSnapshot) -> None:
    """Raises `Refused` for a table in whose timeline there is nothing to replay."""
    config, name = snapshot.config, snapshot.base_path
    if not config.is_merge_on_read:
        raise Refused(
            f"{name} is copy-on-write: it has no logs, so there is no compaction to simulate.",
            why="Each write rewrites the base files that it touches, whatever a planner decides.",
            remedy="`lakeward layout` shows what clustering would change.",
        )
    if snapshot.zone.zone is None:
        raise Refused(
            f"The moments of {name}'s commits are not known.", why=snapshot.zone.why, remedy="Give --timezone."
        )


def read_trace(
    storage: Storage,
    snapshot: TableSnapshot,
    *,
    last_seconds: float,
    now: float,
    on_step: Callable[[str], None] = lambda text: None,
) -> Trace:
    """The trace of the last seconds. Raises `Refused` and `BrokenFile`."""
    check_can_be_traced(snapshot)
    begins = round((now - last_seconds) * 1000)
    found = _Found(snapshot, begins)
    for number, (commit, sources) in enumerate(_each_commit(storage, snapshot, found), start=1):
        found.add(commit, sources)
        if number % _STEP_EACH == 0:
            on_step(f"{format_count(number, 'commit')} of the timeline read")
    _check_begins(storage, snapshot, found, now)
    return found.trace(ends=round(now * 1000))


@dataclass(frozen=True, slots=True)
class _Read:
    """A commit as the timeline has it."""

    time: str
    completion_time: str
    metadata: CommitMetadata


_Sources = Mapping[GroupId, tuple[str, ...]]
"""The names of the logs that LOGs of a commit merged."""


def _each_commit(storage: Storage, snapshot: TableSnapshot, found: _Found) -> Iterator[tuple[_Read, _Sources]]:
    base_path, config = snapshot.base_path, snapshot.config
    reader = TimelineReader(storage, base_path, config, snapshot.timeline)
    active = {instant.time for instant in snapshot.timeline.completed_writes}
    folder = history_folder(base_path, config)
    for row in each_archived_commit(storage, base_path, config, actions=WRITE_ACTIONS):
        if row.time in active or not row.metadata:
            continue
        file = f"the row of {row.time} in {folder}"
        metadata = read_commit_metadata(row.metadata, file=file, layout=config.layout)
        read = _Read(row.time, row.completion_time or row.time, metadata)
        plans = {row.time: ArchivedPlan(row.action == "deltacommit", row.plan)} if row.plan else {}
        yield read, _sources(reader, read, plans)
    for instant in snapshot.timeline.completed_writes:
        metadata_of_instant = reader.commit_metadata(instant)
        if metadata_of_instant is None:
            raise _unreadable(instant, reader)
        read = _Read(instant.time, instant.completion_time or instant.time, metadata_of_instant)
        yield read, _sources(reader, read, {})


def _unreadable(instant: Instant, reader: TimelineReader) -> BrokenFile:
    why = next((broken.why for broken in reader.broken if broken.instant.time == instant.time), "")
    return BrokenFile(
        f"Commit {instant.time} cannot be read.",
        why=why,
        remedy="If an archiver took it meanwhile, ask again; else `lakeward inspect` says what is wrong with it.",
    )


def _sources(reader: TimelineReader, read: _Read, plans: Mapping[str, ArchivedPlan]) -> _Sources:
    stats = (stat for of in read.metadata.partition_to_write_stats.values() for stat in of)
    if _author(read.metadata) is not CommitAuthor.COMPACTION or not any(_is_log(stat) for stat in stats):
        return {}
    done = reader.log_compactions({read.time}, plans)
    return {
        group: tuple(name for each in of if each.instant == read.time for name in each.log_files)
        for group, of in done.items()
    }


def _author(metadata: CommitMetadata) -> CommitAuthor:
    return _AUTHORS.get(metadata.operation_type or "", CommitAuthor.WRITER)


def _is_log(stat: WriteStat) -> bool:
    return stat.path is not None and parse_any_log(stat.path.rpartition("/")[2], native=True) is not None


@dataclass(slots=True)
class _Found:
    """What was read so far, in any order."""

    snapshot: TableSnapshot
    begins: int
    first: int | None = None
    """When the first of all commits completed."""
    files: int = 0
    numbers: dict[GroupId, int] = field(default_factory=dict)
    commits: list[TracedCommit] = field(default_factory=list)
    """Commits after the beginning."""
    before: list[TracedCommit] = field(default_factory=list)
    on_bases: set[int] = field(default_factory=set)
    """Groups that have logs which name a base."""

    def moment(self, time: str) -> int:
        zone = self.snapshot.zone.zone
        assert zone is not None, "`check_can_be_traced` looked"
        return parse_instant_time(time, zone)

    def add(self, read: _Read, sources: _Sources) -> None:
        try:
            began, at = self.moment(read.time), self.moment(read.completion_time)
        except BrokenFile:  # an instant that Hudi reserves: a bootstrap
            return
        self.first = at if self.first is None else min(self.first, at)
        commit = TracedCommit(
            began,
            at,
            _author(read.metadata),
            tuple(self._files(read, sources)),
            tuple(
                self._number((partition, file_id))
                for partition, ids in read.metadata.partition_to_replace_file_ids.items()
                for file_id in ids
            ),
        )
        self.files += len(commit.files)
        (self.commits if at > self.begins else self.before).append(commit)
        if len(self.before) % _PRUNED_EACH == 0 and self.before and at <= self.begins:
            self.before = _what_matters(self.before)
        if self.files > FILES_MAX:
            self.before = _what_matters(self.before)
            self.files = sum(len(each.files) for each in (*self.before, *self.commits))
        if self.files > FILES_MAX:
            raise Refused(
                f"The commits of {self.snapshot.base_path} wrote more than {FILES_MAX:,} files in that time.",
                why="A trace of all of them would not fit into memory.",
                remedy="Give a shorter --last.",
            )

    def _number(self, group: GroupId) -> int:
        return self.numbers.setdefault(group, len(self.numbers))

    def _files(self, read: _Read, sources: _Sources) -> Iterator[TracedFile]:
        logs: dict[int, TracedFile] = {}
        for partition, stats in read.metadata.partition_to_write_stats.items():
            for stat in stats:
                if not stat.file_id or not stat.path:
                    continue
                group = self._number((partition, stat.file_id))
                size = stat.file_size_in_bytes or stat.total_write_bytes or 0
                if not _is_log(stat):
                    yield TracedFile(group, size, is_base=True)
                    continue
                if stat.base_file:
                    self.on_bases.add(group)
                known = logs.get(group)
                if known is not None:  # rows and deletes of one write, or a log that became too large
                    logs[group] = replace(known, size=known.size + size)
                    continue
                names = sources.get((partition, stat.file_id), ())
                logs[group] = TracedFile(group, size, False, insert_share(stat), tuple(sorted(self._began(names))))
        yield from logs.values()

    def _began(self, names: Iterable[str]) -> set[int]:
        logs = (parse_any_log(name, native=True) for name in names)
        return {self.moment(log.instant) for log in logs if log is not None}

    def trace(self, *, ends: int) -> Trace:
        begins = max(self.begins, self.first or 0)
        before = [*_what_matters(self.before)]
        known = {file.group for commit in before for file in commit.files if file.is_base}
        bases, unknown = self._bases_from_before(known)
        if bases:
            before.insert(0, TracedCommit(0, 0, CommitAuthor.WRITER, bases))
        commits = sorted((*before, *self.commits), key=lambda commit: (commit.at, commit.began))
        groups, newest = tuple(self.numbers), max((commit.at for commit in commits), default=0)
        # The clock of a writer may be ahead of this machine's.
        return Trace(groups, tuple(commits), begins, max(ends, newest), properties_of(self.snapshot.config), unknown)

    def _bases_from_before(self, known: set[int]) -> tuple[tuple[TracedFile, ...], int]:
        """The bases that were there before any commit that is known, and of how many none is known."""
        first_base: dict[int, int] = {}
        has_base_first: dict[int, bool] = {}
        for commit in sorted(self.commits, key=lambda each: each.at):
            for file in commit.files:
                has_base_first.setdefault(file.group, file.is_base and commit.author is CommitAuthor.WRITER)
                if file.is_base:
                    first_base.setdefault(file.group, file.size)
        lacking = {group for group in self.on_bases if group not in known and not has_base_first.get(group, False)}
        if not lacking:
            return (), 0
        listed: dict[int, tuple[str, int]] = {}
        for partition in self.snapshot.files:
            for base in partition.base_files:
                group = self.numbers.get((partition.partition_path, base.file_id))
                if group in lacking and group is not None:
                    listed[group] = min(listed.get(group, (base.instant, base.size)), (base.instant, base.size))
        found = {group: listed[group][1] if group in listed else first_base.get(group) for group in sorted(lacking)}
        bases = tuple(TracedFile(group, size, True) for group, size in found.items() if size is not None)
        return bases, len(found) - len(bases)


def _what_matters(commits: Iterable[TracedCommit]) -> list[TracedCommit]:
    """The commits with those files alone that were in newest slices after all of them."""
    ordered = sorted(commits, key=lambda commit: commit.at)
    since: dict[int, int] = defaultdict(int)
    gone: dict[int, int] = {}
    for commit in ordered:
        for file in commit.files:
            if file.is_base:
                since[file.group] = commit.began
        gone.update(dict.fromkeys(commit.replaced, commit.at))
    left = []
    for commit in ordered:
        files = tuple(
            file
            for file in commit.files
            if gone.get(file.group, -1) < commit.at
            and (commit.began == since[file.group] if file.is_base else commit.at >= since[file.group])
        )
        if files or commit.replaced:
            left.append(replace(commit, files=files))
    return left


def insert_share(stat: WriteStat) -> float:
    """The part of the rows of a log that its commit counts as new."""
    inserted = stat.num_inserts or 0
    rows = inserted + (stat.num_update_writes or 0) + (stat.num_deletes or 0)
    return inserted / rows if rows else 0.0


def _check_begins(storage: Storage, snapshot: TableSnapshot, found: _Found, now: float) -> None:
    """Raises `Refused` where the window begins in an archive that is not read."""
    if found.first is None or found.first <= found.begins or not _has_more_behind(storage, snapshot):
        return
    seconds = now - found.first / 1000
    longest = f"{math.floor(seconds / 3600)}h" if seconds >= 3600 else f"{max(1, math.floor(seconds / 60))}m"
    raise Refused(
        f"What is known of {snapshot.base_path} begins {format_duration(seconds)} ago, at "
        f"{format_time(found.first / 1000)}: later than the window.",
        why="Commits before that were archived, and the archive of this timeline layout is not read.",
        remedy=f"Give --last {longest}.",
    )


def _has_more_behind(storage: Storage, snapshot: TableSnapshot) -> bool:
    """Whether the table is older than what is read of it: layout 2 keeps its history for good."""
    if snapshot.config.layout >= 2:
        return False
    try:
        folder = join(hoodie_folder(snapshot.base_path), snapshot.config.archive_folder)
        return any(True for _ in storage.list(folder))
    except NotFound:
        return False
