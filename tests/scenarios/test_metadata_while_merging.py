"""A service on a table with a metadata table: what is refused before it begins, and what may change while it works."""

from __future__ import annotations

import json
import shutil
from datetime import UTC
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, Conflict, Unsupported
from lakeward.engine.task.operation import run_operation
from lakeward.engine.task.operation_spec import OperationResult, OperationSpec
from lakeward.format.timeline.instant import State, format_instant_time
from tests.crash.compacting import everything
from tests.golden_tables import copy_golden, expected_rows
from tests.metadata_golden import (
    DATA_TIMELINE,
    GOLDEN,
    METADATA_TIMELINE,
    PARTITION_PROPERTY,
    set_property,
    timeline,
)
from tests.our_reader import read_rows
from tests.services.bench import Bench

DEFINITIONS = ".hoodie/.index_defs/index.json"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(copy_golden(GOLDEN, tmp_path / "table"))


def change_while_merging(bench: Bench, change: object) -> None:
    def run(spec: OperationSpec, task_attempt: int) -> OperationResult:
        result = run_operation(bench.storage, spec, task_attempt)
        change()  # type: ignore[operator]
        return result

    bench.run = run  # type: ignore[assignment]


def compacted(bench: Bench) -> str:
    """The one compaction of Lakeward; the table is whole."""
    (plan,) = bench.compactor().compact().plans
    assert read_rows(bench.base) == expected_rows(GOLDEN)
    return plan.instant


def newer_definitions(base: Path) -> None:
    file = base / DEFINITIONS
    definitions = json.loads(file.read_text())
    definitions["indexDefinitions"]["column_stats"]["version"] = "V3"
    file.write_text(json.dumps(definitions))


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (Unsupported, newer_definitions),
        (BrokenFile, lambda base: (base / DEFINITIONS).write_text("{")),
        (BrokenFile, lambda base: shutil.rmtree(base / ".hoodie/metadata")),
        (BrokenFile, lambda base: shutil.rmtree(base / ".hoodie/metadata/column_stats")),
    ],
)
def test_what_we_cannot_write_to_is_refused_before_anything_is_written(
    bench: Bench, error: type[Exception], change: object
) -> None:
    """No plan is left behind. Keeps of protocol/metadata/snapshot."""
    change(bench.base)  # type: ignore[operator]
    before = everything(bench.base)
    with pytest.raises(error):
        bench.compactor().compact()
    assert everything(bench.base) == before


def test_times_are_greater_than_all_on_both_timelines(bench: Bench) -> None:
    """The plan's and both completion times, also where the metadata table was serviced last, by a faster clock. Keeps 3
    of services/compaction/run/publication."""
    (serviced,) = (bench.base / METADATA_TIMELINE).glob("20261121142629352_*.commit")
    ahead = format_instant_time(int((bench.clock.now() + 2) * 1000), UTC)
    serviced.rename(serviced.with_name(f"20261121142629352_{ahead}.commit"))
    instant = compacted(bench)
    (metadata,) = [
        i for i in timeline(bench.base, METADATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED
    ]
    (data,) = [i for i in timeline(bench.base, DATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    assert ahead < instant < str(metadata.completion_time) < str(data.completion_time)


def test_it_may_be_disabled_while_we_merge(bench: Bench) -> None:
    """Nothing is written into it then."""
    change_while_merging(bench, lambda: set_property(bench.base, PARTITION_PROPERTY, ""))
    before = {path for path in everything(bench.base) if path.startswith(".hoodie/metadata/")}
    compacted(bench)
    assert {path for path in everything(bench.base) if path.startswith(".hoodie/metadata/")} == before


def test_it_may_be_built_while_we_merge(bench: Bench) -> None:
    """What needs no statistics is written under the lock."""
    partitions = "files,record_index"
    set_property(bench.base, PARTITION_PROPERTY, "")
    change_while_merging(bench, lambda: set_property(bench.base, PARTITION_PROPERTY, partitions))
    instant = compacted(bench)
    logs = [
        path for path in everything(bench.base) if path.startswith(".hoodie/metadata/") and f"_{instant}.log" in path
    ]
    assert [path.rpartition("/.")[2][:12] for path in logs] == ["files-0000-0"]


def test_statistics_may_not_come_while_we_merge(bench: Bench) -> None:
    """The new files have none; the plan stays, and the next run measures what is wanted."""
    partitions = "bloom_filters,column_stats,files,partition_stats,record_index"
    set_property(bench.base, PARTITION_PROPERTY, "files")
    before = everything(bench.base)
    change_while_merging(bench, lambda: set_property(bench.base, PARTITION_PROPERTY, partitions))
    with pytest.raises(Conflict, match="indexed columns"):
        bench.compactor().compact()
    left = sorted(set(everything(bench.base)) - set(before))
    assert [path.partition(".hoodie/timeline/")[2].partition(".")[2] for path in left] == ["compaction.requested"]
    compacted(bench)
