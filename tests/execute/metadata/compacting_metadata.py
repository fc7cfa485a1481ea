"""The services of the metadata table of a golden table, with or without a fault."""

from __future__ import annotations

from pathlib import Path

from lakeward.commit.lock.opening import stopped_writers_options
from lakeward.commit.owner import Processes
from lakeward.execute.metadata.cleaning import CleanedMetadata, MetadataCleaner
from lakeward.execute.metadata.compaction import CompactedMetadata, MetadataCompactor
from lakeward.execute.metadata.serviced_metadata import snapshot_with_metadata
from lakeward.execute.options import CompactionOptions
from lakeward.execute.serviced_table import ServicedTable
from lakeward.plan.metadata.services import MetadataBacklog
from lakeward.storage.storage import Storage
from tests.clocks import SkippingClock
from tests.processes import ScriptedProcesses


def serviced_table(base: str, storage: Storage, processes: Processes, **options: object) -> ServicedTable:
    defaults: dict[str, object] = {
        "writers_stopped": True,
        "lock": stopped_writers_options(wait_seconds=0.0),
        "timezone": "UTC",
    }
    return ServicedTable.for_one_attempt(
        storage,
        base,
        CompactionOptions(**(defaults | options)),  # type: ignore[arg-type]
        clock=SkippingClock(),
        processes=processes,
        observer=None,
        guard=lambda: None,
    )


def metadata_compactor(
    base: Path | str, storage: Storage, processes: Processes, **options: object
) -> MetadataCompactor:
    return MetadataCompactor(serviced_table(str(base), storage, processes, **options), {})


def preview_compaction(base: Path, storage: Storage, processes: Processes) -> MetadataBacklog:
    table = serviced_table(str(base), storage, processes)
    return MetadataCompactor(table, {}).preview(snapshot_with_metadata(table))


def compact_metadata(
    base: Path | str, storage: Storage, processes: Processes | None = None, **options: object
) -> CompactedMetadata | None:
    return metadata_compactor(base, storage, processes or ScriptedProcesses(), **options).compact()


def clean_metadata(
    base: Path | str, storage: Storage, processes: Processes | None = None, **options: object
) -> CleanedMetadata | None:
    return MetadataCleaner(serviced_table(str(base), storage, processes or ScriptedProcesses(), **options), {}).clean()
