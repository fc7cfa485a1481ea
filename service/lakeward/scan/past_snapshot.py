"""A table as it was: its snapshot now, without what came later.

    slices that began later           left out; so are groups that began later
    logs of later commits             left out; in tables of version 6, where logs grow, their later blocks
    groups that were replaced later   there again
    schema                            as the last commit before had it, also a compaction that came late

All times are those at which commits were requested, as Hudi's `as.of.instant` has it: a commit that was requested
before and completed after is in.

Touches: `read_as_of` the table, reading only: all completed writes, cleans, and a listing of the history.
Keeps:   1. a moment whose rows are not certain is refused, never read in part: of each slice all files are there that
            commits up to then say they wrote, and of the size that they say;
         2. what is read is what Hudi reads as of the instant, where Hudi reads.
See:     docs/decisions/0123-moments-of-a-table.md
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from lakeward.base.clock import Clock
from lakeward.base.errors import Refused
from lakeward.format.file_name import parse_any_data_file, parse_any_log
from lakeward.format.timeline.instant import comparable_time, format_instant_time, is_before
from lakeward.scan.moment import When, check_moment, earliest_moment, parse_when
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup
from lakeward.table.file_system_view import GroupId
from lakeward.table.past_slices import groups_as_of
from lakeward.table.retired_logs import find_stood_for
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.archived import history_folder
from lakeward.table.timeline.cleans import read_cleans
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.timeline.timeline_reader import TimelineReader
from lakeward.table.timeline.timezone import EASTERNMOST
from lakeward.table.written_files import WrittenBy


def read_as_of(storage: Storage, snapshot: TableSnapshot, when: When, *, clock: Clock) -> TableSnapshot:
    """The table as it was. Raises `UsageError`, `Refused` and `BrokenFile`."""
    config, base_path, timeline = snapshot.config, snapshot.base_path, snapshot.timeline
    now = clock.now()
    moment = parse_when(when, snapshot.zone, now=now)
    is_archived = any(not entry.name.endswith(".crc") for entry in storage.list(history_folder(base_path, config)))
    cleans = read_cleans(storage, base_path, config, timeline)
    earliest = earliest_moment(snapshot, cleans, is_archived=is_archived)
    newest = format_instant_time(int(now * 1000), snapshot.zone.zone or EASTERNMOST)
    check_moment(moment, when, timeline, earliest, newest=newest)
    until = replace(
        timeline, instants=tuple(each for each in timeline.instants if not is_before(moment.instant, each.time))
    )
    reader = TimelineReader(storage, base_path, config, until)
    schema, latest_schema = reader.newest_schema(of_services=True)
    past = snapshot_as_of(snapshot, moment.instant)
    what = f"The table cannot be read as of {moment.instant}"
    check_whole(past, reader.written_files(), timeline, what=what)
    if schema is None:
        return past
    return replace(past, schema=schema, latest_schema=latest_schema)


def snapshot_as_of(snapshot: TableSnapshot, instant: str) -> TableSnapshot:
    """The table without what came after the instant. Its schema is still that of now."""
    groups: list[FileGroup] = []
    frozen: list[FrozenGroup] = []
    for group in groups_as_of(snapshot, instant):
        if isinstance(group, FrozenGroup):
            frozen.append(group)
        elif slices := tuple(_slices_as_of(group, instant, has_own_logs=snapshot.config.layout >= 2)):
            groups.append(replace(group, slices=slices))
    return replace(snapshot, file_groups=tuple(groups), frozen=tuple(frozen), read_until=instant)


def _slices_as_of(group: FileGroup, instant: str, *, has_own_logs: bool) -> Iterator[FileSlice]:
    for slice_ in group.slices:
        if is_before(instant, slice_.base_instant):
            continue
        if has_own_logs:
            logs = tuple(log for log in slice_.log_files if not is_before(instant, log.instant))
            slice_ = replace(slice_, log_files=logs)
        if not slice_.is_empty:
            yield slice_


@dataclass(frozen=True, slots=True)
class _Lost:
    path: str
    instant: str
    since: str
    """What decides into which slice it would go."""
    what: str
    """How it differs from what its commit says."""


def check_whole(past: TableSnapshot, written: Iterable[WrittenBy], timeline: Timeline, *, what: str) -> None:
    """Raises `Refused` where a file of a slice that is read is gone, or of another size than its commit says.

    Args:
        written: by the commits up to the moment.
        what: cannot be done then.
    """
    assert past.read_until is not None, "it is of a moment"
    instant = past.read_until
    oldest: dict[GroupId, str] = {}
    for group in past.file_groups:
        oldest[group.partition_path, group.file_id] = comparable_time(group.read_slices[-1].base_instant)
    frozen = {(group.partition_path, group.file_id) for group in past.frozen}
    for group_id, lost in sorted(_lost(past, written, timeline).items()):
        replaced = past.replaced.get(group_id)
        if group_id in frozen or (replaced is not None and not is_before(instant, replaced)):
            continue
        for each in lost:
            if each.since >= oldest.get(group_id, ""):
                raise Refused(
                    f"{what}: {each.path} {each.what}.",
                    why=f"Commit {each.instant} wrote it, and rows as of then are in it.",
                    remedy="Ask for what is later. A cleaner that retains more commits leaves more.",
                )


def _lost(past: TableSnapshot, written: Iterable[WrittenBy], timeline: Timeline) -> Mapping[GroupId, list[_Lost]]:
    is_of_slice = past.config.layout == 1
    listed = {partition.partition_path: partition for partition in past.files}
    found: dict[GroupId, list[_Lost]] = defaultdict(list)
    written = tuple(written)
    read = {by.instant for by in written}
    stood_for: dict[GroupId, Mapping[str, str]] = {}
    for by in written:
        for partition_path, named in by.files.items():
            files = listed.get(partition_path)
            there = {} if files is None else dict(files.sizes)
            for path, size in named.items():
                name = path.rpartition("/")[2]
                # Logs of version 10 are named by commits from before a downgrade, too.
                parsed, log = parse_any_data_file(name, native=True), parse_any_log(name, native=True)
                if parsed is None or (log is not None and log.is_cdc):
                    continue
                found_size = there.get(path)
                grows = is_of_slice and log is not None
                if found_size is not None and (grows or not size or size == found_size):
                    continue
                group_id = (partition_path, parsed.file_id)
                if found_size is None and log is not None and group_id in past.log_compactions:
                    if group_id not in stood_for:
                        logs = () if files is None else files.log_files
                        names = [each.name.text for each in logs if each.name.file_id == parsed.file_id]
                        compactions = [each for each in past.log_compactions[group_id] if each.instant in read]
                        stood_for[group_id] = find_stood_for(names, compactions).by
                    if name in stood_for[group_id]:
                        continue
                what = "is gone" if found_size is None else f"has {found_size:,} bytes instead of {size:,}"
                # A log of layout 1 is of the slice whose base instant it names.
                since = parsed.instant if log is None or is_of_slice else timeline.visible_at(by.instant)
                found[group_id].append(_Lost(path, by.instant, comparable_time(since), what))
    return found
