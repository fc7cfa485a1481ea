"""What a clustering replaced and what by: written into its commit, read back from the timeline.

Touches: nothing; commits are handed in as bytes.
Keeps:   what cannot be read is no run of Lakeward's, and no error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.base.quantities import format_count, format_size
from lakeward.format.timeline.commit_metadata import CommitMetadata
from lakeward.services.clustering.plan.layout_record import LAYOUT_KEY, LayoutRecord, read_records
from lakeward.services.clustering.plan.pack_plan import PackPlan
from lakeward.table.file_system_view import GroupId

RECORD_KEY = "lakeward.clustering"
"""Entry of the commit: JSON with the figures from before it. Those from after are in its write stats."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A query that must read what was clustered opened so many files of so many bytes before, and does after."""

    groups_before: int
    files_before: int
    bytes_before: int
    groups_after: int = 0
    bytes_after: int = 0
    instant: str = ""
    completed_at: float = 0.0
    """Seconds since the epoch, by the storage's clock."""
    layouts: Mapping[GroupId, LayoutRecord] = field(default_factory=dict)
    """The new file groups, where it brought their rows together by columns."""
    depth_before: str = ""
    """What a filter on these columns read before, in a sentence, where that was measured."""
    undoes: str = ""
    """The clustering that it undid; empty where it clustered."""
    brought_back: frozenset[GroupId] = frozenset()
    """The new file groups, where it undid a clustering."""

    @property
    def sentence(self) -> str:
        before = f"{format_count(self.groups_before, 'file group')} of {format_size(self.bytes_before)}"
        files = f" in {format_count(self.files_before, 'file')}" if self.files_before != self.groups_before else ""
        undid = f"{self.undoes} was undone: " if self.undoes else ""
        return f"{undid}{before}{files} became {self.groups_after:,} of {format_size(self.bytes_after)}"


def record_of(plan: PackPlan, *, depth: str = "", undoes: str = "") -> str:
    """
    Args:
        depth: what a filter reads before it, where that was measured.
        undoes: the clustering that is undone.
    """
    slices = [each for group in plan.packed for each in group.slices]
    files = sum((each.base_file is not None) + len(each.log_files) for each in slices)
    more = {name: said for name, said in {"depth": depth, "undoes": undoes}.items() if said}
    return json.dumps({"file_groups": len(slices), "files": files, "bytes": plan.input_bytes, **more})


def read_record(commit: CommitMetadata, *, instant: str, completed_at: float) -> RunRecord | None:
    """None where the commit is no clustering of Lakeward's."""
    try:
        before = json.loads(commit.extra_metadata.get(RECORD_KEY, "null"))
        groups, files, size_before = (int(before[key]) for key in ("file_groups", "files", "bytes"))
    except (KeyError, TypeError, ValueError):
        return None
    stats = [(path, each) for path, of in commit.partition_to_write_stats.items() for each in of]
    new = frozenset((path, each.file_id) for path, each in stats if each.file_id)
    undoes = str(before.get("undoes", ""))
    return RunRecord(
        groups,
        files,
        size_before,
        len(new),
        sum(each.file_size_in_bytes or 0 for _, each in stats),
        instant,
        completed_at,
        layouts=read_records(commit.extra_metadata.get(LAYOUT_KEY, "")),
        depth_before=str(before.get("depth", "")),
        undoes=undoes,
        brought_back=new if undoes else frozenset(),
    )
