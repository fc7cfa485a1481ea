"""The layout records of a table's file groups, from the commits of its timeline.

Active commits that replaced file groups are read, all of them. Archived ones are read only where a file group is
without a record and its base file is from before the active timeline.

Touches: storage, reading the timeline and its history.
Keeps:   of a file group the record of the commit that made it; none of one that is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from lakeward.format.timeline.commit_metadata import read_commit_metadata
from lakeward.services.clustering.plan.layout_record import LAYOUT_KEY, LayoutRecord, read_records
from lakeward.storage.storage import Storage
from lakeward.table.file_group import FileSlice
from lakeward.table.file_system_view import GroupId
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.archived import load_archived_commits
from lakeward.table.timeline.instant_content import InstantContents

Known = Mapping[str, Mapping[GroupId, LayoutRecord]]

_REPLACING = "replacecommit"
_ARCHIVED_MAX = 10_000


def load_layout_records(
    storage: Storage,
    base_path: str,
    snapshot: TableSnapshot,
    *,
    of: Iterable[FileSlice] | None = None,
    known: Known = MappingProxyType({}),
) -> Mapping[GroupId, LayoutRecord]:
    """Raises `BrokenFile`.

    Args:
        of: the slices whose groups' records are wanted; not given: those of living groups.
        known: what was read of commits before, by the name of the timeline file; these are not read again.
    """
    wanted = {slice_.group_id: slice_ for slice_ in (snapshot.latest_slices if of is None else of)}
    found: dict[GroupId, LayoutRecord] = {}
    for records in _active(storage, base_path, snapshot, known):
        found |= records
    timeline = snapshot.timeline
    if any(group not in found and timeline.is_before_start(wanted[group].base_instant) for group in wanted):
        archived = load_archived_commits(
            storage, base_path, snapshot.config, lambda *_: True, actions=(_REPLACING,), number=_ARCHIVED_MAX
        )
        for row in archived.rows:
            found = {**_records_in(row.metadata or b"", f"the history's row of {row.time}", snapshot), **found}
    return {group: record for group, record in found.items() if group in wanted}


def _active(
    storage: Storage, base_path: str, snapshot: TableSnapshot, known: Known
) -> Iterator[Mapping[GroupId, LayoutRecord]]:
    contents = InstantContents(storage, base_path, snapshot.config, snapshot.timeline)
    for each in snapshot.timeline.completed_writes:
        if each.file_name in known:
            yield known[each.file_name]
        elif each.comparable_action == _REPLACING:
            yield _records_in(contents.read(each.file_name), each.file_name, snapshot)


def _records_in(data: bytes, where: str, snapshot: TableSnapshot) -> Mapping[GroupId, LayoutRecord]:
    if LAYOUT_KEY.encode() not in data:
        return {}
    commit = read_commit_metadata(data, file=where, layout=snapshot.config.layout)
    return read_records(commit.extra_metadata.get(LAYOUT_KEY, ""))
