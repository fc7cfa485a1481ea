"""Rollback plans are written as Hudi writes them, and no name in one leads to a file that its write did not write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline import rollback_metadata, rollback_plan
from lakeward.format.timeline.rollback_metadata import (
    encode_rollback_metadata,
    read_rollback_groups,
    read_rolled_back,
)
from lakeward.format.timeline.rollback_plan import (
    RollbackPlan,
    encode_rollback_plan,
    planned_path,
    read_planned_rollback,
)
from tests.golden_tables import GOLDEN

T = "20261122170645766"
BASE = f"fbfaa4ba-6bbd-4e88-974e-97e08870f2e8-0_2-128-201_{T}.parquet"
LOG = f".727a6217-9d24-437f-bfb5-518a5d47fa2c-0_{T}.log.1_0-128-199"
PLAN = RollbackPlan(T, "deltacommit", {"": (LOG,), "p=1/q=2": (LOG, BASE)})
NATIVE_LOGS = tuple(
    f"727a6217-9d24-437f-bfb5-518a5d47fa2c-0_0-128-199_{T}_1.{kind}.parquet" for kind in ("cdc", "deletes", "log")
)


@pytest.mark.parametrize("base_path", ["/data/t", "s3://lake/data/t"])
def test_what_is_written_is_what_is_read(base_path: str):
    """Keeps 1 of format/timeline/rollback_plan, on both kinds of storage."""
    data = encode_rollback_plan(PLAN, base_path=base_path)
    assert read_planned_rollback(data, base_path=base_path, file="f", native=False) == PLAN
    nothing = RollbackPlan(T, "commit", {})
    data = encode_rollback_plan(nothing, base_path=base_path)
    assert read_planned_rollback(data, base_path=base_path, file="f", native=False) == nothing


def test_native_logs_are_those_of_table_version_10():
    """Keeps 2 of format/timeline/rollback_plan: of an older table none is deleted. Each flush has several."""
    plan = RollbackPlan(T, "deltacommit", {"p": NATIVE_LOGS})
    data = encode_rollback_plan(plan, base_path="/data/t")
    assert read_planned_rollback(data, base_path="/data/t", file="f", native=True) == plan
    assert read_rollback_groups(data, file="f", native=True) == {("p", "727a6217-9d24-437f-bfb5-518a5d47fa2c-0")}
    with pytest.raises(UntrustedName):
        read_planned_rollback(data, base_path="/data/t", file="f", native=False)


@pytest.mark.parametrize("name", ["requested", "completed"])
def test_the_schema_is_hudis(name: str):
    """Keeps 3 of format/timeline/rollback_plan, and Keeps of format/timeline/rollback_metadata: it is so in files of
    Hudi 1.2.0, to the field."""
    schema = {"requested": rollback_plan._SCHEMA, "completed": rollback_metadata.ROLLBACK_METADATA}[name]
    assert schema == schema_of(golden(name))


def test_hudis_own_is_read():
    """Its plan names each file by a path without a scheme; Lakeward's of the same is the same record."""
    plan = read_planned_rollback(golden("requested"), base_path="/data/lake/rollbacks", file="f", native=False)
    assert (plan.instant, plan.action) == (T, "deltacommit")
    assert {path: len(names) for path, names in plan.files.items()} == {"p0": 2, "p1": 2}
    own = read_record(encode_rollback_plan(plan, base_path="/data/lake/rollbacks"), file="f")
    hudis = read_record(golden("requested"), file="f")
    assert in_order(own) == in_order(hudis)


def test_the_result_is_what_hudi_writes():
    """But for the order of files, and the milliseconds."""
    hudis = read_record(golden("completed"), file="f")
    plan = read_planned_rollback(golden("requested"), base_path="/data/lake/rollbacks", file="f", native=False)
    data = encode_rollback_metadata(
        plan,
        instant=hudis["startRollbackTime"],
        milliseconds=hudis["timeTakenInMillis"],
        base_path="/data/lake/rollbacks",
    )
    assert read_rolled_back(data, file="f") == (T,)
    own = read_record(data, file="f")
    for each in (own, hudis):
        for partition in each["partitionMetadata"].values():
            partition["successDeleteFiles"].sort()
    assert own == hudis


@pytest.mark.parametrize("root", ["/data/t", "s3a://lake/data/t", "s3://lake/data/t", "//lake/data/t"])
def test_a_bucket_has_several_schemes(root: str):
    """Whichever an engine names it by."""
    data = plan_naming("p", f"{root}/p/{BASE}")
    assert read_planned_rollback(data, base_path="s3://lake/data/t", file="f", native=False).files == {"p": (BASE,)}


@pytest.mark.parametrize(
    ("partition", "path"),
    [
        ("p", f"/data/other/p/{BASE}"),
        ("p", f"/data/t/q/{BASE}"),
        ("p", f"/data/t/p/sub/{BASE}"),
        ("p", f"/data/t/p/../p/{BASE}"),
        ("p", f"/data/t/p/{BASE.replace(T, '20261122170645765')}"),
        ("p", "/data/t/p/.hoodie_partition_metadata"),
        ("p", BASE),
        ("../p", f"/data/t/../p/{BASE}"),
        (".hoodie/timeline", f"/data/t/.hoodie/timeline/{BASE}"),
    ],
)
def test_a_file_of_another_write_is_refused(partition: str, path: str):
    """Keeps 2 of format/timeline/rollback_plan."""
    with pytest.raises(UntrustedName):
        read_planned_rollback(plan_naming(partition, path), base_path="/data/t", file="f", native=False)


def test_blocks_of_a_log_are_refused():
    """They are those of version 6, where several writes append to one log."""
    data = plan_naming("p", f"/data/t/p/{BASE}", blocks={f"/data/t/p/{LOG}": 1})
    with pytest.raises(BrokenFile, match="logBlocksToBeDeleted"):
        read_planned_rollback(data, base_path="/data/t", file="f", native=False)


def test_a_path_has_no_scheme():
    """Hudi's writer fails over a scheme that is not its own."""
    assert planned_path("s3://lake/data/t", "", LOG) == f"/data/t/{LOG}"
    assert planned_path("/data/t", "p", LOG) == f"/data/t/p/{LOG}"


def golden(name: str) -> bytes:
    names = {
        "requested": "20261122170649631.rollback.requested",
        "completed": "20261122170649631_20261122170650357.rollback",
    }
    return (GOLDEN / "timeline" / names[name]).read_bytes()


def plan_naming(partition: str, path: str, blocks: dict[str, int] | None = None) -> bytes:
    request = {
        "partitionPath": partition,
        "fileId": "",
        "latestBaseInstant": "",
        "filesToBeDeleted": [path],
        "logBlocksToBeDeleted": blocks or {},
    }
    target = {"commitTime": T, "action": "deltacommit"}
    return write_record(
        rollback_plan._SCHEMA, {"instantToRollback": target, "RollbackRequests": [request], "version": 1}
    )


def in_order(record: dict[str, Any]) -> dict[str, Any]:
    return record | {"RollbackRequests": sorted(record["RollbackRequests"], key=lambda each: each["filesToBeDeleted"])}


def schema_of(data: bytes) -> dict[str, Any]:
    begin = data.index(b'{"type"')
    return json.JSONDecoder().raw_decode(data[begin:].decode("latin-1"))[0]
