"""Compaction plans, against what Hudi itself wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.avro.container import read_record, write_record
from lakeward.format.timeline.compaction_plan import (
    METRICS,
    RUNS_KEY,
    CompactionOperation,
    CompactionPlan,
    read_compaction_plan,
    write_compaction_plan,
)
from tests.format.avro.avro_files import avro_schema, semantics

GOLDEN = Path(__file__).parents[2] / "golden"
V9_PLAN = GOLDEN / "v9/table/.hoodie/timeline/20261121043710038.compaction.requested"
V6_PLAN = GOLDEN / "v6/table/.hoodie/20261121043716452.compaction.requested"
LOG_PLAN = GOLDEN / "timeline/20261121072057211.logcompaction.requested"

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"
OTHER_ID = "5e71f979-4f95-469c-afc2-4c9464978a02-0"
T = "20261121043703223"
OPERATION = CompactionOperation(
    partition_path="p",
    file_id=FILE_ID,
    base_instant=T,
    base_file=f"{FILE_ID}_0-0-0_{T}.parquet",
    log_files=(f".{FILE_ID}_20261121043706178.log.1_0-15-11", f".{FILE_ID}_20261121043708181.log.1_0-30-22"),
    metrics=dict.fromkeys(METRICS, 1.5),
)

texts = st.text(st.characters(codec="utf-8"), max_size=10)
partition_paths = st.sampled_from(["", "p", "2024/01", "day=2024-01-02/c=São Paulo", "a b", "x=1%", "%2e%2e", "日本"])
doubles = st.floats(allow_nan=False)


@st.composite
def operations(draw: st.DrawFn, *, types: st.SearchStrategy[str | None]) -> CompactionOperation:
    file_id = draw(st.uuids().map(str)) + "-0"
    versions = draw(st.lists(st.integers(1, 99), unique=True, max_size=3))
    return CompactionOperation(
        partition_path=draw(partition_paths),
        file_id=file_id,
        base_instant=draw(st.none() | st.just(T)),
        base_file=draw(st.none() | st.just(f"{file_id}_0-0-0_{T}.parquet")),
        log_files=tuple(f".{file_id}_{T}.log.{version}_0-0-0" for version in versions),
        metrics={name: draw(doubles) for name in METRICS},
        bootstrap_file=draw(st.none() | st.just("hdfs://x/y")),
        operation_type=draw(types),
    )


@st.composite
def plans(draw: st.DrawFn) -> CompactionPlan:
    version = draw(st.sampled_from([2, 3]))
    types = st.sampled_from([None, "FULL", "LOG"]) if version == 3 else st.none()
    strategy = draw(st.none() | texts)
    return CompactionPlan(
        operations=tuple(draw(st.lists(operations(types=types), max_size=3))),
        version=version,
        strategy=strategy,
        strategy_params=draw(st.dictionaries(texts, texts, max_size=2)) if strategy is not None else {},
        preserve_metadata=draw(st.booleans()),
        extra_metadata=draw(st.dictionaries(texts, texts, max_size=2)),
    )


def raw(data: bytes) -> dict[str, Any]:
    return read_record(data, file="x")


def changed(**fields: Any) -> bytes:
    """Hudi's own plan with some fields of its operation replaced."""
    data = V9_PLAN.read_bytes()
    record = raw(data)
    record["operations"][0] |= fields
    return write_record(avro_schema(data), record)


@pytest.mark.parametrize("path", [V9_PLAN, V6_PLAN, LOG_PLAN], ids=lambda path: path.name)
def test_schema_is_hudis(path: Path) -> None:
    """Field for field, with names, defaults and the order of unions, the schema is the one that Hudi writes."""
    own = avro_schema(write_compaction_plan(CompactionPlan(operations=(OPERATION,))))

    assert semantics(own) == semantics(avro_schema(path.read_bytes()))


@pytest.mark.parametrize("path", [V9_PLAN, V6_PLAN, LOG_PLAN], ids=lambda path: path.name)
def test_hudis_plans_survive_being_read_and_written(path: Path) -> None:
    """Decoded without our model, what we write of a Hudi plan equals what Hudi wrote."""
    plan = read_compaction_plan(path.read_bytes(), file=path.name)

    assert raw(write_compaction_plan(plan)) == raw(path.read_bytes())


@given(plans())
def test_every_value_survives_being_written(plan: CompactionPlan) -> None:
    """What is written is read back."""
    assert read_compaction_plan(write_compaction_plan(plan), file="x") == plan


