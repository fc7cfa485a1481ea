"""What the undo of a clustering replaces, and which rows come back in its place: a table, the commit of the clustering,
and the table as it would be without it in, a plan out.

    file group          must be                                        becomes
    made by it          the newest, one base file, nothing since        replaced
    replaced by it      there, in its place or in the quarantine        one new file group, with the rows of its slice

So writes into other file groups do not stand in the way. A clustering of which every row was deleted already made no
file group, and has nothing that could be undone.

Touches: nothing.
Keeps:   1. where a file group that it made has anything but its one base file, or is gone, the undo is refused, and
            names it with what came;
         2. where a file group that it replaced is not there whole, the undo is refused, and names it.
See:     docs/decisions/0167-a-clustering-is-undone-by-another.md
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.base.errors import Refused
from lakeward.base.quantities import format_count
from lakeward.format.timeline.commit_metadata import CommitMetadata
from lakeward.format.timeline.instant import comparable_time
from lakeward.services.clustering.plan.pack_plan import PackedGroup, PackPlan, PackReason, decision, not_to_touch
from lakeward.table.file_group import FileGroup, FileSlice
from lakeward.table.file_system_view import FileSystemView, GroupId
from lakeward.table.snapshot import TableSnapshot


@dataclass(frozen=True, slots=True)
class ClusteringUndo:
    clustering: str
    """The instant of the clustering."""
    plan: PackPlan
    """The file groups that it made, which become those of before."""
    before: tuple[FileSlice, ...]
    """The slices that it replaced, by partition path and file id: each becomes a file group."""


def plan_clustering_undo(
    clustering: str, commit: CommitMetadata, snapshot: TableSnapshot, without: FileSystemView
) -> ClusteringUndo:
    """Raises `Refused`.

    Args:
        commit: of the clustering.
        without: the table as it would be if the clustering had never been, with what the quarantine has.
    """
    made = tuple(_made(clustering, commit, snapshot))
    before = tuple(_before(clustering, commit, without))
    number = Counter(each.partition_path for each in before)
    packed = tuple(
        PackedGroup(path, tuple(each for each in made if each.partition_path == path), number[path])
        for path in sorted(number)
    )
    why = f"clustering {clustering} made it; {format_count(len(before), 'file group')} of before it come back"
    return ClusteringUndo(
        clustering, PackPlan(packed, tuple(decision(each, PackReason.UNDONE, why) for each in made)), before
    )


def _made(clustering: str, commit: CommitMetadata, snapshot: TableSnapshot) -> Iterator[FileSlice]:
    groups = {(group.partition_path, group.file_id): group for group in snapshot.file_groups}
    for group_id in sorted(made_by(commit)):
        if (group := groups.get(group_id)) is None:
            by = snapshot.replaced.get(group_id)
            raise _refused_later(clustering, group_id, f"{by} replaced it" if by else "its files cannot be read")
        if later := sorted(_later(clustering, group), key=comparable_time):
            raise _refused_later(clustering, group_id, f"{', '.join(later)} wrote to it")
        slice_ = group.slices[0]
        if (found := not_to_touch(snapshot, slice_)) is not None:
            raise _refused_later(clustering, group_id, found[1])
        yield slice_


def made_by(commit: CommitMetadata) -> frozenset[GroupId]:
    """The file groups that the clustering made."""
    stats = ((path, each) for path, of in commit.partition_to_write_stats.items() for each in of)
    return frozenset((path, each.file_id) for path, each in stats if each.file_id)


def replaced_by(commit: CommitMetadata) -> frozenset[GroupId]:
    return frozenset((path, each) for path, ids in commit.partition_to_replace_file_ids.items() for each in ids)


def _later(clustering: str, group: FileGroup) -> frozenset[str]:
    """The instants of files that are not the clustering's."""
    slices = {each.base_instant for each in group.slices}
    logs = {log.instant for each in group.slices for log in each.log_files}
    return frozenset(slices | logs) - {clustering}


def _before(clustering: str, commit: CommitMetadata, without: FileSystemView) -> Iterator[FileSlice]:
    groups = {(group.partition_path, group.file_id): group for group in without.groups}
    frozen = {(group.partition_path, group.file_id): group for group in without.frozen}
    for group_id in sorted(replaced_by(commit)):
        if group_id in frozen:
            raise refused_gone(clustering, group_id, frozen[group_id].why)
        slice_ = groups[group_id].latest_slice if group_id in groups else None
        if slice_ is None:
            raise refused_gone(clustering, group_id, "none of its files is there")
        yield slice_


def _refused_later(clustering: str, group_id: GroupId, what: str) -> Refused:
    return Refused(
        f"Clustering {clustering} cannot be undone: {what}, file group {group_id[1]} of partition "
        f"{group_id[0] or '(none)'}.",
        why="The rows of before would come back in place of what came since in a file group that the clustering made.",
        remedy="Cluster again for another layout; where those rows may go, `lakeward restore TABLE --to COMMIT "
        "--dry-run` shows what would be lost.",
    )


def refused_gone(clustering: str, group_id: GroupId, why: str) -> Refused:
    return Refused(
        f"Clustering {clustering} cannot be undone: file group {group_id[1]} of partition {group_id[0] or '(none)'}, "
        "which it replaced, is not there any more.",
        why=f"{why[:1].upper()}{why[1:]}.",
        remedy="Leave the table as it is; its rows are those of before. Cluster again for another layout. "
        "`lakeward clean --keep-deleted` keeps what is replaced for a while.",
    )
