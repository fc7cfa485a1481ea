"""Every service that changes a table, stopped at every call to the storage. A row is a service on one table: what must
hold is beside it, the loop is in tests/crash/harness.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.errors import Cancelled, UsageError
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.clustering.job import SERVICE as CLUSTERING
from lakeward.services.clustering.job import ClusteringMemory, ClusteringRules
from lakeward.services.clustering.plan.layout import ClusterMode, Layout
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run.clusterer import cluster
from lakeward.services.clustering.run.tasks import run_task as run_clustering_task
from lakeward.services.savepoint.run import delete_savepoint
from lakeward.services.service import Care, order_at_once
from lakeward.services.ttl.run.expirer import expire_partitions
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.listing_source import ListingSource
from lakeward.table.metadata.metadata_table import FOLDER
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewIndex, NewIndexes
from lakeward.table.quarantine import load_quarantine
from lakeward.write.write_start import end_dead_writes
from tests.clocks import SkippingClock
from tests.crash import metadata_compacting
from tests.crash.compacting import check_readable, everything, is_leftover
from tests.crash.harness import Case, Extent, Place, Row, Run, cases_of
from tests.faults import FaultKind
from tests.golden_tables import copy_golden, expected_rows
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.archive.run.archiving import all_instants, archive, archived_rows, completed, history_of
from tests.services.clean.run import test_orphans as orphans
from tests.services.clean.run.cleaning import (
    NATIVE,
    choose_old,
    clean,
    compacted,
    completed_cleans,
    contents,
    data_files,
)
from tests.services.clean.run.retiring import RetiringTable, retire, retiring_table
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import SHARED
from tests.services.clustering.run.test_clusterer import made as made_small_groups
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.savepoint import test_run as saving
from tests.services.ttl.test_job import KEEP
from tests.services.ttl.test_job import made as made_partitions
from tests.write.judged import judged_values
from tests.write.writing import values

pytestmark = pytest.mark.crash

KILL, BEFORE = FaultKind.KILL, FaultKind.BEFORE
KEPT_SECONDS = 3600.0


def cleaning(golden: str, folder: Path) -> Case:
    """Nothing that readers read is ever gone, and the next run ends the clean: the dead slice is gone and nothing else,
    one clean names it. Keeps 2 of services/clean/run/cleaner."""
    table = compacted(golden, folder)

    def check_now(base: Path, whole: Path) -> None:
        # The metadata table may list files for a while that are gone.
        assert read_rows(base) == expected_rows("v9" if golden == NATIVE else golden)
        assert data_files(whole) <= data_files(base)

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert data_files(base) == data_files(whole) < data_files(table)
        assert len(completed_cleans(base)) == 1
        check_nothing_left(base)
        assert choose_old(scan(base)) is None
        if golden == WITH_METADATA:
            metadata_compacting.check_agrees(base)
        else:
            check_readable(base)

    return Case(table=table, run=clean, check_now=check_now, check_end=check_end)


def setting_aside(golden: str, folder: Path) -> Case:
    """A clean that keeps what it takes away: each file is somewhere as it was, and readers see the same rows."""
    table = compacted(golden, folder)
    files = contents(table)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) == expected_rows(golden)
        assert contents(base) == files

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        check_nothing_left(base)
        assert len(completed_cleans(base)) == 1
        # In an object store the files stay in their places, and the metadata table lists less.
        if golden == WITH_METADATA and data_files(base) != files.keys():
            metadata_compacting.check_agrees(base)

    return Case(table=table, run=clean_and_keep, check_now=check_now, check_end=check_end)


def undoing(golden: str, folder: Path) -> Case:
    """The undo of such a clean. Keeps 3 of services/clean/run/undo_run."""
    table = compacted(golden, folder)
    files = contents(table)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) == expected_rows(golden)
        assert contents(base) == files

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        check_nothing_left(base)
        assert data_files(base) == files.keys()
        assert not list((base / ".hoodie" / ".quarantine").glob("*"))
        assert len(completed_cleans(base)) == 2 and choose_old(scan(base)) is not None
        if golden == WITH_METADATA:
            metadata_compacting.check_agrees(base)

    return Case(table=table, before=clean_and_keep, run=undo_oldest, check_now=check_now, check_end=check_end)


def retiring(name: str, folder: Path) -> Case:
    """Logs that were merged retire and are deleted: at every moment all rows are there, by every listing, and the next
    run ends it. Keeps 3 of services/clean/run/retirement_run."""
    table = retiring_table(folder / "table", has_metadata_table=name == WITH_METADATA)
    merged = set(table.logs)
    table.log_compact()
    for number in (5, 6, 7):
        table.upsert(number)
    rows, logs = table.rows, set(table.logs)

    def check_now(base: Path, whole: Path) -> None:
        now = RetiringTable(base, table.has_metadata_table, rows=rows)
        assert values(read_rows(base)) == rows and judged_values(base) == rows
        if table.has_metadata_table:
            listed = metadata_compacting.snapshot_of(base, ListingSource.METADATA)
            (slice_,) = listed.latest_slices
            assert set(now.logs) >= set(slice_.log_names) >= logs - merged

    def check_end(base: Path, whole: Path) -> None:
        RetiringTable(base, table.has_metadata_table, rows=rows).check()
        assert set(RetiringTable(base, False).logs) == logs - merged
        assert len(completed_cleans(base)) == 1
        check_nothing_left(base)
        assert not list((base / ".hoodie" / ".quarantine").glob("*"))

    def later(base: Path | str, storage: Storage, processes: ScriptedProcesses, **options: Any) -> None:
        clock = SkippingClock()
        clock.sleep(KEPT_SECONDS)
        retire(base, storage, processes, clock=clock, **options)

    return Case(table=table.base, run=retire, again=later, check_now=check_now, check_end=check_end)


def clean_and_keep(base: Path | str, storage: Storage, processes: ScriptedProcesses, **options: Any) -> None:
    clean(base, storage, processes, keep_seconds=KEPT_SECONDS, **options)


def undo_oldest(base: Path | str, storage: Storage, processes: ScriptedProcesses, **options: Any) -> None:
    """Undoes the oldest run in the quarantine; where there is none, ends what a dead process left."""
    table = serviced_table(str(base), storage, processes, **options)
    if runs := load_quarantine(storage, str(base)).runs:
        undo_clean(table, runs[0].run)
    else:
        Cleaner(table, {}).end_pending()


def setting_orphans_aside(golden: str, folder: Path) -> Case:
    """The file is in its place or in the quarantine, and the next call ends it."""
    table = compacted(golden, folder)
    path = orphans.add_stray(table)
    orphans.set_aside(table)

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        orphans.set_aside(base, storage, after=orphans.DAY + 60)

    def again(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        for lock in (base / ".hoodie").rglob("lock"):
            lock.unlink()
        orphans.set_aside(base, storage, after=2 * orphans.DAY + 120)

    def check_now(base: Path, whole: Path) -> None:
        places = [base / path, *(base / ".hoodie/.quarantine").rglob(path.rpartition("/")[2])]
        assert [each.read_bytes() for each in places if each.exists()] == [b"stray"]

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert not (base / path).exists()

    return Case(table=table, run=run, again=again, check_now=check_now, check_end=check_end)


def archiving(golden: str, folder: Path) -> Case:
    """Every instant is on its timeline or in the archive of it, also those of the metadata table, and rows are read as
    before. Keeps 3 and 4 of services/archive/run/archiver."""
    table = copy_golden(golden, folder)
    metadata = f".hoodie/{FOLDER}" if golden == WITH_METADATA else None
    instants = all_instants(table)
    of_metadata = set() if metadata is None else all_instants(table / metadata)

    def check_now(base: Path, whole: Path) -> None:
        assert all_instants(base) == instants
        if metadata is not None:
            assert all_instants(base / metadata) == of_metadata
        assert read_rows(base) == expected_rows(golden)
        # A pending file of an instant that is completed does not outlive its completed file.
        names = {path.name for path in (base / ".hoodie" / "timeline").iterdir() if path.is_file()}
        pending = {name.partition(".")[0] for name in names if name.endswith((".requested", ".inflight"))}
        assert pending <= {each.time for each in completed(base)}

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert completed(base) == completed(whole)
        rows = archived_rows(base)
        assert rows == archived_rows(whole) and len(rows) == len(set(rows))
        assert [file.level for file in history_of(whole).sizes] == [1]
        if metadata is not None:
            assert completed(base / metadata) == completed(whole / metadata)
            rows = archived_rows(base / metadata)
            assert rows == archived_rows(whole / metadata) and len(rows) == len(set(rows)) > 2
        swept = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
        with swept.locked():
            swept.sweep(swept.snapshot(only=()))
        check_nothing_left(base)

    return Case(table=table, run=archive, check_now=check_now, check_end=check_end)


def making_a_savepoint(golden: str, folder: Path) -> Case:
    """There is a savepoint of all files or none, and the next call makes it. Keeps 1 of services/savepoint/run."""

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        saving.create(base, storage, processes, shared=False)

    def again(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        with suppress(UsageError):  # where it was made after all
            run(base, storage, processes)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) == expected_rows(golden)
        for found in saving.savepoints(base):
            assert sum(map(len, found.files.values())) == saving.FILES

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert len(saving.savepoints(base)) == 1

    return Case(table=copy_golden(golden, folder), run=run, again=again, check_now=check_now, check_end=check_end)


def deleting_a_savepoint(golden: str, folder: Path) -> Case:
    """The completed file goes first, and the next call removes what is left. Keeps 1 of services/savepoint/run."""
    table = copy_golden(golden, folder)
    saving.create(table, shared=False)

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        delete_savepoint(saving.serviced(base, storage, processes, shared=False), saving.NEWEST)

    def again(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        with suppress(UsageError):  # where it is gone
            run(base, storage, processes)

    def check_now(base: Path, whole: Path) -> None:
        assert not (saving.savepoints(base) and not saving.begun(base))

    def check_end(base: Path, whole: Path) -> None:
        assert (saving.savepoints(base), saving.begun(base)) == ((), [])

    return Case(table=table, run=run, again=again, check_now=check_now, check_end=check_end)


def laying_out(mode: str, folder: Path) -> Case:
    """Rows are brought together by columns, by tasks that leave files for each other. Keeps 1 and 3 of
    services/clustering/run/clusterer: the same rows at every moment, and at the end every index knows their places."""
    packing = PackOptions(groups_min=2, layout=Layout(ClusterMode(mode), ("v", "ts")))

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        pack(base, storage, processes, packing=packing, **options)

    return replace(clustered(made_small_groups(folder, MERGE_ON_READ, indexed=True), run), every=12)


def clustering_by_the_daemon(table_type: str, folder: Path) -> Case:
    """The daemon's job. Keeps 1 and 3 of services/clustering/run/clusterer. What a killed job leaves is rolled back
    before the next one comes."""

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        table = serviced_table(str(base), storage, processes, **options)
        rules = ClusteringRules(PackOptions(groups_min=2), None, False)
        care = Care(rules, ClusteringMemory(), {}, lambda paths: None, {}, True)
        order = order_at_once(
            JobKind.CLUSTERING,
            str(base),
            choose=lambda _: InProcessDispatcher(),
            scanned=lambda: table.snapshot(service=CLUSTERING.permission),
        )
        CLUSTERING.run(table, care, replace(order, task=lambda _: partial(run_clustering_task, storage)))

    def again(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        end_dead_writes(serviced_table(str(base), storage, processes, **options))
        run(base, storage, processes, **options)

    return replace(clustered(made_small_groups(folder, table_type, indexed=True), run), again=again)


def giving_up(table_type: str, folder: Path) -> Case:
    """A clustering that fails beside writers is ended by a commit of nothing. Keeps 3 of protocol/life_cycle."""

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        def fail(*of: object) -> Any:
            raise Cancelled("The work fails.")

        table = serviced_table(str(base), storage, processes, **(SHARED | options))
        with suppress(Cancelled):
            cluster(ahead(table, 60.0), PackOptions(groups_min=2), lambda _: InProcessDispatcher(), fail)

    def again(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        table = serviced_table(str(base), storage, processes, **(SHARED | options))
        work = partial(run_clustering_task, storage)
        cluster(ahead(table, 120.0), PackOptions(groups_min=2), lambda _: InProcessDispatcher(), work)

    def ahead(table: ServicedTable, seconds: float) -> ServicedTable:
        """Later than all that is on the timeline, so that nothing waits for the clock."""
        table.clock.sleep(seconds)
        return table

    case = clustered(made_small_groups(folder, table_type, indexed=True), run, groups=(2, 6))
    return replace(case, again=again)


def clustered(table: Path, run: Run, *, groups: tuple[int, ...] = (2,)) -> Case:
    before = read_rows(table)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) == before

    def check_end(base: Path, whole: Path) -> None:
        sweep(base)
        check_now(base, whole)
        assert len(scan(base).latest_slices) in groups
        assert scan(base).timeline.pending == () and not scan(base).uncommitted_files
        check_nothing_left(base)
        metadata_compacting.check_agrees(base)

    # The names of new files choose among the four files of bloom filters, each of which takes three calls.
    return Case(table=table, run=run, check_now=check_now, check_end=check_end, differs=9)


def expiring(table_type: str, folder: Path) -> Case:
    """Partitions that expired are all there or gone at each moment, with their file groups, and gone in the end; rows
    of others stay. Keeps 1 of services/ttl/run/expirer."""
    table = folder / "table"
    hours = 71.0
    made_partitions(table, table_type, indexes=NewIndexes(finds_keys=NewIndex.METADATA, bloom_filters=True))
    before = read_rows(table)
    left = [row for row in before if row["_hoodie_partition_path"] == "q"]
    assert left and len(left) < len(before)

    def run(base: Path | str, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        serviced = serviced_table(str(base), storage, processes, **options)
        serviced.clock.sleep(hours * 3600.0)
        expire_partitions(serviced, KEEP, select=lambda paths: None)

    def check_now(base: Path, whole: Path) -> None:
        assert read_rows(base) in (before, left)

    def check_end(base: Path, whole: Path) -> None:
        sweep(base)
        assert read_rows(base) == left and scan(base).timeline.pending == ()
        check_nothing_left(base)
        metadata_compacting.check_agrees(base)

    return Case(table=table, run=run, check_now=check_now, check_end=check_end, every=8, differs=9)


def sweep(base: Path) -> None:
    """A run that finds nothing to do begins nothing, and leaves what does no harm to the next service."""
    swept = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    with swept.locked():
        swept.sweep(scan(base))


def check_nothing_left(base: Path) -> None:
    """What is below the quarantine goes with its run."""
    assert [path for path in everything(base) if is_leftover(path) and ".quarantine" not in path] == []


ALL = Extent(check=tuple(FaultKind))
KILLED = Extent(check=(KILL,))
KILLED_OR_FAILED = Extent(check=(KILL, BEFORE))
ONLY_KILLED = Extent(check=(KILL,), test=(KILL,))
NIGHTLY = Extent(test=())
KEPT = Extent(check=(KILL,), test=(KILL, BEFORE, FaultKind.TORN))
SMALL_LEVELS = {
    "lakeward.services.archive.run.archiver.BATCH_INSTANTS": 1,
    "lakeward.services.archive.run.archived_timeline._METADATA_CLEANED": 1,
}
"""Levels are merged, too, and the metadata table's timeline is archived."""

