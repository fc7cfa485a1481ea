"""The daemon's clustering: when it is due, what it waits for, and what the page says of both."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.quantities import DAY_SECONDS
from lakeward.config.choices import ForeignServices
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.timeline.compaction_plan import CompactionPlan, write_compaction_plan
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.services.clustering.job import SERVICE, ClusteringMemory
from lakeward.services.clustering.plan.pauses import BYTES_FIRST
from lakeward.services.clustering.run import clusterer
from lakeward.services.clustering.run.layout_records import load_layout_records
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.clustering.run.undo import undo_clustering
from lakeward.services.clustering.settings import ClusteringSettings
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import Reason
from lakeward.services.compaction.plan.planner import planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.service import ServiceDemand
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FileSlice
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from lakeward.table.snapshot import TableSnapshot
from lakeward.write import write_start
from tests.daemon.work.test_worker import Bench
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clustering.run.test_clusterer import APART, leave_no_heartbeat, made, pending_write, profile
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import write

FEW = {"defaults.clustering.min_groups": "2"}


def bench_of(folder: Path, table_type: str = MERGE_ON_READ, settings: Mapping[str, str] | None = None) -> Bench:
    """Three small file groups in each of two partitions, which is enough."""
    bench = Bench(folder, settings=FEW | dict(settings or {}))
    shutil.rmtree(bench.path)
    made(bench.path, table_type)
    return bench


def demand(bench: Bench) -> ServiceDemand:
    return bench.plan().demand.services[JobKind.CLUSTERING]


def memory_of(bench: Bench) -> ClusteringMemory:
    memory = bench.worker.caches.of("orders").memory(JobKind.CLUSTERING)
    assert isinstance(memory, ClusteringMemory)
    return memory


def shown(bench: Bench) -> dict[str, str]:
    return {fact.label: fact.value for fact in SERVICE.shown(memory_of(bench))}


@pytest.mark.parametrize("table_type", [MERGE_ON_READ, COPY_ON_WRITE])
def test_small_file_groups_are_packed_by_default(tmp_path: Path, table_type: str) -> None:
    """Also of a table that leaves compaction no work. Afterwards nothing is due; before and after are shown."""
    bench = bench_of(tmp_path, table_type)
    before = read_rows(bench.path)
    due = demand(bench)
    assert (due.is_due, due.file_groups, due.why) == (True, 6, "6 small file groups can become 2")
    assert 0 < due.read_bytes == due.write_bytes
    assert shown(bench)["Small file groups"].startswith("6 file groups of ")
    report = bench.run(JobKind.CLUSTERING)
    assert (report.result, report.figures.groups_clustered) == (JobResult.COMMITTED, 6)
    assert report.figures.read_bytes > 0 < report.figures.written_bytes
    assert read_rows(bench.path) == before and len(scan(bench.path).latest_slices) == 2
    assert not demand(bench).is_due
    assert "6 file groups of " in shown(bench)["Last clustering"] and " became 2 of " in shown(bench)["Last clustering"]
    assert bench.run(JobKind.CLUSTERING).result is JobResult.NOTHING


def test_no_slice_is_remembered(tmp_path: Path) -> None:
    """A daemon that watched fifty tables of a thousand small file groups held 70 MB of slices and logs."""
    bench = bench_of(tmp_path)
    demand(bench)
    seen, waiting = set[int](), list[object]([memory_of(bench)])
    while waiting:
        held = waiting.pop()
        assert not isinstance(held, FileSlice | TableSnapshot)
        if id(held) not in seen and not isinstance(held, type):
            seen.add(id(held))
            waiting += gc.get_referents(held)
    look = memory_of(bench).look
    assert look is not None and look.packed


def test_what_is_not_selected_or_parked_is_left_out(tmp_path: Path) -> None:
    """Keeps 1 of services/clustering/job."""
    bench = bench_of(tmp_path, settings={"defaults.partitions": '["p"]'})
    parked = next(each.group_id for each in scan(bench.path).latest_slices if each.partition_path == "p")
    plan = bench.plan({parked: Reason.PARKED}).demand.services[JobKind.CLUSTERING]
    assert plan.file_groups == 2
    bench.run(JobKind.CLUSTERING, excluded={parked: Reason.PARKED})
    left = {each.group_id for each in scan(bench.path).latest_slices}
    assert parked in left and len(left) == 5


def test_it_waits_for_a_pause_of_the_writers(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/job: no job is begun for partitions in which a write is pending, alive or dead,
    the others are packed; and the page says what is waited for."""
    bench = bench_of(tmp_path)
    instant = pending_write(bench.path, bench.serving.clock)
    held = demand(bench)
    assert not held.is_due and held.file_groups == 6
    assert held.why.startswith(f"6 small file groups wait: deltacommit {instant} is at work")
    assert instant in shown(bench)["Clustering waits"]
    profile(bench.path, instant, "p")
    assert demand(bench).is_due
    bench.run(JobKind.CLUSTERING)
    assert [each.partition_path for each in scan(bench.path).latest_slices] == ["p", "p", "p", "q"]
    assert not demand(bench).is_due


