"""FULL of tables of version 10 that were of version 9: inline logs, native ones over them, and slices of both.

A seed is one history; LAKEWARD_RUNS=1000 runs as many.
"""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import fastavro
import pyarrow.parquet as pq
import pytest

from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.engine.task.slice_check import check_slice
from lakeward.format.avro.container import write_record
from lakeward.format.file_name import LogFileName, NativeLogName, parse_native_log
from lakeward.format.timeline.compaction_plan import read_compaction_plan
from lakeward.index.index_type import IndexType
from lakeward.read.file_slice import open_slice
from lakeward.read.newest_slice import table_reading
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.together.versions.run.version_step import change_version
from lakeward.services.verification.sample_verification import verify_sample
from lakeward.services.verification.table_verification import check_logs
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests import native_log_judge as judge
from tests.clocks import SkippingClock
from tests.crash.capturing import named_change_logs
from tests.crash.compacting import compact
from tests.faults import FaultyStorage
from tests.metadata_golden import set_property
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.runs import runs
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.version_10 import rename
from tests.write.judged import judged_values
from tests.write.test_histories import History
from tests.write.writing import BUCKETS, Row, new_table, write

STORAGE = LocalStorage()


def values_at(snapshot: TableSnapshot, instant: str) -> dict[str, str]:
    """The column `v` by key, as a query reads it that travels to the instant."""
    found: dict[str, str] = {}
    reading = replace(table_reading(snapshot, merges=True), instant=instant)
    for group in snapshot.file_groups:
        slice_ = next((each for each in group.slices if each.base_instant <= instant), None)
        if slice_ is None:
            continue
        with open_slice(STORAGE, reading.slice_input(slice_)) as merged:
            rows = [row for batch in merged.batches() for row in batch.to_pylist()]
        assert not {row["id"] for row in rows} & found.keys()
        found |= {row["id"]: row["v"] for row in rows}
    return found


def kinds_of_logs(base: Path) -> set[frozenset[type]]:
    return {frozenset(type(log.name) for log in slice_.log_files) for slice_ in scan(base).latest_slices}


def renamed_in_commit(data: bytes, names: dict[str, str]) -> bytes:
    reader = fastavro.reader(io.BytesIO(data))
    return write_record(reader.writer_schema, rename(next(iter(reader)), names))  # type: ignore[arg-type]


def nothing_to_merge(file_ids: Sequence[str]) -> None:
    raise AssertionError(f"an upgrade merges nothing: {file_ids}")


def verified(base: Path) -> int:
    """The slices that were merged twice, all right."""
    report = verify_sample(
        STORAGE,
        str(base),
        number=9,
        seed=1,
        dispatcher=InProcessDispatcher(),
        run_check=lambda spec, attempt: check_slice(STORAGE, spec, attempt),
        clock=SkippingClock(),
        timezone="UTC",
    )
    assert report.problems == ()
    return len(report.groups)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in range(1, runs(30)))])
