"""Put back what one run of the quarantine holds: a clean is undone, orphan files go back into their places.

Touches: the table and its quarantine; the metadata table, which is compacted behind the undo of a clean.
Keeps:   1. a dry run writes nothing;
         2. a run comes back whole: the path of one of its files is an error that names the run.
See:     docs/decisions/0118-files-that-were-set-aside.md
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeward.base.errors import UsageError
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.run.orphans import preview_orphans, restore_orphans
from lakeward.services.clean.run.undo import UndoneClean, preview_undo, undo_clean
from lakeward.services.metadata.plan.due_before_writers import MetadataService
from lakeward.services.metadata.run.early_service import MetadataReport, service_metadata
from lakeward.table.quarantine import QuarantineKind, kind_of_run, load_quarantine


@dataclass(frozen=True, slots=True)
class RestoredRun:
    run: str
    kind: QuarantineKind
    files: int
    bytes: int
    is_preview: bool
    undone: UndoneClean | None = None
    """None where the files were orphan files."""
    metadata: MetadataReport = field(default_factory=MetadataReport)
    """What happened to the metadata table behind an undo. Where it was left as it is, nothing may be cleaned before
    it is compacted."""


def restore_run(table: ServicedTable, run: str, *, is_preview: bool) -> RestoredRun:
    """Raises `Refused`, `UsageError`, `TryLater`, `Conflict`."""
    _check_is_run(table, run)
    kind = kind_of_run(run)
    if kind is QuarantineKind.ORPHANS:
        found = preview_orphans(table, run) if is_preview else restore_orphans(table, run)
        return RestoredRun(run, kind, len(found.files), found.bytes, is_preview)
    undone = preview_undo(table, run) if is_preview else undo_clean(table, run)
    metadata = MetadataReport()
    if not is_preview:
        # Hudi's rule merges a deletion, an addition and another deletion to nothing, and the base file of the metadata
        # table would then go on listing a file that is gone: so the addition must not stay in a log.
        metadata = service_metadata(table, after=1, only=MetadataService.COMPACTION)
    return RestoredRun(run, kind, len(undone.plan.files), undone.plan.bytes, is_preview, undone, metadata)


def _check_is_run(table: ServicedTable, named: str) -> None:
    path = named.removeprefix(f"{table.base_path}/")
    for run in load_quarantine(table.storage, table.base_path).runs:
        if any(file.path == path for file in run.files):
            raise UsageError(
                f"{path} is one of {len(run.files)} files of {run.run}.",
                why="What one clean, or one search for orphan files, set aside comes back together.",
                remedy=f"Run `lakeward quarantine restore TABLE {run.run}`.",
            )