def test_what_a_compaction_held_is_looked_at_again(tmp_path: Path) -> None:
    """A compaction that was requested before the newest write holds file groups; when it ends, they are packed, though
    no newer write came."""
    bench = bench_of(tmp_path)
    snapshot = scan(bench.path)
    instant = str(int(snapshot.timeline.completed_writes[-1].time) - 1)
    plan = planner_of(CompactionType.FULL, GroupFilter(), {})(snapshot, instant, {})
    requested = bench.path / ".hoodie" / "timeline" / f"{instant}.compaction.requested"
    operations = tuple(replace(each, operation_type=None) for each in plan.operations)
    requested.write_bytes(write_compaction_plan(CompactionPlan(operations)))
    assert demand(bench).file_groups == 2
    requested.unlink()
    bench.serving.clock.sleep(DAY_SECONDS)
    assert demand(bench).file_groups == 6


def test_a_writer_without_heartbeats(tmp_path: Path) -> None:
    """Keeps 5 of services/clustering/job: seen once, it is remembered for a day, and the page says what to set."""
    bench = bench_of(tmp_path, settings={"locks.writers": '"share"'})
    newest = leave_no_heartbeat(bench.path)
    held = demand(bench)
    assert not held.is_due and f"{newest} left no heartbeat: set hoodie.clean.failed" in held.why
    os.utime(bench.path / ".hoodie" / ".heartbeat", None)
    assert not demand(bench).is_due and newest in shown(bench)["Clustering waits"]
    bench.serving.clock.sleep(DAY_SECONDS)
    assert demand(bench).is_due


