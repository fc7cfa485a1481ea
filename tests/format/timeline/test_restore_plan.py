"""Restore plans, and what a completed restore says, are written as Hudi writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline import restore_metadata, restore_plan
from lakeward.format.timeline.restore_metadata import encode_restore_metadata
from lakeward.format.timeline.restore_plan import PlannedInstant, RestorePlan, encode_restore_plan, read_restore_plan
from lakeward.format.timeline.rollback_metadata import read_restored
from lakeward.format.timeline.rollback_plan import RollbackPlan
from tests.golden_tables import GOLDEN

R = "20261122212602913"
BASE_PATH = "/data/lake/restored-to-a-commit"


@pytest.mark.parametrize("instants", [(), (PlannedInstant("2", "compaction"), PlannedInstant("1", "deltacommit"))])
def test_what_is_written_is_what_is_read(instants: tuple[PlannedInstant, ...]) -> None:
    """Keeps 1 of format/timeline/restore_plan, the order with it."""
    plan = RestorePlan("20261122212530999", instants)
    assert read_restore_plan(encode_restore_plan(plan), file="f") == plan


@pytest.mark.parametrize("name", ["requested", "completed"])
def test_the_schema_is_hudis(name: str) -> None:
    """Keeps 2 of format/timeline/restore_plan, and Keeps of format/timeline/restore_metadata: it is so in files of Hudi
    1.2.0, to the field."""
    schema = {"requested": restore_plan._SCHEMA, "completed": restore_metadata._SCHEMA}[name]
    hudis = golden(name)
    found = json.JSONDecoder().raw_decode(hudis[hudis.index(b'{"type"') :].decode("latin-1"))[0]
    assert schema == found


def test_hudis_own_plan_is_read() -> None:
    """Lakeward's of the same is the same record."""
    plan = read_restore_plan(golden("requested"), file="f")
    assert plan.target == "20261122212530999"
    assert [each.action for each in plan.instants] == [
        "compaction",
        "deltacommit",
        "deltacommit",
        "replacecommit",
        "deltacommit",
        "commit",
        "deltacommit",
    ]
    assert read_record(encode_restore_plan(plan), file="f") == read_record(golden("requested"), file="f")


def test_a_plan_without_its_target_is_refused() -> None:
    """Releases before 0.13 did not say where a restore leads to."""
    data = write_record(
        restore_plan._SCHEMA, {"instantsToRollback": [], "version": 1, "savepointToRestoreTimestamp": None}
    )
    with pytest.raises(BrokenFile, match="savepointToRestoreTimestamp"):
        read_restore_plan(data, file="f")


def test_the_result_is_what_hudi_writes() -> None:
    """But for the times of the single rollbacks, of which Lakeward's has none, and the order of files."""
    hudis = read_record(golden("completed"), file="f")
    rolled_back = []
    for each in hudis["restoreInstantInfo"]:
        ((only),) = hudis["hoodieRestoreMetadata"][each["commitTime"]]
        files = {
            path: tuple(sorted(name.rpartition("/")[2] for name in partition["successDeleteFiles"]))
            for path, partition in only["partitionMetadata"].items()
        }
        rolled_back.append(RollbackPlan(each["commitTime"], each["action"], files))
    data = encode_restore_metadata(rolled_back, instant=R, milliseconds=hudis["timeTakenInMillis"], base_path=BASE_PATH)
    assert without_times(read_record(data, file="f")) == without_times(hudis)
    assert set(read_restored(data, file="f")) == {each.instant for each in rolled_back}


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    for rollbacks in record["hoodieRestoreMetadata"].values():
        for each in rollbacks:
            each["startRollbackTime"] = each["timeTakenInMillis"] = None
            for partition in each["partitionMetadata"].values():
                partition["successDeleteFiles"].sort()
    return record


def golden(name: str) -> bytes:
    names = {"requested": f"{R}.restore.requested", "completed": f"{R}_20261122212606249.restore"}
    return (GOLDEN / "timeline" / names[name]).read_bytes()
