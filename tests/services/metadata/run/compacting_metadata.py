"""The services of the metadata table of a golden table, with or without a fault."""

from __future__ import annotations

from pathlib import Path

from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.metadata.key_changes import WriteChanges
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.owner import Processes
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.plan.metadata_due import MetadataBacklog
from lakeward.services.metadata.run.compaction import CompactedMetadata, MetadataCompactor
from lakeward.services.metadata.run.metadata_round import CleanedMetadata, MetadataCleaner, in_this_process
from lakeward.services.metadata.run.serviced_metadata import snapshot_with_metadata
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA, METADATA_TIMELINE, timeline
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.protocol.metadata.test_key_changes import changed
from tests.protocol.metadata.test_metadata_writer import Desk
from tests.version_10 import set_version

VERSION_10 = "v10_metadata"


def copy_table(version: str, target: Path) -> Path:
    """A golden table; or one made version 10 of it, whose metadata table has native logs over the inline ones."""
    if version != VERSION_10:
        return copy_golden(version, target)
    copy_golden(GOLDEN, target)
    for table in (target, target / METADATA):
        set_version(table, 10)
    commit_natively(target)
    return target


def commit_natively(base: Path) -> str:
    """A delta commit of a write that takes keys out of the record index; its instant."""
    storage, snapshot = LocalStorage(), scan(base)
    newest = max(i.completion_time or i.time for i in timeline(base, METADATA_TIMELINE))
    instant, done = (str(int(newest) + more) for more in (1, 2))
    of = Desk(base, storage, instant=instant)
    keys = (changed(of, {"a": "f-0", "b": "f-0", "gone": None, "k0": None}),)
    write = WriteChanges(snapshot.schema or "", keys=keys)
    staged = of.commit.stage(snapshot, of.files, write=write, fence=lambda: None)
    staged.publish(done, is_pending=lambda: True, fence=lambda: None)
    storage.delete_folder(str(of.folder.parent))
    return instant


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
    return MetadataCompactor(serviced_table(str(base), storage, processes, **options), {}, in_this_process(storage))


def preview_compaction(base: Path, storage: Storage, processes: Processes) -> MetadataBacklog:
    table = serviced_table(str(base), storage, processes)
    return MetadataCompactor(table, {}, in_this_process(storage)).preview(snapshot_with_metadata(table))


def compact_metadata(
    base: Path | str, storage: Storage, processes: Processes | None = None, **options: object
) -> CompactedMetadata | None:
    return metadata_compactor(base, storage, processes or ScriptedProcesses(), **options).compact()


def clean_metadata(
    base: Path | str, storage: Storage, processes: Processes | None = None, **options: object
) -> CleanedMetadata | None:
    return MetadataCleaner(serviced_table(str(base), storage, processes or ScriptedProcesses(), **options), {}).clean()
