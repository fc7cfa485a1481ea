"""Six ways in which clusterings of Hudi lost or doubled rows, each tried here: the rows are those of before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Conflict, LakewardError
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.services.archive.plan.archive_plan import KeptFor
from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.clusterer import cluster
from lakeward.services.clustering.run.tasks import run_task
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ
from lakeward.write.request import WriteOperation, WriteRequest
from lakeward.write.write_start import begin_write
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.archive.run.archiving import SOON, archive
from tests.services.bench import Bench
from tests.services.clean.run.cleaning import data_files
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART, FEW, SHARED, check_untouched, made, meanwhile
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.writing import values, write

BY_VALUE = PackOptions(groups_min=2, layout=Layout(ClusterMode.SORT, ("v",)))


@pytest.mark.parametrize("packing", [FEW, BY_VALUE], ids=["pack", "sort"])
def test_old_slices_are_not_taken(tmp_path: Path, packing: PackOptions) -> None:
    """Issues 4899 and 4311 of Hudi: a plan took older slices of a file group, and rows came twice."""
    base = made(tmp_path / "t")
    bench = Bench(base)
    bench.compactor().compact()
    write(base, [("p21", 5, "p", "after the compaction")], clock=bench.clock, **APART)
    before = read_rows(base)
    assert any(len(group.slices) > 1 for group in scan(base).file_groups)
    pack(base, packing=packing)
    assert read_rows(base) == before and values(before)["p21"] == "after the compaction"


def test_a_reader_beside_a_clustering_finds_all_rows(tmp_path: Path) -> None:
    """Issue 4163: a pending plan made queries incomplete. Stopped when its files stand in their places, before the
    commit, nothing of it is read, and all of before is."""
    base, storage = made(tmp_path / "t"), FaultyStorage()
    before = read_rows(base)
    pack(made(tmp_path / "trial"), storage, packing=FEW)
    last = [at for at, call in enumerate(storage.calls) if call.startswith("move ")][-1]
    with pytest.raises(Killed):
        pack(base, FaultyStorage(Fault(FaultKind.KILL, last + 1)), packing=FEW)
    assert [each.action for each in scan(base).timeline.pending] == ["replacecommit"]
    assert read_rows(base) == before


@pytest.mark.parametrize("packing", [FEW, BY_VALUE], ids=["pack", "sort"])
def test_twins_of_a_task_that_ran_twice(tmp_path: Path, packing: PackOptions) -> None:
    """Issue 6212: a task that ran again left a second file, and rows came twice. The commit names one, and one is
    there."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before = read_rows(base)

    def twice(context: Any, spec: Any, task_attempt: int) -> Any:
        run_task(storage, context, spec, task_attempt + 100)
        return run_task(storage, context, spec, task_attempt)

    table = serviced_table(str(base), storage, ScriptedProcesses())
    report = cluster(table, packing, lambda _: InProcessDispatcher(), twice)
    assert read_rows(base) == before
    assert report.instant is not None
    assert len([path for path in data_files(base) if report.instant in path]) == report.output_groups == 2


@pytest.mark.parametrize("packing", [FEW, BY_VALUE], ids=["pack", "sort"])
def test_a_log_that_is_gone(tmp_path: Path, packing: PackOptions) -> None:
    """Issue 13826: a plan named logs that a clean had deleted. Nothing is published, and nothing left of it."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED)
    log = next(log.path for slice_ in scan(base).latest_slices for log in slice_.log_files)
    content = (base / log).read_bytes()
    before = read_rows(base)
    with pytest.raises(LakewardError):
        cluster(table, packing, meanwhile((base / log).unlink), lambda *of: run_task(storage, *of))
    (base / log).write_bytes(content)
    check_untouched(base, before)


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_an_insert_overwrite_beside_it(tmp_path: Path, table_type: str) -> None:
    """Issue 18830: it replaces file groups under a pending plan, whose rows came back. What it wrote stays alone."""
    base, storage = made(tmp_path / "t", table_type), LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED)
    act = meanwhile(lambda: write(base, [("only", 1, "p", "x")], "insert_overwrite", clock=table.clock))
    with pytest.raises(Conflict):
        cluster(table, FEW, act, lambda *of: run_task(storage, *of))
    after = values(read_rows(base))
    assert {key for key in after if not key.startswith("q")} == {"only"}
    check_untouched(base, read_rows(base))


def test_a_pending_clustering_holds_the_archiver(tmp_path: Path) -> None:
    """Issue 7891: commits were archived past a replacement at work, whose files then counted as committed. The commit
    before it stays on the timeline, with all after it, and its files are not read."""
    base = made(tmp_path / "t", COPY_ON_WRITE)
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    at_work = begin_write(table, WriteRequest(WriteOperation.INSERT_OVERWRITE, service="CLUSTER")).instant
    last = scan(base).timeline.completed_writes[-1]
    for number in range(3):
        write(base, [(f"r{number}", 1, "r", "x")], "insert", clock=table.clock, **APART)
    before = read_rows(base)
    limits = {limit.reason: limit.instant for limit in archive(base, options=SOON).plan.limits}
    assert limits[KeptFor.PENDING] == last.time
    times = [each.time for each in scan(base).timeline.completed_writes]
    assert times[0] <= last.time < at_work and read_rows(base) == before