def while_it_runs(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    begin = write_start.begin_in_pause

    def begin_and_act(*of: Any) -> Any:
        begun = begin(*of)
        act()
        return begun

    monkeypatch.setattr(clusterer, "begin_in_pause", begin_and_act)


def test_a_writer_that_is_met_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 4 of services/clustering/job: the job ends with nothing done and counts it, its partition rests for a
    while, and the next run packs the other one with half as much at once; then the while is over."""
    bench = bench_of(tmp_path, settings={"locks.writers": '"share"'})
    clock = bench.serving.clock
    bench.plan()
    with monkeypatch.context() as patch:
        while_it_runs(patch, lambda: write(bench.path, [("p21", 9, "p", "met")], clock=clock, **APART))
        report = bench.run(JobKind.CLUSTERING)
    assert (report.result, report.figures.clusterings_given_up) == (JobResult.NOTHING, 1)
    assert report.problems[0].file_group is None and "another newest slice" in report.problems[0].text
    assert scan(bench.path).timeline.pending == ()
    assert memory_of(bench).pauses.bytes_max == BYTES_FIRST // 2 and memory_of(bench).waiting_since is not None
    assert demand(bench).is_due
    assert bench.run(JobKind.CLUSTERING).figures.groups_clustered == 3
    assert [each.partition_path for each in scan(bench.path).latest_slices] == ["p", "p", "p", "q"]
    held = demand(bench)
    assert not held.is_due and held.due_at is not None and "Next try at" in held.why
    clock.sleep(held.due_at - clock.now())
    assert demand(bench).is_due and bench.run(JobKind.CLUSTERING).figures.groups_clustered == 3
    assert memory_of(bench).waiting_since is None


def test_no_more_than_a_day_may_have(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/job: what earlier runs packed is read from the timeline, so a restart forgets
    nothing, and a day later there is more."""
    bench = bench_of(tmp_path)
    bench.plan()
    bench.run(JobKind.CLUSTERING)
    demand(bench)
    look = memory_of(bench).look
    assert look is not None
    (run,) = look.runs
    for turn in range(4):
        write(
            bench.path,
            [(f"p9{turn}{number}", 1, "p", "a") for number in "12"],
            "insert",
            clock=bench.serving.clock,
            **APART,
        )
    section = ClusteringSettings(min_groups=2, bytes_per_day=run.bytes_before)
    bench.table = replace(bench.table, settings=bench.table.settings.model_copy(update={"clustering": section}))
    held = demand(bench)
    assert not held.is_due and "in 24 hours" in held.why and held.due_at == run.completed_at + 86400.0
    bench.serving.clock.sleep(held.due_at - bench.serving.clock.now() + 1)
    assert demand(bench).is_due


def test_a_table_that_hudi_clusters_is_left_to_it(tmp_path: Path) -> None:
    """Keeps 3 of services/clustering/job: of a completed clustering of Hudi's the timeline has the request."""
    bench = bench_of(tmp_path, COPY_ON_WRITE)
    bench.plan()
    instants = bench.run(JobKind.CLUSTERING).instants
    write(bench.path, [("p77", 1, "p", "a")], "insert", clock=bench.serving.clock, **APART)
    assert demand(bench).is_due
    for state in ("requested", "inflight"):
        request = bench.path / ".hoodie" / "timeline" / f"{instants[0]}.replacecommit.{state}"
        request.rename(request.with_name(f"{instants[0]}.clustering.{state}"))
    shadow = bench.table.settings.model_copy(update={"foreign_services": ForeignServices.SHADOW})
    bench.table = replace(bench.table, settings=shadow)
    held = demand(bench)
    assert not held.is_due and held.why.startswith(f"Not clustered: clustering {instants[0]} on the timeline")
    shared = bench.table.settings.model_copy(update={"foreign_services": ForeignServices.SHARE})
    bench.table = replace(bench.table, settings=shared)
    assert demand(bench).is_due


def test_a_table_that_cannot_have_it_is_no_trouble(tmp_path: Path) -> None:
    """It is on by default, so no alert comes of it; the page says why, and where services are named it is refused."""
    bench = Bench(tmp_path)
    shutil.rmtree(bench.path)
    made(bench.path)
    properties = bench.path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.index.type=BUCKET\n")
    plan = bench.plan().demand
    assert JobKind.CLUSTERING not in plan.refused
    held = plan.services[JobKind.CLUSTERING]
    assert not held.is_due and "a file group is a bucket" in held.why
    named = bench.table.settings.model_copy(update={"services": tuple(bench.table.settings.services)})
    bench.table = replace(bench.table, settings=named)
    assert "a file group is a bucket" in bench.plan().demand.refused[JobKind.CLUSTERING]


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    reads: list[str] = []
    read = LocalStorage.read

    def counted(self: LocalStorage, path: str) -> bytes:
        reads.append(path)
        return read(self, path)

    monkeypatch.setattr(LocalStorage, "read", counted)
    return reads


def test_columns_that_the_configuration_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are brought together by them; what is laid out stays, what came since is laid out next; and only where
    columns are named."""
    settings = {"defaults.clustering.by": '["v"]'}
    bench = bench_of(tmp_path, COPY_ON_WRITE, settings)
    before = read_rows(bench.path)
    assert demand(bench).is_due
    assert bench.run(JobKind.CLUSTERING).result is JobResult.COMMITTED
    assert read_rows(bench.path) == before
    records = load_layout_records(LocalStorage(), str(bench.path), scan(bench.path))
    assert {str(each.layout) for each in records.values()} == {"sort by v"} and len(records) == 2
    assert not demand(bench).is_due
    for number in range(2):
        write(bench.path, [(f"p8{number}", 1, "p", "new")], "insert", clock=bench.serving.clock, **APART)
    memory_of(bench).look = None  # a while after it was planned
    reads = count_reads(monkeypatch)
    assert demand(bench).is_due
    assert not [path for path in reads if path.endswith(".replacecommit")], "they are known"
    before = read_rows(bench.path)
    assert bench.run(JobKind.CLUSTERING).result is JobResult.COMMITTED
    assert read_rows(bench.path) == before


@pytest.mark.parametrize("by", ["[]", '["v"]'])
def test_what_an_undo_brought_back_is_left_alone(tmp_path: Path, by: str) -> None:
    """Keeps 1 of services/clustering/job: the daemon does not cluster it again, but what comes since; the page says
    that it was undone."""
    bench = bench_of(tmp_path, COPY_ON_WRITE, {"defaults.clustering.by": by})
    bench.plan()
    (instant,) = bench.run(JobKind.CLUSTERING).instants
    table = serviced_table(str(bench.path), LocalStorage(), ScriptedProcesses())
    work = partial(run_task, table.storage)
    undo_clustering(replace(table, clock=bench.serving.clock), lambda _: InProcessDispatcher(), work)
    memory_of(bench).look = None
    assert not demand(bench).is_due
    assert shown(bench)["Last clustering"].startswith(f"{instant} was undone: 2 file groups of ")
    assert bench.run(JobKind.CLUSTERING).result is JobResult.NOTHING
    for number in range(2):
        write(bench.path, [(f"p8{number}", 1, "p", "new")], "insert", clock=bench.serving.clock, **APART)
    memory_of(bench).look = None
    assert demand(bench).file_groups == 2


def test_what_pays_nothing_is_not_laid_out(tmp_path: Path) -> None:
    """Keeps 6 of services/clustering/job: new file groups whose values no other one has stay as they are, and the page
    has the figures; ones with values of all others are laid out."""
    settings = {"by": '["v"]', "target_size": '"1KiB"'}
    only = {"defaults.partitions": '["p"]'}
    bench = bench_of(tmp_path, COPY_ON_WRITE, only | {f"defaults.clustering.{key}": settings[key] for key in settings})
    due = demand(bench)
    assert due.is_due and due.why.startswith("3 file groups can be laid out by v: in ")
    assert "a filter on v reads " in due.why
    bench.run(JobKind.CLUSTERING)
    assert not demand(bench).is_due
    assert "a filter on v reads 1.5 of 3 file groups, 1.0 at best" in shown(bench)["Layout"]
    assert ". Before it: in " in shown(bench)["Last clustering"]
    clock = bench.serving.clock
    for value in ("y", "z"):
        write(bench.path, [(f"p8{value}", 1, "p", value)], "insert", clock=clock, **APART)
    memory_of(bench).look = None
    assert not demand(bench).is_due
    assert "a filter on v reads 1.2 of 5 file groups, 1.0 at best" in shown(bench)["Layout"]
    assert bench.run(JobKind.CLUSTERING).result is JobResult.NOTHING
    for turn in range(2):
        write(bench.path, [(f"p9{turn}{v}", 1, "p", v) for v in ("a", "z")], "insert", clock=clock, **APART)
    memory_of(bench).look = None
    assert demand(bench).is_due
    before = read_rows(bench.path)
    assert bench.run(JobKind.CLUSTERING).result is JobResult.COMMITTED
    assert read_rows(bench.path) == before
    write(bench.path, (), "delete_partition", partitions=["p"], clock=clock)
    memory_of(bench).look = None
    assert not demand(bench).is_due and "Layout" not in shown(bench), "the partition that was laid out last is gone"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"by": ("a", "b", "c", "d", "e")}, "names 5 columns"),
        ({"by": ("a", "a")}, "names 2 columns"),
        ({"by": ("a",)}, None),
        ({}, None),
    ],
)
def test_how_many_columns_can_be_named(given: dict[str, Any], said: str | None) -> None:
    found = [problem.what for problem in ClusteringSettings(**given).problems({})]
    assert (said is None and not found) or (said is not None and said in found[0] and len(found) == 1)
