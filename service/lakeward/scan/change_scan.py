"""The changes of a table's rows, commit by commit: inserted, updated and deleted rows, as they were and as they are.

    commits (`scan/change_plan`) -> sources (`scan/change_rows`) -> changes

Touches: the table, reading only; temporary files outside of it.
Keeps:   1. the changes are those of Hudi's query of changes, in the order of commits;
         2. a window that reaches behind what is archived, or cleaned, is refused before a row is given out;
         3. changes of file groups that cannot be read end the query with an error. With `skips_damaged` the others are
            read, of no commit and file group some changes and others not, and `damage` says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lakeward.base.clock import Clock
from lakeward.base.did_you_mean import nearest
from lakeward.base.errors import BrokenFile, DamagedFiles, Refused, UsageError
from lakeward.format.avro.column_names import META_COLUMNS
from lakeward.format.parquet.read_meter import ReadMeter
from lakeward.format.timeline.instant import is_before
from lakeward.merge.memory_budget import MEMORY_BYTES
from lakeward.protocol.progress import OnStep
from lakeward.protocol.refusals.findings import changes_are_unknown
from lakeward.read.newest_slice import table_reading
from lakeward.read.query.filter import conjuncts
from lakeward.read.query.predicate import Predicate
from lakeward.scan.change_plan import ChangePlanner, ChangeSource
from lakeward.scan.change_rows import ChangeReading, change_schema
from lakeward.scan.commit_window import AFTER_ALL, BEFORE_ALL, EARLIEST, commits_between, completed_at, newest_archived
from lakeward.scan.filter_text import parse_filter
from lakeward.scan.missing_groups import MissingGroup, damage_of, missing_group, read_whole
from lakeward.scan.moment import When, parse_when
from lakeward.scan.scan_plan import known_schema, refuse_merging
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.timeline_reader import TimelineReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """All changes that the timeline still knows, if nothing else is said."""

    since: When | None = None
    """Commits that completed later; None or `earliest` for all."""
    until: When | None = None
    """Commits that completed until then; None for all."""
    columns: tuple[str, ...] | None = None
    """Columns of the rows before and after, in their order; None for all but Hudi's own."""
    where: str | None = None
    """A filter over the columns of changes: `op = 'u' and after.fare > 10`."""
    limit: int | None = None


