"""The metadata table of a table under service: one look at both, and what stands against changing its files.

Touches: both timelines and the files of the metadata table, reading only.
Keeps:   a table whose metadata table this release may not change is refused before its lock is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.commit.service_attempt import ServiceAttempt
from lakeward.commit.transition import MetadataAction
from lakeward.errors import Refused, TryLater
from lakeward.execute.metadata_commit import later
from lakeward.execute.progress import Phase
from lakeward.execute.serviced_table import ServicedTable
from lakeward.plan.metadata_services import find_obstacles
from lakeward.table.metadata_table import MetadataTable, has_metadata_table, load_metadata_table
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.table_config import timeline_folder


@dataclass(frozen=True, slots=True)
class ServicedMetadata:
    """A table and its metadata table at one moment."""

    snapshot: TableSnapshot
    table: MetadataTable

    @property
    def latest_time(self) -> str | None:
        """The greatest time on both timelines; a new instant must be greater."""
        return later(self.snapshot.timeline.latest_time, self.table.timeline.latest_time)


def look_at_metadata_table(table: ServicedTable) -> ServicedMetadata:
    """At both timelines, and at the files of the metadata table. Raises `Refused`."""
    snapshot = table.look(only=())
    if not has_metadata_table(snapshot.config):
        raise Refused(
            f"{table.base_path} has no metadata table.",
            why="hoodie.table.metadata.partitions does not name its partition `files`.",
            remedy="Nothing is to be done; a Hudi writer with hoodie.metadata.enable=true builds one.",
        )
    with table.measured(Phase.LOOK):
        metadata = load_metadata_table(
            table.storage, table.base_path, snapshot.config, snapshot.timeline, clock=table.clock
        )
    return ServicedMetadata(snapshot, metadata)


def check_obstacles(table: ServicedTable, look: ServicedMetadata) -> None:
    """Raise `TryLater` where something is under way that changes which files of the metadata table count."""
    obstacles = find_obstacles(look.snapshot.timeline, look.table)
    if obstacles:
        raise TryLater(
            f"The metadata table of {table.base_path} is left alone now: "
            f"{', '.join(dict.fromkeys(obstacle.id for obstacle in obstacles))}.",
            why=" ".join(f"{obstacle.instant}: {obstacle.why}" for obstacle in obstacles),
            remedy=" ".join(dict.fromkeys(obstacle.remedy for obstacle in obstacles)),
        )


def service_attempt(
    table: ServicedTable, metadata: MetadataTable, instant: str, action: MetadataAction
) -> ServiceAttempt:
    """At an instant that we carry out on the metadata table's timeline, or find there."""
    folder = timeline_folder(metadata.base_path, metadata.config)
    return ServiceAttempt(table.storage, table.base_path, folder, instant, action, table.owner)
