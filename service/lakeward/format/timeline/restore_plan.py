"""Restore plans: which instants a requested restore is going to roll back, in that order. Avro in both layouts.

    savepointToRestoreTimestamp   the commit that the table goes back to
    instantsToRollback            each with the action that it had when the plan was made: `commit` for a compaction
                                  that is completed, `compaction` for one that is pending

Touches: nothing.
Keeps:   1. read_restore_plan(encode_restore_plan(plan)) == plan;
         2. what is written is in the schema of Hudi 1.2, to the field.
Source:  HoodieRestorePlan, RestorePlanActionExecutor (Hudi 1.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.format.avro.container import read_record, write_record
from lakeward.format.avro.record_fields import RecordFields
from lakeward.format.timeline.avro_types import TEXT
from lakeward.format.timeline.rollback_plan import INSTANT_INFO

VERSION = 2
"""Plans of version 1, of releases before 0.13, do not say where they lead to."""


@dataclass(frozen=True, slots=True)
class PlannedInstant:
    """An instant that is going to be rolled back."""

    time: str
    action: str


@dataclass(frozen=True, slots=True)
class RestorePlan:
    target: str
    """The commit that the table goes back to."""
    instants: tuple[PlannedInstant, ...]

    @property
    def times(self) -> frozenset[str]:
        return frozenset(each.time for each in self.instants)


_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieRestorePlan",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {
            "name": "instantsToRollback",
            "type": {"type": "array", "items": INSTANT_INFO, "default": None},
            "default": [],
        },
        {"name": "version", "type": ["int", "null"], "default": 2},
        {"name": "savepointToRestoreTimestamp", "type": ["null", TEXT], "default": None},
    ],
}


def read_restore_plan(data: bytes, *, file: str) -> RestorePlan:
    """The content of a requested restore. Raises `BrokenFile`."""
    fields = RecordFields(read_record(data, file=file), file=file)
    target = fields.text("savepointToRestoreTimestamp")
    if not target:
        raise fields.broken("savepointToRestoreTimestamp", "the commit that the table goes back to")
    instants = []
    for each in fields.records("instantsToRollback"):
        time, action = each.text("commitTime"), each.text("action")
        if time is None or action is None:
            raise each.broken("commitTime", "an instant and its action")
        instants.append(PlannedInstant(time, action))
    return RestorePlan(target, tuple(instants))


def encode_restore_plan(plan: RestorePlan) -> bytes:
    """The bytes of a requested restore."""
    instants = [{"commitTime": each.time, "action": each.action} for each in plan.instants]
    return write_record(
        _SCHEMA, {"instantsToRollback": instants, "version": VERSION, "savepointToRestoreTimestamp": plan.target}
    )
