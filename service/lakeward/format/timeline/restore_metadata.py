"""What a completed restore says: the rollbacks that it consists of. Avro in both layouts.

    hoodieRestoreMetadata   instant that was rolled back -> what a rollback of it alone would say
    restoreInstantInfo      the same instants with their actions, in the order in which they went

Which instants these are `rollback_metadata.py` reads.

Touches: nothing.
Keeps:   what is written is in the schema of Hudi 1.2, to the field.
Source:  HoodieRestoreMetadata, TimelineMetadataUtils.convertRestoreMetadata (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakeward.format.avro.container import write_record
from lakeward.format.timeline.avro_types import TEXT, TEXTS
from lakeward.format.timeline.rollback_metadata import ROLLBACK_METADATA, rollback_record
from lakeward.format.timeline.rollback_plan import RollbackPlan

VERSION = 1

_ROLLBACK = {key: value for key, value in ROLLBACK_METADATA.items() if key != "namespace"}

_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieRestoreMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "startRestoreTime", "type": TEXT},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "instantsToRollback", "type": TEXTS},
        {
            "name": "hoodieRestoreMetadata",
            "type": {
                "type": "map",
                "values": {"type": "array", "items": ["null", _ROLLBACK], "default": None},
                "avro.java.string": "String",
            },
        },
        {"name": "version", "type": ["int", "null"], "default": 1},
        {
            "name": "restoreInstantInfo",
            "type": {"type": "array", "items": "HoodieInstantInfo", "default": None},
            "default": [],
        },
    ],
}


def encode_restore_metadata(
    rolled_back: Sequence[RollbackPlan], *, instant: str, milliseconds: int, base_path: str
) -> bytes:
    """The bytes of the completed restore at `instant`, which rolled these back in their order."""
    return write_record(
        _SCHEMA,
        {
            "startRestoreTime": instant,
            "timeTakenInMillis": milliseconds,
            "instantsToRollback": [each.instant for each in rolled_back],
            "hoodieRestoreMetadata": {
                each.instant: [rollback_record(each, instant=instant, milliseconds=0, base_path=base_path)]
                for each in rolled_back
            },
            "version": VERSION,
            "restoreInstantInfo": [{"commitTime": each.instant, "action": each.action} for each in rolled_back],
        },
    )
