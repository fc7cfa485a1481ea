"""The metadata table serviced before its writers have to: scanned without the table's lock, done where it is due.

    scan_trigger    one listing of its timeline, and its plans, each once
    service_metadata   the same, and where the services are due: clean and compact, each under the table's lock

Touches: the metadata table's timeline, reading only, until services are due; then what
         `services/metadata/run/metadata_round.py` touches.
Keeps:   1. the table's lock is taken only where the services are due;
         2. what prevents them is in the report, and fails no work, but for what verification found.
See:     docs/decisions/0018-the-metadata-table-before-its-writers.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakeward.base.clock import Clock
from lakeward.base.errors import BrokenFile, Cancelled, LakewardError, LeaseLost, Unsupported
from lakeward.protocol.progress import Count
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.plan.due_before_writers import (
    MetadataService,
    MetadataTrigger,
    metadata_trigger,
)
from lakeward.storage.storage import Storage
from lakeward.table.metadata.compact_after import AUTO, MetadataCompactAfter
from lakeward.table.metadata.metadata_table import has_metadata_table, load_metadata_timeline, metadata_base_path
from lakeward.table.table_config import TableConfig, load_table_config
from lakeward.table.timeline.service_instants import read_service_instants
from lakeward.table.timeline.timeline_reader import TimelineCache

if TYPE_CHECKING:
    from lakeward.services.metadata.run.metadata_round import MetadataDone
    from lakeward.services.metadata.run.slice_merges import MergeTasks


@dataclass(frozen=True, slots=True)
class MetadataReport:
    """What happened to the services of a metadata table."""

    trigger: MetadataTrigger | None = None
    """The trigger before the services; None where there is no metadata table, where it is left to its writers, and
    where it could not be read."""
    done: MetadataDone | None = None
    """None where nothing was due."""
    left: LakewardError | OSError | None = None
    """What prevented it."""


def scan_trigger(
    storage: Storage,
    base_path: str,
    config: TableConfig,
    *,
    after: MetadataCompactAfter,
    clock: Clock,
    cache: TimelineCache | None = None,
) -> MetadataTrigger | None:
    """None where there is no metadata table, or it is left to its writers. Raises as `load_metadata_table`.

    Args:
        cache: of plans that were read before; kept no larger than the timeline.
    """
    if not after or not has_metadata_table(config):
        return None
    metadata_config, timeline = load_metadata_timeline(storage, base_path, config, clock=clock)
    by_writers: frozenset[str] = frozenset()
    if after == AUTO:
        cache = {} if cache is None else cache
        instants = read_service_instants(storage, metadata_base_path(base_path), metadata_config, timeline, cache)
        by_writers = frozenset(each.time for each in instants if each.is_readable and each.planned_by is None)
        for gone in cache.keys() - timeline.modified.keys():
            del cache[gone]
    return metadata_trigger(timeline, after=after, by_writers=by_writers)


def preview_trigger(
    storage: Storage, base_path: str, *, after: MetadataCompactAfter, clock: Clock
) -> MetadataTrigger | None:
    """None also where the metadata table cannot be read: then it is not compacted either, and `inspect` says why."""
    config = load_table_config(storage, base_path, clock=clock).config
    try:
        return scan_trigger(storage, base_path, config, after=after, clock=clock)
    except (Unsupported, BrokenFile):
        return None


def service_metadata(
    table: ServicedTable,
    *,
    after: MetadataCompactAfter,
    planned_by: Mapping[str, str] | None = None,
    only: MetadataService | None = None,
    tasks: MergeTasks | None = None,
) -> MetadataReport:
    """Clean and compact the metadata table where that is due. Raises `Cancelled` and `LeaseLost` only.

    Args:
        only: one of the two services; None does both, the clean first.
        tasks: where slices are merged; None: in this process.
    """
    trigger = None
    try:
        config = load_table_config(table.storage, table.base_path, clock=table.clock).config
        trigger = scan_trigger(table.storage, table.base_path, config, after=after, clock=table.clock)
        if trigger is None or not trigger.is_due:
            return MetadataReport(trigger)
        # With kernels, which are needed only where something is due.
        from lakeward.services.metadata.run.metadata_round import MetadataServices

        done = MetadataServices(table, planned_by=planned_by, tasks=tasks).run(only, delta_commits_min=trigger.after)
    except (Cancelled, LeaseLost):
        raise
    except (LakewardError, OSError) as error:
        table.observer.step(f"the metadata table is left as it is: {error}")
        table.observer.counted(Count.METADATA_LEFT)
        return MetadataReport(trigger, left=error)
    if done.clean is not None:
        table.observer.counted(Count.METADATA_CLEAN)
    if done.compaction is not None:
        table.observer.counted(Count.METADATA_COMPACTION)
    return MetadataReport(trigger, done)
