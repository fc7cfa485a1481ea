"""Which instants a rollback or a restore rolled back: Avro files in both layouts.

    completed rollback     commitsRollback: instants
    completed restore      the rollbacks it consists of, by the instant that each one rolled back
    requested rollback     instantToRollback: the one it is going to roll back

Touches: nothing.
"""

from __future__ import annotations

from lakeward.format.avro.container import read_record
from lakeward.format.avro.record_fields import RecordFields


def read_rolled_back(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed rollback. Raises `BrokenFile`."""
    return _fields(data, file).texts("commitsRollback")


def read_restored(data: bytes, *, file: str) -> tuple[str, ...]:
    """The instants of a completed restore. Raises `BrokenFile`."""
    rollbacks = _fields(data, file).records_by_key("hoodieRestoreMetadata")
    return tuple(time for each in rollbacks.values() for rollback in each for time in rollback.texts("commitsRollback"))


def read_rollback_plan(data: bytes, *, file: str) -> str:
    """The instant that a requested rollback is about. Raises `BrokenFile`."""
    fields = _fields(data, file)
    target = fields.record("instantToRollback")
    time = None if target is None else target.text("commitTime")
    if time is None:
        raise fields.broken("instantToRollback", "an instant")
    return time


def _fields(data: bytes, file: str) -> RecordFields:
    return RecordFields(read_record(data, file=file), file=file)
