"""An indexing that died is taken back, in an order in which the table is sound at every moment."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lakeward.base.errors import Refused, TryLater, UsageError
from lakeward.format.avro.container import write_record
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.pending.rollback import RollbackReason
from lakeward.protocol.pending.stuck_services import Judge
from lakeward.protocol.table_properties import update_properties
from lakeward.services.metadata.run.indexing_abort import AbortedIndexing, abort_indexing, preview_aborting
from lakeward.storage.local import LocalStorage
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import DATA_TIMELINE
from tests.processes import LookedOn, ScriptedProcesses
from tests.services.metadata.run.test_removal import PARTITIONS, config, copy_of

INSTANT = "20261121235900000"
PARTITION = "column_stats"
INFLIGHT = f"{DATA_TIMELINE}/{INSTANT}.indexing.inflight"
REQUESTED = f"{DATA_TIMELINE}/{INSTANT}.indexing.requested"
PLAN = {
    "type": "record",
    "name": "HoodieIndexPlan",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "version", "type": ["int", "null"]},
        {
            "name": "indexPartitionInfos",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieIndexPartitionInfo",
                        "fields": [
                            {"name": "version", "type": ["int", "null"]},
                            {"name": "metadataPartitionPath", "type": ["null", "string"]},
                            {"name": "indexUptoInstant", "type": ["null", "string"]},
                        ],
                    },
                },
            ],
        },
    ],
}


def begin_indexing(base: Path) -> None:
    """An indexer was building one partition when it died."""
    info = {"version": 1, "metadataPartitionPath": PARTITION, "indexUptoInstant": "20261121000000000"}
    (base / REQUESTED).write_bytes(write_record(PLAN, {"version": 1, "indexPartitionInfos": [info]}))
    (base / INFLIGHT).touch()
    built = ",".join(name for name in PARTITIONS.split(",") if name != PARTITION)
    changes = {
        "hoodie.table.metadata.partitions": built,
        "hoodie.table.metadata.partitions.inflight": PARTITION,
    }
    update_properties(LocalStorage(), str(base), changes, fence=lambda: None)


def dead_indexing(golden: str, path: Path) -> Path:
    """An indexing that was building one partition, and died; all of it is a day old."""
    base = copy_golden(golden, path)
    begin_indexing(base)
    then = time.time() - 24 * 3600
    for path in base.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
    return base


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dead_indexing("v9_metadata", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return copy_of(golden, tmp_path / "table")


def judge(base: Path, storage: LocalStorage | FaultyStorage | None = None, *, stopped: bool = False) -> Judge:
    processes = ScriptedProcesses()
    processes.stillness = LookedOn()
    return Judge(
        storage or LocalStorage(),  # type: ignore[arg-type]
        str(base),
        SkippingClock(),
        processes,
        6 * 3600.0,
        writers_stopped=stopped,
    )


def abort(
    base: Path,
    storage: LocalStorage | FaultyStorage | None = None,
    *,
    instant: str | None = None,
    stopped: bool = False,
) -> AbortedIndexing | None:
    lock = stopped_writers_options(wait_seconds=0.0)
    return abort_indexing(judge(base, storage, stopped=stopped), instant, timezone="UTC", lock=lock)


def parts(base: Path) -> set[str]:
    return {path.name for path in (base / ".hoodie/metadata").iterdir() if not path.name.startswith(".")}


def test_what_it_was_building_goes(base: Path) -> None:
    """Its partition leaves the properties and its place, its instant goes, and all else is as it was; a second time
    there is nothing to do."""
    before, others = set(everything(base)), parts(base) - {PARTITION}
    planned = preview_aborting(judge(base), None, timezone="UTC")
    assert planned is not None and set(everything(base)) == before

    done = abort(base)

    assert done is not None and (done.decision.reason, done.kept) == (RollbackReason.SILENT, ())
    assert [removal.partition for removal in done.removals] == [PARTITION]
    assert planned.removals[0].folders == done.removals[0].folders
    assert parts(base) == others
    assert config(base).inflight_metadata_partitions == ()
    gone = {path for path in before if f"/metadata/{PARTITION}/" in path}
    assert before - set(everything(base)) == gone | {INFLIGHT, REQUESTED}
    assert abort(base) is None


def test_what_is_built_stays(base: Path) -> None:
    """Keeps 2 of services/metadata/run/indexing_abort: a writer built it afterwards, or the indexing died right before
    its end."""
    built = ",".join([*config(base).built_metadata_partitions, PARTITION])
    changes = {"hoodie.table.metadata.partitions": built, "hoodie.table.metadata.partitions.inflight": ""}
    update_properties(LocalStorage(), str(base), changes, fence=lambda: None)
    before = set(everything(base))
    done = abort(base)
    assert done is not None and (done.removals, done.kept) == ((), (PARTITION,))
    assert before - set(everything(base)) == {INFLIGHT, REQUESTED}


@pytest.mark.parametrize("young", [INFLIGHT, "in its partition", "heartbeat"])
def test_what_may_be_at_work_is_left(base: Path, young: str) -> None:
    """Keeps 1 of services/metadata/run/indexing_abort: unless it has a heartbeat, the operator's word ends it."""
    heartbeat = base / ".hoodie/.heartbeat" / INSTANT
    match young:
        case "heartbeat":
            heartbeat.parent.mkdir(exist_ok=True)
            heartbeat.touch()
        case "in its partition":
            os.utime(next(path for path in (base / ".hoodie/metadata" / PARTITION).iterdir() if path.is_file()))
        case _:
            os.utime(base / young)
    before = everything(base)
    with pytest.raises(TryLater if young == "heartbeat" else Refused, match=f"Indexing {INSTANT} is left"):
        abort(base)
    assert everything(base) == before
    if young != "heartbeat":
        assert abort(base, stopped=True) is not None


def test_another_instant_is_no_indexing(base: Path) -> None:
    """The error names the one that is pending."""
    with pytest.raises(UsageError, match=INSTANT):
        abort(base, instant="20261121000000000")
