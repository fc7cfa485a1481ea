"""Partition TTL on tables: what is young, what goes, the notice before it, and what keeps a partition."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Conflict, TryLater
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.job_report import JobResult
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.services.service import ServiceDemand
from lakeward.services.ttl.job import SERVICE
from lakeward.services.ttl.plan.options import AgeBy, TtlOptions
from lakeward.services.ttl.plan.ttl_plan import TtlReport
from lakeward.services.ttl.run import expirer
from lakeward.services.ttl.run.expirer import expire_partitions
from lakeward.services.ttl.run.partition_ages import partition_ages
from lakeward.services.ttl.settings import TtlSettings
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from tests.clocks import SkippingClock
from tests.crash.metadata_compacting import check_agrees
from tests.daemon.work.test_worker import Bench
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART, FEW, SHARED, pending_write
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import new_table, write

HOUR = 3600.0
KEEP = TtlOptions(keep=24 * HOUR)


def made(base: Path, table_type: str = MERGE_ON_READ, **of: Any) -> SkippingClock:
    """Partition p was written two days before q."""
    new_table(base, table_type=table_type, **of)
    clock = SkippingClock()
    for number in range(2):
        write(base, [(f"p{number}", 1, "p", "a")], "insert", clock=clock, **APART)
    clock.sleep(48 * HOUR)
    write(base, [("q1", 1, "q", "a")], "insert", clock=clock, **APART)
    clock.sleep(23 * HOUR)
    return clock


def expire(base: Path, clock: Any, options: TtlOptions = KEEP, **said: Any) -> TtlReport:
    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses(), **said), clock=clock)
    return expire_partitions(table, options, select=lambda paths: None)


def ages(base: Path, by: AgeBy = AgeBy.WRITTEN, *, now: float) -> dict[str, float | None]:
    return partition_ages(LocalStorage(), scan(base), replace(KEEP, by=by), now=now, known={})


@pytest.mark.parametrize("table_type", [MERGE_ON_READ, COPY_ON_WRITE])
def test_what_is_old_goes(tmp_path: Path, table_type: str) -> None:
    """The commit is one, the metadata table agrees, and the same keys can come again."""
    base = tmp_path / "t"
    clock = made(base, table_type)
    report = expire(base, clock)
    assert report.plan.partitions == ("p",) and report.instant is not None
    assert [row["id"] for row in read_rows(base)] == ["q1"]
    check_agrees(base)
    assert expire(base, clock).instant is None
    write(base, [("p1", 5, "p", "again")], "insert", clock=clock, **APART)
    assert [row["id"] for row in read_rows(base)] == ["p1", "q1"]
    check_agrees(base)


def test_compactions_and_clusterings_make_no_partition_younger(tmp_path: Path) -> None:
    """Keeps 1 of services/ttl/run/partition_ages: the rows keep their commit times, whatever wrote their file last; a
    write does make it younger."""
    base = tmp_path / "t"
    clock = made(base)
    written = ages(base, now=clock.now())
    pack(base, packing=FEW, clock=clock)
    assert len([each for each in scan(base).latest_slices if each.partition_path == "p"]) == 1
    assert ages(base, now=clock.now()) == written
    assert expire(base, clock, replace(KEEP, keep=80 * HOUR)).instant is None
    write(base, [("p0", 2, "p", "b")], clock=clock)
    assert expire(base, clock).plan.partitions == ()


def test_what_is_not_certain_makes_no_partition_older(tmp_path: Path) -> None:
    """Keeps 2 of services/ttl/run/partition_ages: a footer without the column, or that cannot be read, counts by the
    file's instant; a path without a date makes the age unknown."""
    base = tmp_path / "t"
    clock = made(base)
    pack(base, packing=FEW, clock=clock)
    packed = next(each for each in scan(base).latest_slices if each.partition_path == "p")
    assert packed.base_file is not None
    path, now = base / packed.base_file.path, clock.now()
    content = path.read_bytes()
    path.write_bytes(content[:-12] + b"broken" + content[-6:])
    found = ages(base, now=now)["p"]
    assert found is not None and found > now - HOUR
    path.write_bytes(content)
    created = ages(base, AgeBy.CREATED, now=now)
    assert created["p"] is not None and created["p"] < now - 70 * HOUR
    assert ages(base, AgeBy.DATE, now=now) == {"p": None, "q": None}


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Any, *, after_assignment: bool) -> None:
    module, name = (expirer, "assign_rows") if after_assignment else (expirer, "begin_in_pause")
    original = getattr(module, name)

    def both(*of: Any, **more: Any) -> Any:
        found = original(*of, **more)
        act()
        return found

    monkeypatch.setattr(module, name, both)