@dataclass(slots=True)
class ChangeScan:
    """A query of changes on a table at one moment; each iteration reads it once more."""

    storage: Storage
    snapshot: TableSnapshot
    query: ChangeQuery
    clock: Clock
    """Says what moments like `2 hours ago` mean."""
    memory_bytes: int = MEMORY_BYTES
    skips_damaged: bool = False
    meter: ReadMeter = field(default_factory=ReadMeter)
    on_step: OnStep = lambda text: None
    """Takes a sentence about how far it is, now and then."""
    reading: ChangeReading = field(init=False)
    end: str | None = field(init=False)
    """The completion time of the last commit that is read, from which the next query goes on: `since` where there is
    none."""
    commits: int = field(init=False)
    sources: tuple[ChangeSource, ...] = field(init=False)
    _damaged: tuple[MissingGroup, ...] = field(init=False)
    """File groups whose changes cannot be found."""
    _broken: dict[GroupId, MissingGroup] = field(init=False, default_factory=dict)
    """File groups that broke while they were read."""

    def __post_init__(self) -> None:
        """Raises `Refused` where the changes are not certain, or not all there, and `UsageError`."""
        _check_captured(self.snapshot)
        table, where = known_schema(self.snapshot), self.query.where
        schema = change_schema(_image_schema(table, self.query.columns))
        read_schema = schema if where is None else change_schema(_image_schema(table, None))
        predicate = Predicate(() if where is None else tuple(conjuncts(parse_filter(where, read_schema))))
        self._plan()
        merges = any(each and each.log_files for source in self.sources for each in (source.before, source.after))
        if merges:
            refuse_merging(self.snapshot)
        reading = table_reading(self.snapshot, merges=merges)
        self.reading = ChangeReading(reading, schema, read_schema, predicate, self.memory_bytes)

    @property
    def schema(self) -> pa.Schema:
        """The columns that come out."""
        return self.reading.schema

    @property
    def damage(self) -> DamagedFiles | None:
        """What is missing in the changes, where file groups cannot be read: as far as that was seen until now."""
        missing = [*self._damaged, *self._broken.values()]
        return damage_of(missing, is_skipped=self.skips_damaged) if missing else None

    def _plan(self) -> None:
        snapshot, query = self.snapshot, self.query
        since, until = (self._instant(each) for each in (query.since, query.until))
        if since is not None and until is not None and is_before(until, since):
            raise UsageError(f"The window ends at {query.until}, before it begins at {query.since}.")
        self._check_archive(since)
        commits = sorted(commits_between(snapshot.timeline, since or BEFORE_ALL, until or AFTER_ALL), key=completed_at)
        planner = ChangePlanner(snapshot)
        reader = TimelineReader(self.storage, snapshot.base_path, snapshot.config, snapshot.timeline)
        sources: list[ChangeSource] = []
        for instant in commits:
            metadata = reader.commit_metadata(instant)
            if metadata is None:
                raise BrokenFile(f"The commit {instant.time} cannot be read.", why="Its changes would be missing.")
            sources += planner.sources(instant, metadata)
        self.sources = tuple(sources)
        self._damaged = tuple(map(missing_group, planner.damaged.values()))
        self.commits = len(commits)
        self.end = commits[-1].completion_time if commits else since

    def _instant(self, when: When | None) -> str | None:
        if when is None or (isinstance(when, str) and when.strip().lower() == EARLIEST):
            return None
        return parse_when(when, self.snapshot.zone, now=self.clock.now()).instant

    def _check_archive(self, since: str | None) -> None:
        """Raises `Refused` where commits of the window may have left the active timeline."""
        newest = newest_archived(self.storage, self.snapshot, since or BEFORE_ALL)
        if newest is not None:
            raise Refused(
                f"The changes {'from the beginning' if since is None else f'since {since}'} cannot be read.",
                why=f"Commits until {newest} were archived, and their changes would be missing.",
                remedy=f"Begin later: --since {newest}.",
            )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._damaged and not self.skips_damaged and self.damage is not None:
            raise self.damage
        left, done = self.query.limit, 0
        for number, source in enumerate(self.sources):
            if left == 0:
                return
            self.on_step(f"read {number:,} of {len(self.sources):,} places with changes, {done:,} changes")
            for batch in self._changes_of(source):
                done += batch.num_rows
                self.on_step(f"read {number:,} of {len(self.sources):,} places with changes, {done:,} changes")
                rows = batch if left is None else batch.slice(0, left)
                yield rows
                if left is not None:
                    left -= rows.num_rows
                    if left == 0:
                        return

    def _changes_of(self, source: ChangeSource) -> Iterator[pa.RecordBatch]:
        changes = self.reading.changes(self.storage, source, self.meter)
        if not self.skips_damaged:
            yield from changes
            return
        try:
            yield from read_whole(changes, None)
        except BrokenFile as error:
            self._broken[source.group_id] = MissingGroup(*source.group_id, error.what, error.remedy)

    def count(self) -> int:
        return sum(batch.num_rows for batch in self)


def _check_captured(snapshot: TableSnapshot) -> None:
    if not snapshot.config.cdc_enabled:
        raise Refused(
            f"{snapshot.base_path} captures no changes.",
            why="Its hoodie.table.cdc.enabled is not true.",
            remedy="Compare two moments with --diff; a table captures changes if it is created with that property.",
        )
    findings = tuple(changes_are_unknown(snapshot))
    if findings:
        why = "; ".join(str(each.words.get("why")) for each in findings)
        raise Refused(
            f"The changes of {snapshot.base_path} cannot be read.",
            why=f"They are captured, and {why}.",
            remedy="Read them with the release of Hudi that writes the table.",
        )


def _image_schema(table: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    known = [each.name for each in table if each.name not in META_COLUMNS]
    for name in columns or ():
        if name not in known:
            raise UsageError(
                f"The rows of changes have no column {name!r}.",
                remedy=nearest(name, known),
            )
    return pa.schema([table.field(name).with_metadata(None).with_nullable(True) for name in columns or known])