def test_fields_have_hudis_meaning() -> None:
    """The golden plan names one slice: its base file, and its logs in their order."""
    plan = read_compaction_plan(V9_PLAN.read_bytes(), file=V9_PLAN.name)
    [operation] = plan.operations

    assert (plan.version, plan.strategy, plan.preserve_metadata) == (2, None, False)
    assert (operation.partition_path, operation.file_id, operation.base_instant) == ("p", FILE_ID, T)
    assert operation.base_file == f"{FILE_ID}_0-0-0_{T}.parquet"
    assert [name.rpartition("_")[2] for name in operation.log_files] == ["0-15-11", "0-30-22", "0-49-34"]
    assert operation.metrics["TOTAL_LOG_FILES"] == 3.0
    assert operation.operation_type is None


def test_log_compaction_names_its_executor() -> None:
    """A log compaction is known by the class of its strategy, and keeps meta columns."""
    plan = read_compaction_plan(LOG_PLAN.read_bytes(), file=LOG_PLAN.name)

    assert plan.strategy == "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
    assert plan.preserve_metadata
    assert len(plan.operations) == 2


def test_operation_types_are_only_on_disk_where_there_are_any() -> None:
    """Released readers see their own schema unless a plan says FULL or LOG; null beside them stays null."""
    typed = replace(OPERATION, operation_type="LOG")
    other = replace(OPERATION, partition_path="q")
    plan = CompactionPlan(operations=(typed, other), version=3)

    assert b"operationType" not in write_compaction_plan(CompactionPlan(operations=(OPERATION,), version=3))
    assert [each["operationType"] for each in raw(write_compaction_plan(plan))["operations"]] == ["LOG", None]
    assert read_compaction_plan(write_compaction_plan(plan), file="x") == plan


def test_a_run_is_in_the_extra_metadata() -> None:
    """Keeps 5 of format/timeline/compaction_plan: what Hudi reads of the operation names all logs, and what we do not
    understand of a run is an error."""
    run = replace(OPERATION, operation_type="LOG", run=OPERATION.log_files[1:])
    other = replace(OPERATION, partition_path="", operation_type="LOG", run=())
    plan = CompactionPlan((run, other, replace(OPERATION, partition_path="q")), version=3, extra_metadata={"a": "b"})
    data = write_compaction_plan(plan)
    assert read_compaction_plan(data, file="x") == plan
    record = read_record(data, file="x")
    assert [each["deltaFilePaths"] for each in record["operations"]] == [list(OPERATION.log_files)] * 3
    assert record["extraMetadata"] == {
        "a": "b",
        RUNS_KEY: f'{{"p":{{"{FILE_ID}":["{OPERATION.log_files[1]}"]}},"":{{"{FILE_ID}":[]}}}}',
    }
    for wrong in ("{", "[]", '{"p":[]}', f'{{"p":{{"{FILE_ID}":["another"]}}}}', f'{{"p":{{"{FILE_ID}":1}}}}'):
        broken = write_compaction_plan(replace(plan, operations=(OPERATION,), extra_metadata={RUNS_KEY: wrong}))
        with pytest.raises(BrokenFile, match=RUNS_KEY):
            read_compaction_plan(broken, file="x")


def test_operation_types_need_version_3() -> None:
    """A plan of version 2 cannot promise what its readers do not know."""
    with pytest.raises(AssertionError):
        write_compaction_plan(CompactionPlan(operations=(replace(OPERATION, operation_type="LOG"),)))


@pytest.mark.parametrize("missing", METRICS)
def test_all_five_metrics_are_written(missing: str) -> None:
    """Hudi fails on an operation without one of them, so such a plan never leaves us."""
    metrics = {name: 1.0 for name in METRICS if name != missing}
    with pytest.raises(AssertionError):
        write_compaction_plan(CompactionPlan(operations=(replace(OPERATION, metrics=metrics),)))


