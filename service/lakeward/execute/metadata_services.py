"""The metadata table's own services: clean what earlier compactions left behind, then compact.

In this order what a compaction replaces stays for a whole round, as with Hudi, whose cleaner waits after a compaction.

Touches: through `execute/metadata_cleaning.py` and `execute/metadata_compaction.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.clock import Clock
from lakeward.commit.owner import Processes
from lakeward.execute.compaction_options import CompactionOptions
from lakeward.execute.metadata_cleaning import CleanedMetadata, MetadataCleaner
from lakeward.execute.metadata_compaction import CompactedMetadata, MetadataCompactor
from lakeward.execute.progress import Observer
from lakeward.execute.serviced_metadata import look_at_metadata_table
from lakeward.execute.serviced_table import Guard, ServicedTable
from lakeward.plan.metadata_cleaning import DeadSlices, find_dead_slices
from lakeward.plan.metadata_services import MetadataBacklog
from lakeward.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class MetadataWork:
    """What the services would do now."""

    dead: DeadSlices
    backlog: MetadataBacklog

    @property
    def is_due(self) -> bool:
        return bool(self.dead.slices) or self.backlog.is_due


@dataclass(frozen=True, slots=True)
class MetadataDone:
    """What the services did; None for what was not due."""

    clean: CleanedMetadata | None
    compaction: CompactedMetadata | None


class MetadataServices:
    """Of the metadata table of one table. One process, one attempt number."""

    def __init__(
        self,
        storage: Storage,
        base_path: str,
        options: CompactionOptions,
        *,
        clock: Clock,
        processes: Processes,
        observer: Observer | None = None,
        guard: Guard = lambda: None,
        planned_by: Mapping[str, str] | None = None,
    ) -> None:
        """
        Args:
            guard: called before anything is published and while work goes on; stops it by raising an error of ours.
            planned_by: more to write into the plans' extra metadata.
        """
        table = ServicedTable.for_one_attempt(
            storage, base_path, options, clock=clock, processes=processes, observer=observer, guard=guard
        )
        self._table = table
        self._cleaner = MetadataCleaner(table, planned_by or {})
        self._compactor = MetadataCompactor(table, planned_by or {})

    def preview(self) -> MetadataWork:
        """What would be done now. Writes nothing. Raises as `run` does."""
        look = look_at_metadata_table(self._table)
        return MetadataWork(find_dead_slices(look.snapshot.timeline, look.table), self._compactor.preview(look))

    def run(self, *, delta_commits_min: int = 1) -> MetadataDone:
        """Raises as `MetadataCleaner.clean` and `MetadataCompactor.compact` do.

        Args:
            delta_commits_min: it is not compacted where there were fewer since the last compaction.
        """
        clean = self._cleaner.clean()
        return MetadataDone(clean, self._compactor.compact(delta_commits_min=delta_commits_min))
