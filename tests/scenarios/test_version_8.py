"""A table of version 8, by Hudi 1.0.2: FULL with its metadata table in step, and never a LOG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeward.base.clock import SystemClock
from lakeward.base.errors import Conflict
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.avro.schema import required_columns
from lakeward.format.metadata.log_file import MetadataBlock, metadata_blocks
from lakeward.format.parquet.base_file import read_required
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Choice, Reason
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from tests.crash.compacting import everything
from tests.golden_tables import GOLDEN as GOLDEN_TABLES
from tests.golden_tables import copy_golden
from tests.hudi.metadata_table import MADE_BY_COMPACTIONS, comparable_records
from tests.metadata_golden import DATA_TIMELINE, METADATA, set_property
from tests.our_reader import read_rows, scan
from tests.services.bench import NOTHING, Bench

GOLDEN = "v8"
EXPECTED = json.loads((GOLDEN_TABLES / GOLDEN / "expected.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden(GOLDEN, tmp_path / "table"))


def test_a_compaction(bench: Bench) -> None:
    """The rows stay, and the metadata table agrees with the files."""
    before = read_rows(bench.base)
    assert {row["id"]: row["v"] for row in before} == EXPECTED["values"]
    (plan,) = bench.compactor().compact().plans
    assert (plan.recovered, len(plan.operations)) == (False, 2)
    assert read_rows(bench.base) == before
    report = verify_table(
        bench.storage,
        str(bench.base),
        size=SampleSize(20, 100),
        merge_sample=2,
        clock=SystemClock(),
        timezone="UTC",
    )
    assert report.problems == ()


def test_records_are_those_of_hudi(tmp_path: Path) -> None:
    """What 1.0.2's own compaction wrote by the plan that waits here, and by the schema of what was there: statistics
    without types."""
    bench = Bench(copy_golden(GOLDEN, tmp_path / "table", pending=True))
    (plan,) = bench.compactor(NOTHING).compact().plans
    assert (plan.instant, plan.recovered) == (EXPECTED["instant"], True)
    assert EXPECTED["records"].keys() == MADE_BY_COMPACTIONS
    for partition, records in EXPECTED["records"].items():
        assert comparable_records(bench.base, plan.instant, partition) == records, partition
    assert len({schema_of(log) for log in (bench.base / METADATA / "files").glob(".files-*_2*.log.*")}) == 1


def schema_of(log: Path) -> str | None:
    with log.open("rb") as file:
        (block,) = metadata_blocks(file, log.stat().st_size, log.name)
        assert isinstance(block, MetadataBlock)
        return block.schema_json


def test_columns_without_nulls_stay_so(bench: Bench) -> None:
    """Hudi 1.0.2 reads some files by the table's schema, and refuses one that says less of a column than the table. Of
    a column that the table's schema lets be null nothing is promised."""
    before = {path.name: required_of(path) for path in bench.base.glob("p*/*.parquet")}
    snapshot = scan(bench.base)
    assert snapshot.schema is not None
    promised = required_columns(snapshot.schema)
    assert promised and any(promised & required for required in before.values())
    bench.compactor().compact()
    new = {path.name: required_of(path) for path in bench.base.glob("p*/*.parquet") if path.name not in before}
    assert new
    for name, required in new.items():
        (old,) = [before[each] for each in before if each.partition("_")[0] == name.partition("_")[0]]
        assert required == old & promised


def required_of(path: Path) -> frozenset[str]:
    with path.open("rb") as source:
        return read_required(source, name=path.name)


def test_without_a_metadata_table(bench: Bench) -> None:
    """Nothing is written into one that is switched off."""
    set_property(bench.base, "hoodie.table.metadata.partitions", "")
    before = {path for path in everything(bench.base) if path.startswith(METADATA)}
    rows = read_rows(bench.base)
    bench.compactor().compact()
    assert read_rows(bench.base) == rows
    assert {path for path in everything(bench.base) if path.startswith(METADATA)} == before


@pytest.mark.parametrize("kind", [CompactionType.LOG, CompactionType.HYBRID])
def test_no_log_is_planned(bench: Bench, kind: CompactionType) -> None:
    """A LOG that would be due is shown, with the reason."""
    settings = {
        "planner.small_base_size": "0B",
        "planner.log_ratio": "1000",
        "hoodie.compaction.logfile.num.threshold": "2",
        "hoodie.compaction.logfile.size.threshold": "1",
        "planner.publish": "hybrid",
    }
    before = everything(bench.base)
    report = bench.compactor(planner_of(kind, GroupFilter(), settings)).compact()
    decisions = [decision for decision in report.outcome.decisions if decision.reason is not Reason.NO_LOGS]
    shown = {(decision.choice, decision.reason, decision.instead_of) for decision in decisions}
    assert shown == {(Choice.NONE, Reason.LOG_NOT_ALLOWED, Choice.LOG)}
    assert report.plans == () and everything(bench.base) == before


def test_it_may_not_be_upgraded_while_we_merge(bench: Bench) -> None:
    """Statistics are formatted otherwise from version 9 on; the plan stays."""

    def run(spec: OperationSpec, task_attempt: int) -> OperationResult:
        result = run_operation(bench.storage, spec, task_attempt)
        set_property(bench.base, "hoodie.table.version", "9")
        return result

    bench.run = run  # type: ignore[assignment]
    with pytest.raises(Conflict, match="indexed columns"):
        bench.compactor().compact()
    (pending,) = (bench.base / DATA_TIMELINE).glob("*.compaction.*")
    assert pending.name.endswith(".requested")
