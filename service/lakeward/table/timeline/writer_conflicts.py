"""Conflicts that a service of Lakeward caused, as the timeline shows them: a write was rolled back, and while it was
open a compaction or log compaction of Lakeward completed on one of its file groups.

    t10 W begins to write   t20 we compact group g   t30 W finds the conflict and fails   t40 W is rolled back

A writer that was killed over such a group looks the same, since a write that failed says nowhere why. So the number is
an upper bound, and its log says which write it was.

Touches: storage, reading the plans of rollbacks and of services of Lakeward.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakeward.base.errors import BrokenFile, NotFound
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.format.timeline.rollback_metadata import read_rollback_groups, read_rollback_plan
from lakeward.storage.storage import Storage
from lakeward.table.file_system_view import GroupId
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.service_instants import PLANNED_BY, groups_of
from lakeward.table.timeline.timeline import Timeline

_COMPACTIONS = ("compaction", "logcompaction")


@dataclass(frozen=True, slots=True)
class WriterConflict:
    write: str
    rollback: str
    by: str
    """The instant of Lakeward."""


def find_writer_conflicts(
    storage: Storage, base_path: str, config: TableConfig, timeline: Timeline, rollbacks: Iterable[Instant]
) -> tuple[WriterConflict, ...]:
    """Conflicts that these rollbacks show; what cannot be read shows none."""
    contents = InstantContents(storage, base_path, config, timeline)
    found = []
    for rollback in rollbacks:
        try:
            requested = f"{rollback.time}.rollback.requested"
            plan = contents.read(requested)
            write = read_rollback_plan(plan, file=requested)
            groups = read_rollback_groups(plan, file=requested, native=config.version.has_native_logs)
            by = _met(contents, timeline, config, rollback.time, write, groups)
        except (BrokenFile, NotFound):
            continue
        if by is not None:
            found.append(WriterConflict(write, rollback.time, by))
    return tuple(found)


def _met(
    contents: InstantContents,
    timeline: Timeline,
    config: TableConfig,
    rollback: str,
    write: str,
    groups: frozenset[GroupId],
) -> str | None:
    begin, end = comparable_time(write), comparable_time(rollback)
    for requested in timeline.instants:
        if requested.action not in _COMPACTIONS or requested.state is not State.REQUESTED or requested.time == write:
            continue
        completed = timeline.completion_time(requested.time)
        if completed is None or not begin < comparable_time(completed) < end:
            continue
        plan = read_compaction_plan(
            contents.read(requested.file_name),
            file=requested.file_name,
            extension=config.base_file_extension,
            native=config.version.has_native_logs,
        )
        if PLANNED_BY in plan.extra_metadata and not groups.isdisjoint(groups_of(plan)):
            return requested.time
    return None