ROWS = (
    Row(make=cleaning, table="v9", disk=KILLED_OR_FAILED, store=KILLED),
    Row(make=cleaning, table=WITH_METADATA, disk=KILLED_OR_FAILED, store=KILLED),
    Row(make=cleaning, table=NATIVE, disk=NIGHTLY, store=NIGHTLY),
    Row(make=retiring, table=WITH_METADATA, disk=KILLED_OR_FAILED, store=KILLED),
    Row(make=retiring, table="listed", disk=NIGHTLY),
    Row(make=setting_aside, table="v9", disk=KEPT, store=ONLY_KILLED),
    Row(make=setting_aside, table=WITH_METADATA, disk=KEPT, store=ONLY_KILLED),
    Row(make=undoing, table="v9", disk=KEPT, store=ONLY_KILLED),
    Row(make=undoing, table=WITH_METADATA, disk=KEPT, store=ONLY_KILLED),
    Row(make=setting_orphans_aside, table="v9", disk=ONLY_KILLED),
    Row(make=archiving, table="v9", disk=KILLED_OR_FAILED, store=KILLED, patches=SMALL_LEVELS),
    Row(make=archiving, table=WITH_METADATA, disk=KEPT, patches=SMALL_LEVELS),
    Row(make=making_a_savepoint, table="v9", disk=ALL),
    Row(make=deleting_a_savepoint, table="v9", disk=ALL),
    Row(make=laying_out, table="hybrid", disk=ONLY_KILLED, store=NIGHTLY),
    Row(make=laying_out, table="sort", disk=NIGHTLY),
    Row(make=laying_out, table="curve", disk=NIGHTLY, store=NIGHTLY),
    Row(make=clustering_by_the_daemon, table=MERGE_ON_READ, disk=NIGHTLY),
    Row(make=clustering_by_the_daemon, table=COPY_ON_WRITE, disk=NIGHTLY, store=NIGHTLY),
    Row(make=giving_up, table=MERGE_ON_READ, disk=NIGHTLY),
    Row(make=expiring, table=MERGE_ON_READ, disk=ONLY_KILLED, store=NIGHTLY),
    Row(make=expiring, table=COPY_ON_WRITE, disk=NIGHTLY),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_a_service_survives_every_fault(
    row: Row, place: Place, kind: FaultKind, survives: Callable[[Row, Place, FaultKind], None]
) -> None:
    """Whatever call fails, dies, tears or loses its reply: what must hold at every moment holds, and running again ends
    it."""
    survives(row, place, kind)