def test_a_table_that_became_version_10(tmp_path: Path, seed: int) -> None:
    """After each write, and FULL over slices of inline, of native and of both kinds of logs, rows are those of a
    dictionary, also at every instant before; a plan names native logs, and what comes out has no log."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    by_event_time = seed % 2 == 0
    fields = ("ts",) if by_event_time else ()
    base = new_table(tmp_path / "t", version=9, ordering_fields=fields, has_metadata_table=False)
    history = History(chance, base, "MERGE_ON_READ", by_event_time, BUCKETS)
    states: dict[str, dict[str, str]] = {}

    def step(*acts: str) -> None:
        getattr(history, chance.choice(acts))()
        snapshot = scan(base)
        newest = snapshot.timeline.completed_writes[-1].time
        states[newest] = {key: str(row[3]) for key, row in history.rows.items()}
        for instant in states if seed else [newest]:
            assert values_at(snapshot, instant) == states[instant], "\n".join(history.shown)

    for acts in (("upsert",), ("upsert",), ("upsert", "delete"))[: chance.randint(2, 3)]:
        step(*acts)
    table = replace(serviced_table(str(base), STORAGE, ScriptedProcesses()), clock=history.clock)
    change_version(table, 10, nothing_to_merge, is_upgrade=True)
    step("upsert", "delete")
    history.upsert()
    step("upsert")
    assert frozenset({LogFileName, NativeLogName}) in kinds_of_logs(base)
    assert verified(base)
    step("compact")
    assert kinds_of_logs(base) == {frozenset()}
    assert judged_values(base) == {key: row[3] for key, row in history.rows.items()}
    for _ in range(2):
        step("upsert", "delete", "compact")
    assert {instant: values_at(scan(base), instant) for instant in states} == states


def test_a_plan_names_native_logs_and_its_output_is_an_ordinary_base_file(tmp_path: Path) -> None:
    """Logs of deletes, too; the base file is sorted, and says so as on every version."""
    base = new_table(tmp_path / "t", version=10, has_metadata_table=False)
    clock = SkippingClock()
    rows: list[Row] = [("ü", 1, "p", "a"), ("b", 1, "p", "a"), ("c", 1, "p", "a"), ("z", 1, "p", "a")]
    for operation, part in (("upsert", rows), ("upsert", rows[:2]), ("delete", rows[2:3])):
        write(base, part, operation, clock=clock, index=IndexType.BUCKET, buckets=1)
    named = {log.file_name for slice_ in scan(base).latest_slices for log in slice_.log_files}
    report = compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock)
    (plan,) = report.plans
    requested = (base / ".hoodie/timeline" / f"{plan.instant}.compaction.requested").read_bytes()
    operations = read_compaction_plan(requested, file="plan", native=True).operations
    assert {name for operation in operations for name in operation.log_files} == named
    assert {parse_native_log(name).kind for name in named} == {"log", "deletes"}  # type: ignore[union-attr]
    for slice_ in scan(base).latest_slices:
        assert slice_.base_file is not None and not slice_.log_files
        keys = pq.read_table(base / slice_.base_file.path).column("_hoodie_record_key").to_pylist()
        assert keys == ["b", "z", "ü"]


@pytest.mark.parametrize("mode", ["OP_KEY_ONLY", "DATA_BEFORE", "DATA_BEFORE_AFTER"])
def test_changes_are_captured_in_a_native_log(tmp_path: Path, mode: str) -> None:
    """The second reader finds in it what happened to each key, and no footer; the commit names it with its size, slices
    pass it over, and the next FULL writes another. Keeps 1 of engine/task/change_log_output."""
    base = new_table(tmp_path / "t", version=10, has_metadata_table=False)
    clock = SkippingClock()
    rows: list[Row] = [("a", 1, "p", "old"), ("b", 1, "p", "old"), ("c", 1, "p", "old")]
    later: list[Row] = [("b", 2, "p", "new"), ("c", 0, "p", "late"), ("d", 1, "p", "new")]
    one_bucket = {"index": IndexType.BUCKET, "buckets": 1, "clock": clock}
    for operation, part in (("upsert", rows), ("upsert", later), ("delete", rows[:1])):
        write(base, part, operation, **one_bucket)
    set_property(base, "hoodie.table.cdc.enabled", "true")
    set_property(base, "hoodie.table.cdc.supplemental.logging.mode", mode)

    (plan,) = compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock).plans

    ((path, size),) = named_change_logs(base).items()
    data = (base / path).read_bytes()
    assert len(data) == size and judge.footer(data) == {}
    name = judge.name_parts(path.rpartition("/")[2])
    assert (name["kind"], name["instant"], name["version"]) == ("cdc", plan.instant, "1")
    found = {}
    for row in pq.read_table(io.BytesIO(data)).to_pylist():
        key = row["record_key"] if "record_key" in row else (row["after"] or row["before"])["id"]
        found[key] = (row["op"], *(row[side] and row[side]["v"] for side in ("before", "after") if side in row))
    due = {"a": ("d", "old", None), "b": ("u", "old", "new"), "d": ("i", None, "new")}
    assert found == {key: each[: {"OP_KEY_ONLY": 1, "DATA_BEFORE": 2}.get(mode, 3)] for key, each in due.items()}
    assert scan(base).frozen == () and judged_values(base) == {"b": "new", "c": "old", "d": "new"}

    set_property(base, "hoodie.table.cdc.enabled", "false")  # or rows could not be written
    write(base, [("b", 3, "p", "newer")], **one_bucket)
    set_property(base, "hoodie.table.cdc.enabled", "true")
    compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock)
    assert len(named_change_logs(base)) == 2 and verified(base) == 1
    assert judged_values(base)["b"] == "newer"


def test_what_cannot_be_read_is_in_no_plan(tmp_path: Path) -> None:
    """A native log with a broken footer excludes its file group as damaged, one of an unknown format excludes it, too;
    the other file group is compacted. `verify` names the broken file."""
    base = new_table(tmp_path / "t", version=10, has_metadata_table=False)
    clock = SkippingClock()
    for v in ("old", "new"):
        rows: list[Row] = [(partition, 1, partition, v) for partition in ("broken", "orc", "right")]
        write(base, rows, index=IndexType.BUCKET, buckets=1, clock=clock)
    (broken,), (orc,) = (list((base / partition).glob("*.log.parquet")) for partition in ("broken", "orc"))
    data = broken.read_bytes()
    broken.write_bytes(data.replace(b"hudi.log.format.metadata", b"hudi.log.other..metadata"))
    renamed = orc.with_name(orc.name.replace(".log.parquet", ".log.orc"))
    orc.rename(renamed)
    for file in (base / ".hoodie/timeline").glob("*.deltacommit"):
        file.write_bytes(renamed_in_commit(file.read_bytes(), {orc.name: renamed.name}))

    report = compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock)
    reasons = {each.partition_path: each.reason for each in report.outcome.decisions}
    assert reasons == {"broken": Reason.DAMAGED, "orc": Reason.UNSUPPORTED_LOGS, "right": Reason.HAS_LOGS}
    ((operation,),) = (plan.operations for plan in report.plans)
    assert operation.partition_path == "right"
    found = check_logs(STORAGE, scan(base), lambda: scan(base))
    assert [problem.subject for problem in found.problems] == [f"broken/{broken.name}", f"orc/{renamed.name}"]
    assert "of the format orc" in found.problems[1].what
    assert {file.path for file in report.damage} == {f"broken/{broken.name}", f"orc/{renamed.name}"}