@pytest.mark.parametrize("after_assignment", [False, True])
@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_a_partition_that_is_written_to_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, *, after_assignment: bool
) -> None:
    """Keeps 1 of services/ttl/run/expirer: also by a new file group, which the metadata table would forget."""
    base = tmp_path / "t"
    clock = made(base)
    rows = [("p9" if operation == "insert" else "p0", 9, "p", "meanwhile")]
    with monkeypatch.context() as patch:
        meanwhile(patch, lambda: write(base, rows, operation, clock=clock, **APART), after_assignment=after_assignment)
        with pytest.raises(Conflict):
            expire(base, clock, **SHARED)
    assert "meanwhile" in [row["v"] for row in read_rows(base)] and scan(base).timeline.pending == ()
    check_agrees(base)


def test_a_write_at_work_holds_it_back(tmp_path: Path) -> None:
    """Keeps 2 of services/ttl/run/expirer."""
    base = tmp_path / "t"
    clock = made(base)
    instant = pending_write(base, clock)
    with pytest.raises(TryLater, match=instant):
        expire(base, clock, **SHARED, yielding=YieldOptions(seconds=0.0))
    assert len(read_rows(base)) == 3


class TestDaemon:
    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        bench = Bench(tmp_path, settings={"defaults.ttl.keep": '"24h"'})
        shutil.rmtree(bench.path)
        clock = made(bench.path)
        bench.serving.clock.sleep(max(0.0, clock.now() - bench.serving.clock.now()))
        return bench

    def demand(self, bench: Bench) -> ServiceDemand:
        return bench.plan().demand.services[JobKind.TTL]

    def test_notice_is_given_first(self, bench: Bench) -> None:
        """Keeps 2 of services/ttl/job and Keeps 1 and 2 of services/ttl/run/notice: a day passes between the notice and
        the first deletion, also after a restart,
        and where `keep` becomes shorter it is given again."""
        assert self.demand(bench).is_due
        assert bench.run(JobKind.TTL).result is JobResult.COMMITTED
        assert len(read_rows(bench.path)) == 3
        held = self.demand(bench)
        assert not held.is_due and held.due_at is not None and "first run" in held.why
        assert bench.run(JobKind.TTL).result is JobResult.NOTHING
        bench.worker.forget("orders")
        bench.serving.clock.sleep(held.due_at - bench.serving.clock.now() + 1)
        assert self.demand(bench).is_due
        folder = bench.path / ".hoodie" / ".lakeward" / "ttl"
        (folder / "written-60").write_bytes(b"{")
        shorter = bench.table.settings.model_copy(update={"ttl": TtlSettings(keep=HOUR)})
        table, bench.table = bench.table, replace(bench.table, settings=shorter)
        assert bench.run(JobKind.TTL).result is JobResult.COMMITTED and len(read_rows(bench.path)) == 3
        bench.table = table
        report = bench.run(JobKind.TTL)
        assert (report.result, report.figures.partitions_deleted) == (JobResult.COMMITTED, 2)
        assert read_rows(bench.path) == [] and not self.demand(bench).is_due

    def test_what_is_not_selected_or_parked_stays(self, bench: Bench) -> None:
        """Keeps 3 of services/ttl/job."""
        group = next(each.group_id for each in scan(bench.path).latest_slices if each.partition_path == "p")
        settings = bench.table.settings.model_copy(update={"ttl": TtlSettings(keep=24 * HOUR, notice=0.0)})
        bench.table = replace(bench.table, settings=settings)
        bench.plan()
        assert bench.run(JobKind.TTL, excluded={group: None}).result is JobResult.NOTHING
        left_out = settings.model_copy(update={"exclude_partitions": ("p",)})
        bench.table = replace(bench.table, settings=left_out)
        assert bench.run(JobKind.TTL).result is JobResult.NOTHING and len(read_rows(bench.path)) == 3
        bench.table = replace(bench.table, settings=settings)
        assert bench.run(JobKind.TTL).figures.partitions_deleted == 1

    def test_writers_are_no_failure(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keeps 4 of services/ttl/job."""
        settings = bench.table.settings.model_copy(update={"ttl": TtlSettings(keep=24 * HOUR, notice=0.0)})
        bench.table = replace(bench.table, settings=settings)
        bench.plan()
        clock = bench.serving.clock
        meanwhile(monkeypatch, lambda: write(bench.path, [("p0", 9, "p", "b")], clock=clock), after_assignment=False)
        report = bench.run(JobKind.TTL)
        assert report.result is JobResult.NOTHING and report.problems[0].file_group is None

    def test_off_by_default(self, tmp_path: Path) -> None:
        """Keeps 1 of services/ttl/job."""
        (tmp_path / "off").mkdir()
        bench = Bench(tmp_path / "off")
        assert self.demand(bench) == ServiceDemand(False)
        assert not SERVICE.is_asked_for(bench.table.settings)
