"""What rollbacks and restores say that they rolled back."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.container import write_record
from lakeward.format.timeline.rollback_metadata import (
    UndoneInstants,
    read_restored,
    read_rollback_plan,
    read_rolled_back,
    read_undone,
)
from tests.golden_tables import GOLDEN

ROLLBACK = "20261122170649631_20261122170650357.rollback"
RESTORE = "20261122212602913_20261122212606249.restore"
_TEXTS = {"type": "array", "items": "string"}
_ROLLBACK: dict[str, Any] = {"type": "record", "name": "B", "fields": [{"name": "commitsRollback", "type": _TEXTS}]}


def record(name: str, kind: object, value: object) -> bytes:
    return write_record({"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}, {name: value})


def test_a_rollback_says_its_instants():
    """It usually has one."""
    assert read_rolled_back(record("commitsRollback", _TEXTS, ["1", "2"]), file="f") == ("1", "2")


def test_a_restore_says_those_of_its_rollbacks():
    """Which lie by the instant that each is about, several for one where it was tried more than once."""
    kind = {"type": "map", "values": {"type": "array", "items": _ROLLBACK}}
    value = {"1": [{"commitsRollback": ["1"]}, {"commitsRollback": []}], "2": [{"commitsRollback": ["2", "3"]}]}
    assert read_restored(record("hoodieRestoreMetadata", kind, value), file="f") == ("1", "2", "3")


def test_a_plan_says_its_instant():
    """One that does not is broken."""
    kind = ["null", {"type": "record", "name": "I", "fields": [{"name": "commitTime", "type": "string"}]}]
    assert read_rollback_plan(record("instantToRollback", kind, {"commitTime": "1"}), file="f") == "1"
    with pytest.raises(BrokenFile, match="instantToRollback"):
        read_rollback_plan(record("instantToRollback", kind, None), file="f")


@pytest.mark.parametrize("read", [read_rolled_back, read_restored, read_rollback_plan])
def test_what_is_no_avro_is_broken(read: Any):
    """Nothing is guessed from it."""
    with pytest.raises(BrokenFile, match="the file"):
        read(b"x" * 100, file="the file")


def undone(name: str) -> UndoneInstants:
    """What one of Hudi's undid."""
    return read_undone((GOLDEN / "timeline" / name).read_bytes(), file=name, native=False)


def test_what_a_rollback_undid():
    """It names one instant, and the file groups of the files that it deleted."""
    found = undone(ROLLBACK)

    assert found.instants == {"20261122170645766": "deltacommit"}
    assert sorted((path, file_id[:8]) for path, file_id in found.groups) == [
        ("p0", "727a6217"),
        ("p0", "fbfaa4ba"),
        ("p1", "5e99c978"),
        ("p1", "a6d88534"),
    ]


def test_what_a_restore_undid():
    """It consists of rollbacks, pending plans and replaced groups among them, each with its action."""
    found = undone(RESTORE)

    assert sorted(found.instants.values()) == ["commit", "compaction", *["deltacommit"] * 4, "replacecommit"]
    assert found.instants["20261122212549191"] == "replacecommit"
    assert len(found.groups) == 8 and {path for path, _ in found.groups} == {"p0", "p1"}
