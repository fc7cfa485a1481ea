"""The metadata table's own services: clean what earlier compactions left behind, then compact.

In this order what a compaction replaces stays for a whole round, as with Hudi, whose cleaner waits after a compaction.

Touches: through `services/metadata/run/metadata_clean.py` and `services/metadata/run/compaction.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.plan.dead_slices import DeadSlices
from lakeward.services.metadata.plan.due_before_writers import MetadataService
from lakeward.services.metadata.plan.metadata_due import MetadataBacklog
from lakeward.services.metadata.run.compaction import CompactedMetadata, MetadataCompactor
from lakeward.services.metadata.run.metadata_clean import CleanedMetadata, MetadataCleaner
from lakeward.services.metadata.run.serviced_metadata import dead_slices, snapshot_with_metadata


@dataclass(frozen=True, slots=True)
class MetadataWork:
    """What the services would do now; None for one that was not asked for."""

    dead: DeadSlices | None
    backlog: MetadataBacklog | None

    @property
    def is_due(self) -> bool:
        cleans = self.dead is not None and bool(self.dead.slices)
        return cleans or (self.backlog is not None and self.backlog.is_due)


@dataclass(frozen=True, slots=True)
class MetadataDone:
    """What the services did; None for what was not due, or not asked for."""

    clean: CleanedMetadata | None
    compaction: CompactedMetadata | None


class MetadataServices:
    """Services of the metadata table of one table. One process, one attempt number."""

    def __init__(self, table: ServicedTable, *, planned_by: Mapping[str, str] | None = None) -> None:
        """
        Args:
            planned_by: more to write into the plans' extra metadata.
        """
        self._table = table
        self._cleaner = MetadataCleaner(table, planned_by or {})
        self._compactor = MetadataCompactor(table, planned_by or {})

    def preview(self, only: MetadataService | None = None) -> MetadataWork:
        """What would be done now. Writes nothing. Raises as `run` does."""
        now = snapshot_with_metadata(self._table)
        cleans, compacts = only is not MetadataService.COMPACTION, only is not MetadataService.CLEAN
        return MetadataWork(
            dead_slices(self._table, now) if cleans else None,
            self._compactor.preview(now) if compacts else None,
        )

    def run(self, only: MetadataService | None = None, *, delta_commits_min: int = 1) -> MetadataDone:
        """Raises as `MetadataCleaner.clean` and `MetadataCompactor.compact` do.

        Args:
            only: one of the two; None does both.
            delta_commits_min: it is not compacted where there were fewer since the last compaction.
        """
        clean = self._cleaner.clean() if only is not MetadataService.COMPACTION else None
        if only is MetadataService.CLEAN:
            return MetadataDone(clean, None)
        return MetadataDone(clean, self._compactor.compact(delta_commits_min=delta_commits_min))
