"""What a clean would delete of a table, and where it need look for it: the settings, and what is outside of the table,
put to the rules.

Touches: storage, reading only: the consumers' watermarks; cleans of the timeline, and writes since one of them; the
         quarantine's manifests; heads of logs from which others may go; a file of each consumer, or the timeline and
         the newest commits of the table that it writes.
Keeps:   1. one choice has one moment and one watermark of each consumer, however often it is asked;
         2. where the settings do not say how much is kept, no less is kept than the table's writers do;
         3. what an earlier clean took away, and stands in its place until it is deleted, is not chosen again;
         4. what cannot be read, and what is no time, is a watermark that is not known, with the reason; never an error;
         5. no more than some bytes of a file are read;
         6. a log retires in the layout `default` only where the heads of its slice's logs say that readers read the
            same blocks without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, LakewardError, NotFound, Refused, Unsupported
from lakeward.base.paths import join
from lakeward.base.printable import printable_url
from lakeward.format.timeline.clean_metadata import read_clean_metadata
from lakeward.format.timeline.clean_plan import CleanPlan
from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.read.logs.log_scan import NEWEST, LogScan, scan_slice_heads
from lakeward.services.clean.plan.adopted import RETAINED, AdoptedRetention, adopt_retention
from lakeward.services.clean.plan.consumer import PlaceKind, WatermarkPlace, checkpoint_of, parse_watermark
from lakeward.services.clean.plan.decision import CleanOutcome, SliceDecision, SourceDecision
from lakeward.services.clean.plan.due import find_overdue
from lakeward.services.clean.plan.incremental import Base, base_of, find_writes, is_usable, partitions_of
from lakeward.services.clean.plan.keeper import Keeper, KeepReason
from lakeward.services.clean.plan.planner import find_earliest, plan_clean
from lakeward.services.clean.plan.policy import CleanOptions, CleanPolicy
from lakeward.services.clean.plan.reader_protection import Watermark
from lakeward.storage.storage import Storage
from lakeward.storage.storage_of_url import open_storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.quarantine import Quarantine, load_quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import TableConfig, load_table_config, timeline_folder
from lakeward.table.timeline.cleans import UNDOES, RetentionCache, find_clean_retention
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import load_timeline
from lakeward.table.timeline.timeline_reader import TimelineReader, WrittenCache

RETIRES_BY_ANCHORS = "lakeward.retires-by-anchors"
"""A key of a clean plan's extra metadata: merged logs of the layout `default` were to retire, too. An earlier clean
without it does not say where some may be."""

_FILE_BYTES_MAX = 256
_SHOWN_MAX = 60
"""Characters of what is no time that are shown."""


def read_watermarks(
    consumers: Mapping[str, WatermarkPlace], config: TableConfig, *, clock: Clock
) -> tuple[Watermark, ...]:
    """The watermark of each consumer.

    Args:
        config: that of the table which is read.

    Watermarks of incremental consumers, read where these leave them (`services/clean/plan/consumer.py`).
    """
    return tuple(_read(name, place, config, clock) for name, place in consumers.items())


def _read(name: str, place: WatermarkPlace, config: TableConfig, clock: Clock) -> Watermark:
    try:
        found, why = _find(place, config, clock)
    except (LakewardError, OSError, ValueError) as error:
        return Watermark(name, None, f"{_shown(place)} cannot be read: {str(error).splitlines()[0]}")
    if found is None:
        return Watermark(name, None, why)
    if (time := parse_watermark(found)) is None:
        return Watermark(name, None, f"{_shown(place)} says {found[:_SHOWN_MAX]!r}, which is no instant time")
    return Watermark(name, time)


def _find(place: WatermarkPlace, config: TableConfig, clock: Clock) -> tuple[str | None, str]:
    """The watermark there; else None and the reason."""
    match place.kind:
        case PlaceKind.PROPERTY:
            return config.get(place.where), f"the table has no property {place.where}"
        case PlaceKind.FILE:
            storage, path = open_storage(place.where)
            status = storage.stat(path)
            if status is None or status.is_folder:
                return None, f"there is no file {_shown(place)}"
            if status.size > _FILE_BYTES_MAX:
                return None, f"{_shown(place)} has {status.size} bytes, which is no time"
            return storage.read(path).decode(), ""
        case PlaceKind.TABLE:
            return next(_checkpoints(place.where, clock), None), f"no commit of {_shown(place)} carries a checkpoint"


def _checkpoints(location: str, clock: Clock) -> Iterator[str]:
    """The checkpoints that the commits of a table carry, newest first; services and other writers carry none."""
    storage, base_path = open_storage(location)
    config = load_table_config(storage, base_path, clock=clock).config
    timeline = load_timeline(storage, base_path, config)
    contents, folder = InstantContents(storage, base_path, config, timeline), timeline_folder(base_path, config)
    for instant in reversed(timeline.completed_writes):
        data = contents.read(instant.file_name)
        metadata = read_commit_metadata(data, layout=config.layout, file=join(folder, instant.file_name))
        if (found := checkpoint_of(metadata.extra_metadata)) is not None:
            yield found


def _shown(place: WatermarkPlace) -> str:
    return place.where if place.kind is PlaceKind.PROPERTY else printable_url(place.where)


def find_retention(
    storage: Storage, snapshot: TableSnapshot, options: CleanOptions, *, cache: RetentionCache | None = None
) -> AdoptedRetention:
    """How much is kept, and why."""
    if options.policy is not None:
        return AdoptedRetention(options.policy, "it was asked for")
    newest = find_clean_retention(
        storage, snapshot.base_path, snapshot.config, snapshot.timeline, adopted_key=RETAINED, cache=cache
    )
    return adopt_retention(newest, snapshot.timeline, zone=snapshot.zone.zone)


class CleanChoice:
    """One choice, of now."""

    def __init__(self, storage: Storage, base_path: str, options: CleanOptions, *, clock: Clock) -> None:
        self._storage = storage
        self._base_path = base_path
        self._options = options
        self._clock = clock
        self._now = clock.now()
        self._retention: AdoptedRetention | None = None
        self._watermarks: tuple[Watermark, ...] | None = None
        self._written: WrittenCache = {}

    def outcome(
        self,
        snapshot: TableSnapshot,
        partitions: Collection[str] | None = None,
        excluded: Collection[GroupId] = (),
    ) -> CleanOutcome:
        """A decision for each slice of the snapshot. Raises `Refused` where it cannot be known how much is to be kept.

        Args:
            partitions: only these, as for `plan_clean`.
            excluded: not these.
        """
        outcome = plan_clean(
            snapshot,
            self._policy(snapshot),
            now=self._now,
            partitions=partitions,
            excluded=excluded,
            reader_window=self._options.reader_window,
            watermarks=self._known_watermarks(snapshot),
            left_in_place=load_quarantine(self._storage, self._base_path).left_in_place(),
            retires_by_anchors=self._options.retires_by_anchors,
        )
        return self._held_against_heads(snapshot, outcome)

    def _held_against_heads(self, snapshot: TableSnapshot, outcome: CleanOutcome) -> CleanOutcome:
        """The outcome, in which no log retires that the heads of logs speak against."""
        retiring: dict[tuple[GroupId, str], list[SourceDecision]] = {}
        if not snapshot.config.is_lsm_tree:
            for source in outcome.retiring:
                retiring.setdefault((source.slice.group_id, source.slice.base_instant), []).append(source)
        stay = {id(each) for of in retiring.values() if not self._reads_the_same(of) for each in of}
        if not stay:
            return outcome
        keepers = (Keeper(KeepReason.READS_OTHERWISE),)
        sources = (replace(each, keepers=keepers) if id(each) in stay else each for each in outcome.sources)
        return replace(outcome, sources=tuple(sources), leaves_nothing=False)

    def _reads_the_same(self, retiring: Sequence[SourceDecision]) -> bool:
        """Whether readers read the same blocks of a slice without the logs that are to retire."""
        slice_ = retiring[0].slice
        goes = {source.log.path for source in retiring}
        try:
            before, after = (
                scan_slice_heads(self._storage, self._base_path, paths, instant=NEWEST, since=slice_.since)
                for paths in (
                    [log.path for log in slice_.log_files],
                    [log.path for log in slice_.log_files if log.path not in goes],
                )
            )
        except (Unsupported, BrokenFile, NotFound):
            return False
        return not before.damage and not after.damage and _places(before) == _places(after)

    def plan(
        self,
        snapshot: TableSnapshot,
        partitions: Collection[str] | None = None,
        excluded: Collection[GroupId] = (),
    ) -> CleanPlan | None:
        """The plan of that outcome, which says what it adopted of the writers; None where nothing goes."""
        outcome = self.outcome(snapshot, partitions, excluded)
        if not any(outcome.dead) and (not any(outcome.retiring) or outcome.hindrance is not None):
            return None
        asked = {RETIRES_BY_ANCHORS: "true"} if self._options.retires_by_anchors else {}
        return outcome.plan({**self._known_retention(snapshot).extra_metadata, **asked})

    def where(self, snapshot: TableSnapshot) -> frozenset[str] | None:
        """The partitions in which something may be dead; None where that may be anywhere. Of the snapshot only the
        timeline is asked."""
        if not self._options.is_incremental:
            return None
        earliest = find_earliest(
            snapshot,
            self._policy(snapshot),
            now=self._now,
            reader_window=self._options.reader_window,
            watermarks=self._known_watermarks(snapshot),
        )
        if earliest is None or (base := self._find_base(snapshot)) is None or not is_usable(base, snapshot.timeline):
            return None
        writes = find_writes(base, snapshot.timeline, earliest)
        reader = TimelineReader(self._storage, self._base_path, snapshot.config, snapshot.timeline)
        written = {each.instant: each.files.keys() for each in reader.written_files(self._written, of=writes)}
        return partitions_of(writes, written=written, replaced=snapshot.replaced)

    def _find_base(self, snapshot: TableSnapshot) -> Base | None:
        """The newest that was not undone. None where a clean cannot be read: it may have undone any."""
        timeline = snapshot.timeline
        contents = InstantContents(self._storage, self._base_path, snapshot.config, timeline)
        folder = timeline_folder(self._base_path, snapshot.config)
        undone = set()
        for instant in reversed(timeline.completed):
            if instant.action != "clean" or instant.time in undone:
                continue
            try:
                data = contents.read(instant.file_name)
                metadata = read_clean_metadata(data, file=join(folder, instant.file_name))
            except (BrokenFile, NotFound):
                return None
            undone.add(metadata.extra_metadata.get(UNDOES, ""))
            if self._options.retires_by_anchors and RETIRES_BY_ANCHORS not in metadata.extra_metadata:
                continue
            if (base := base_of(metadata)) is not None:
                return base
        return None

    def _policy(self, snapshot: TableSnapshot) -> CleanPolicy:
        retention = self._known_retention(snapshot)
        if retention.policy is not None:
            return retention.policy
        raise Refused(
            "It is unknown how much of the table's past is to be kept.",
            why=f"{retention.why[:1].upper()}{retention.why[1:]}.",
            remedy="Give --policy and --retain, or clean.policy and clean.retain in the configuration.",
        )

    def _known_retention(self, snapshot: TableSnapshot) -> AdoptedRetention:
        if self._retention is None:
            self._retention = find_retention(self._storage, snapshot, self._options)
        return self._retention

    def _known_watermarks(self, snapshot: TableSnapshot) -> tuple[Watermark, ...]:
        if self._watermarks is None:
            self._watermarks = read_watermarks(self._options.consumers, snapshot.config, clock=self._clock)
        return self._watermarks


def _places(scan: LogScan) -> list[tuple[str, int]]:
    return [(block.file, block.offset) for block in scan.blocks]


def choose_overdue(
    snapshot: TableSnapshot,
    options: CleanOptions,
    policy: CleanPolicy,
    *,
    after: int,
    clock: Clock,
    partitions: Collection[str] | None = None,
    excluded: Collection[GroupId] = (),
    quarantine: Quarantine,
) -> tuple[SliceDecision | SourceDecision, ...]:
    """The slices, and logs, that could have gone for `after` commits by this policy; the rest as for
    `CleanChoice.outcome`."""
    return find_overdue(
        snapshot,
        policy,
        after=after,
        now=clock.now(),
        partitions=partitions,
        excluded=excluded,
        reader_window=options.reader_window,
        watermarks=read_watermarks(options.consumers, snapshot.config, clock=clock),
        left_in_place=quarantine.left_in_place(),
        retires_by_anchors=options.retires_by_anchors,
    )