@pytest.mark.parametrize(
    "fields",
    [
        {"partitionPath": "../other"},
        {"partitionPath": "/etc"},
        {"partitionPath": "p/../.."},
        {"partitionPath": ".hoodie"},
        {"partitionPath": ".hoodie/metadata"},
        {"partitionPath": "p\\..\\q"},
        {"partitionPath": "p\0"},
        {"fileId": None},
        {"fileId": ""},
        {"fileId": "../x"},
        {"fileId": "a_b"},
        {"dataFilePath": "/etc/passwd"},
        {"dataFilePath": f"../{FILE_ID}_0-0-0_{T}.parquet"},
        {"dataFilePath": f"q/{FILE_ID}_0-0-0_{T}.parquet"},
        {"dataFilePath": f"{OTHER_ID}_0-0-0_{T}.parquet"},
        {"dataFilePath": f".{FILE_ID}_{T}.log.1_0-0-0"},
        {"dataFilePath": f"{FILE_ID}_0-0-0_{T}.parquet\n"},
        {"deltaFilePaths": ["../../secret"]},
        {"deltaFilePaths": [f"p/.{FILE_ID}_{T}.log.1_0-0-0"]},
        {"deltaFilePaths": [f".{OTHER_ID}_{T}.log.1_0-0-0"]},
        {"deltaFilePaths": [f"{FILE_ID}_0-0-0_{T}.parquet"]},
        {"deltaFilePaths": [""]},
    ],
)
def test_hostile_names_in_a_plan_are_refused(fields: dict[str, Any]) -> None:
    """A plan that names a file outside its file group, or in no known grammar, is not carried out."""
    with pytest.raises(UntrustedName):
        read_compaction_plan(changed(**fields), file="x")


def test_base_files_of_a_metadata_table_are_named_where_they_belong() -> None:
    """A plan of a metadata table names HFiles, a plan of any other table never does."""
    name = f"{FILE_ID}_0-0-0_{T}.hfile"
    data = changed(dataFilePath=name)

    (operation,) = read_compaction_plan(data, file="f", extension="hfile").operations
    assert operation.base_file == name
    with pytest.raises(UntrustedName):
        read_compaction_plan(data, file="f")
    with pytest.raises(UntrustedName):
        read_compaction_plan(V9_PLAN.read_bytes(), file="f", extension="hfile")


def test_hostile_names_are_not_written_either() -> None:
    """The same gate stands before our own plans."""
    with pytest.raises(UntrustedName):
        write_compaction_plan(CompactionPlan(operations=(replace(OPERATION, partition_path="../other"),)))


@pytest.mark.parametrize("partition_path", ["", None, "day=2024-01-02/c=São Paulo", "a b", "x=1%", "%2e%2e/%2F"])
def test_legal_partition_paths_are_kept_as_they_are(partition_path: str | None) -> None:
    """It is empty or absent for an unpartitioned table; else it is the text of the folders, with nothing decoded."""
    [operation] = read_compaction_plan(changed(partitionPath=partition_path), file="x").operations
    assert operation.partition_path == (partition_path or "")


def test_slice_may_lack_its_base_file() -> None:
    """Null or empty, a missing base file is None."""
    for missing in (None, ""):
        [operation] = read_compaction_plan(changed(dataFilePath=missing), file="x").operations
        assert operation.base_file is None


def test_log_is_named_once() -> None:
    """Merging a log twice could resurrect rows."""
    name = f".{FILE_ID}_{T}.log.1_0-0-0"
    with pytest.raises(BrokenFile, match="deltaFilePaths"):
        read_compaction_plan(changed(deltaFilePaths=[name, name]), file="x")


def test_file_group_is_planned_once() -> None:
    """Two operations on one group would write the same file."""
    twice = write_compaction_plan(CompactionPlan(operations=(OPERATION, OPERATION)))
    with pytest.raises(BrokenFile, match="operations"):
        read_compaction_plan(twice, file="x")


@pytest.mark.parametrize("version", [None, 0, 1, 4])
def test_other_versions_of_plans_are_refused(version: int | None) -> None:
    """Version 1 holds whole paths, and what 4 will hold is unknown."""
    data = V9_PLAN.read_bytes()
    other = write_record(avro_schema(data), raw(data) | {"version": version})
    with pytest.raises(BrokenFile, match="version"):
        read_compaction_plan(other, file="x")


def test_plan_may_be_empty() -> None:
    """A plan without operations is read as one."""
    data = V9_PLAN.read_bytes()
    for nothing in (None, []):
        empty = write_record(avro_schema(data), raw(data) | {"operations": nothing})
        assert read_compaction_plan(empty, file="x").operations == ()


def test_unknown_fields_are_ignored() -> None:
    """A newer writer may say more than we know."""
    data = V9_PLAN.read_bytes()
    schema = avro_schema(data)
    schema["fields"].append({"name": "mood", "type": "string"})

    assert read_compaction_plan(write_record(schema, raw(data) | {"mood": "good"}), file="x") == read_compaction_plan(
        data, file="x"
    )


def test_other_record_is_no_plan() -> None:
    """A container of something else is refused by name."""
    commit = next((GOLDEN / "v9/table/.hoodie/timeline").glob("*_*.commit"))
    with pytest.raises(BrokenFile, match=r"t\.compaction\.requested"):
        read_compaction_plan(commit.read_bytes(), file="t.compaction.requested")
