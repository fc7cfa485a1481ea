"""The metadata table of a table under service: one snapshot of both, and what prevents changing its files.

Touches: both timelines, the archive of the metadata table's and its files, reading only.
Keeps:   a table whose metadata table this release may not change is refused before its lock is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.base.errors import Refused, TryLater
from lakeward.format.timeline.instant import Instant
from lakeward.protocol.attempts.attempt import Attempt, metadata_place
from lakeward.protocol.progress import Phase
from lakeward.protocol.refusals.eligibility import TableService
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.protocol.transition import MetadataAction
from lakeward.services.metadata.plan.dead_slices import DeadSlices, archived_wanted, find_dead_slices
from lakeward.services.metadata.plan.metadata_due import find_obstacles
from lakeward.table.metadata.metadata_table import MetadataTable, has_metadata_table, load_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder
from lakeward.table.timeline.archived import load_newest_writes


@dataclass(frozen=True, slots=True)
class ServicedMetadata:
    """A table and its metadata table at one moment."""

    snapshot: TableSnapshot
    table: MetadataTable


def snapshot_with_metadata(table: ServicedTable) -> ServicedMetadata:
    """Both timelines, and the files of the metadata table. Raises `Refused`."""
    snapshot = table.snapshot(only=(), service=TableService.METADATA)
    if not has_metadata_table(snapshot.config):
        raise Refused(
            f"{table.base_path} has no metadata table.",
            why="hoodie.table.metadata.partitions does not name its partition `files`.",
            remedy="Nothing is to be done; a Hudi writer with hoodie.metadata.enable=true builds one.",
        )
    with table.measured(Phase.SCAN):
        metadata = load_metadata_table(
            table.storage, table.base_path, snapshot.config, snapshot.timeline, clock=table.clock
        )
    return ServicedMetadata(snapshot, metadata)


def dead_slices(table: ServicedTable, now: ServicedMetadata) -> DeadSlices:
    """What can be deleted of the metadata table. Its archive is read where its active timeline has too few commits."""
    archived: tuple[Instant, ...] = ()
    if (wanted := archived_wanted(now.table)) > 0:
        # After the active timeline: what is archived meanwhile is in both, and counts once.
        found = load_newest_writes(table.storage, now.table.base_path, now.table.config, wanted)
        if found.problem:
            table.observer.step(f"archived commits of the metadata table are not counted: {found.problem}")
        archived = found.writes
    return find_dead_slices(now.snapshot.timeline, now.table, archived)


def check_obstacles(table: ServicedTable, now: ServicedMetadata) -> None:
    """Raise `TryLater` where something is under way that changes which files of the metadata table count."""
    obstacles = find_obstacles(now.snapshot.timeline, now.table)
    if obstacles:
        raise TryLater(
            f"The metadata table of {table.base_path} is left alone now: "
            f"{', '.join(dict.fromkeys(obstacle.id for obstacle in obstacles))}.",
            why=" ".join(f"{obstacle.instant}: {obstacle.why}" for obstacle in obstacles),
            remedy=" ".join(dict.fromkeys(obstacle.remedy for obstacle in obstacles)),
        )


def metadata_attempt(table: ServicedTable, metadata: MetadataTable, instant: str, action: MetadataAction) -> Attempt:
    """This process's attempt at an instant of the metadata table's timeline, and what there may be of others at it."""
    timeline = timeline_folder(metadata.base_path, metadata.config)
    native = metadata.config.version.has_native_logs
    place = metadata_place(table.storage, table.base_path, timeline, native=native)
    return Attempt(place, instant, action, table.owner)
