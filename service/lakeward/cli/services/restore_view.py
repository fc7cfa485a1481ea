"""What a restore takes back, as JSON: for `lakeward restore`, and for the undo of a clustering, which is one.

Touches: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakeward.services.together.restore.run.restore_preparation import PlannedRestore


def planned_json(planned: PlannedRestore) -> dict[str, Any]:
    return {
        "target": planned.target,
        "was_begun": planned.pending_restore is not None,
        "cleans_undone": [
            {"clean": each.clean, "files": each.files, "bytes": each.bytes} for each in planned.brought_back
        ],
        "rolled_back": [
            {
                "instant": each.instant,
                "action": each.action,
                "completed": each.is_completed,
                "operation": each.operation or None,
                "rows_inserted": each.inserted,
                "rows_updated": each.updated,
                "rows_deleted": each.deleted,
                "bytes": each.bytes,
                "files": [
                    {"partition_path": path, "name": name} for path, names in each.files.items() for name in names
                ],
            }
            for each in planned.undone
        ],
        "cleans_removed": list(planned.cleans),
        "stays_pending": list(planned.stays_pending),
        "metadata_table_removed": planned.has_metadata_table,
    }
