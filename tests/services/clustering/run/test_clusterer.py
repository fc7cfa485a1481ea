"""Small file groups packed into new ones: the same rows, and every index knows where they are now."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from lakeward.base.clock import Clock
from lakeward.base.errors import Conflict, LakewardError, Refused, TryLater, VerificationFailed
from lakeward.cli.main import run
from lakeward.engine.dispatch.in_process import InProcessDispatcher
from lakeward.format.timeline.commit_metadata import CommitMetadata, read_commit_metadata, write_commit_metadata
from lakeward.format.timeline.instant import parse_instant_time
from lakeward.format.timeline.rollback_plan import RollbackPlan, encode_rollback_plan
from lakeward.index.index_type import IndexType
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.runs.run_windows import RunWindows
from lakeward.protocol.attempts.attempt import Attempt
from lakeward.protocol.lock.file_system_lock import SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.pause_of_writers import PauseOfWriters, left_no_heartbeat
from lakeward.protocol.writers_conflict import YieldOptions
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.clustering.plan.pack_options import PackOptions
from lakeward.services.clustering.run import group_file
from lakeward.services.clustering.run.clusterer import cluster
from lakeward.services.clustering.run.tasks import run_task
from lakeward.services.together.restore.run.restore import restore
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewIndex, NewIndexes
from lakeward.table.quarantine import load_quarantine
from lakeward.write.request import FileSizes, WriteOperation, WriteRequest
from lakeward.write.write_start import begin_write
from tests.clocks import SkippingClock
from tests.crash.compacting import everything, is_leftover
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.bench import Bench
from tests.services.clean.run.cleaning import clean, contents, data_files
from tests.services.clustering.run.packing import pack
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.services.together.versions.run.test_layout_step import is_sorted
from tests.write.writing import new_table, values, write

BY_METADATA: dict[str, Any] = {"index": IndexType.METADATA, "sizes": FileSizes(small_file=0)}
APART: dict[str, Any] = {"sizes": FileSizes(small_file=0)}
"""Each write of new keys makes file groups of its own."""
SHARED: dict[str, Any] = {
    "writers_stopped": False,
    "lock": FileSystemLockOptions(paths=(SPARK_LOCK,), wait_seconds=0.0, expire_seconds=60.0),
}
FEW = PackOptions(groups_min=2)


def made(base: Path, table_type: str = MERGE_ON_READ, *, writes: int = 3, indexed: bool = False) -> Path:
    """Small file groups in two partitions, one of each updated; with `indexed` every index that the metadata table may
    have."""
    indexes = NewIndexes(finds_keys=NewIndex.METADATA, bloom_filters=True) if indexed else NewIndexes()
    new_table(base, table_type=table_type, indexes=indexes)
    by, clock = BY_METADATA if indexed else APART, SkippingClock()
    clock.slept = -60.0
    for turn in range(writes):
        rows = [(f"{part}{turn}{number}", 1, part, "a") for number in (2, 1) for part in ("p", "q")]
        write(base, rows, "insert", clock=clock, **by)
    write(base, [("p01", 2, "p", "b"), ("q01", 0, "q", "older"), ("q12", 2, "q", "b")], clock=clock, **by)
    write(base, [("p11", 2, "p", None)], "delete", clock=clock, **by)
    return base


def newest_commit(base: Path) -> CommitMetadata:
    newest = scan(base).timeline.completed_writes[-1].file_name
    return read_commit_metadata((base / ".hoodie" / "timeline" / newest).read_bytes(), file=newest, layout=2)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_the_same_rows_in_fewer_file_groups(tmp_path: Path, table_type: str) -> None:
    """Keeps 1 of services/clustering/run/clusterer and Keeps 1 and 2 of services/clustering/run/packed_file: rows with
    their meta columns are those of before, sorted; the metadata table agrees, and its record index finds keys in their
    new places."""
    base = made(tmp_path / "t", table_type, indexed=True)
    before, groups = read_rows(base), {each.group_id for each in scan(base).latest_slices}
    assert len(groups) == 6
    report = pack(base, packing=FEW)
    assert (report.plan.input_groups, report.output_groups, report.rows) == (6, 2, len(before))
    assert read_rows(base) == before
    after = scan(base)
    assert [each.partition_path for each in after.latest_slices] == ["p", "q"]
    assert not groups & {each.group_id for each in after.latest_slices}
    assert all(each.base_file is not None and is_sorted(base / each.base_file.path) for each in after.latest_slices)
    commit = newest_commit(base)
    assert commit.operation_type == "CLUSTER"
    assert {(path, each) for path, ids in commit.partition_to_replace_file_ids.items() for each in ids} == groups
    assert commit.extra_metadata["lakeward.packed"] == "6 file groups into 2"
    check_agrees(base)
    write(base, [("p21", 3, "p", "c"), ("q32", 3, "q", "new")], index=IndexType.METADATA)
    write(base, [("p22", 3, "p", None)], "delete", index=IndexType.METADATA)
    found = values(read_rows(base))
    assert (found == values(before) | {"p21": "c", "q32": "new"} and "p22" in found) or "p22" not in found
    assert found == {key: value for key, value in values(before).items() if key != "p22"} | {"p21": "c", "q32": "new"}
    check_agrees(base)


def test_nothing_to_pack_writes_nothing(tmp_path: Path) -> None:
    base = made(tmp_path / "t")
    pack(base, packing=FEW)
    files = everything(base)
    report = pack(base, packing=FEW)
    assert (report.instant, report.output_groups, everything(base)) == (None, 0, files)


def test_groups_without_a_row_leave_none(tmp_path: Path) -> None:
    """Keeps 4 of services/clustering/run/group_file."""
    base = new_table(tmp_path / "t")
    for key in ("a", "b"):
        write(base, [(key, 1, "p", "x")], "insert", **APART)
    write(base, [("a", 2, "p", None), ("b", 2, "p", None)], "delete", **APART)
    report = pack(base, packing=FEW)
    assert (report.plan.input_groups, report.output_groups, report.rows) == (2, 0, 0)
    assert read_rows(base) == [] and scan(base).latest_slices == ()


def test_rows_of_one_key_stay_apart(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/run/group_file: inserts may have put one key into two file groups; its rows are
    those of before, and no footer says that keys ascend."""
    base = new_table(tmp_path / "t", table_type=COPY_ON_WRITE)
    for value in ("first", "second"):
        write(base, [("k", 1, "p", value), ("l" + value, 1, "p", "x")], "insert", **APART)
    before = sorted(read_rows(base), key=str)
    pack(base, packing=FEW)
    assert sorted(read_rows(base), key=str) == before and len(before) == 4
    (slice_,) = scan(base).latest_slices
    assert slice_.base_file is not None and not is_sorted(base / slice_.base_file.path)


def test_more_rows_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of services/clustering/run/group_file and Keeps 2 of services/clustering/run/packed_file: what
    does not fit is sorted in files."""
    base, runs = made(tmp_path / "t", writes=6), []
    windows = RunWindows.__init__

    def count(self: RunWindows, of: Any, **options: Any) -> None:
        runs.append(len(of))
        windows(self, of, **options)

    monkeypatch.setattr(MemoryBudget, "logs", property(lambda self: 500))
    monkeypatch.setattr(RunWindows, "__init__", count)
    before = read_rows(base)
    runs.clear()
    pack(base, packing=FEW)
    assert read_rows(base) == before
    assert len(runs) >= 2 and max(runs) > 2


def test_a_lost_row_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of services/clustering/run/packed_file, Keeps 1 of services/clustering/run/group_file and
    Keeps 1 and 2 of services/clustering/run/slice_rows: nothing is published, and nothing left."""
    base = made(tmp_path / "t")
    before, rows_of = read_rows(base), RunWindows.rows
    lossy = type("Lossy", (RunWindows,), {"rows": lambda self, order: rows_of(self, order).slice(1)})
    monkeypatch.setattr(group_file, "RunWindows", lossy)
    with pytest.raises(VerificationFailed):
        pack(base, packing=FEW)
    monkeypatch.undo()
    check_untouched(base, before)


def check_untouched(base: Path, before: list[dict[str, Any]]) -> None:
    assert read_rows(base) == before
    assert scan(base).timeline.pending == ()
    assert [path for path in everything(base) if is_leftover(path)] == []
    assert not scan(base).uncommitted_files


def meanwhile(act: Callable[[], object]) -> Callable[[int], InProcessDispatcher]:
    """A dispatcher that does something before the work."""

    class Dispatcher(InProcessDispatcher):
        def run(self, *arguments: Any, **options: Any) -> Any:
            act()
            return super().run(*arguments, **options)

    return lambda _: Dispatcher()


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_a_slice_that_another_write_changed(tmp_path: Path, table_type: str) -> None:
    """Keeps 3 of services/clustering/run/clusterer and Keeps 2 of write/write_run: what was written meanwhile is not
    lost."""
    base, storage = made(tmp_path / "t", table_type), LocalStorage()
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED)
    act = meanwhile(lambda: write(base, [("p21", 9, "p", "meanwhile")], clock=table.clock, **APART))
    with pytest.raises(Conflict, match="met another writer"):
        cluster(table, FEW, act, lambda *of: run_task(storage, *of))
    after = read_rows(base)
    assert values(after)["p21"] == "meanwhile"
    check_untouched(base, after)


def test_a_slice_that_was_compacted_meanwhile(tmp_path: Path) -> None:
    """Keeps 2 of write/write_run: a compaction meets no write, and yet what was taken is not the newest any more."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before, bench = read_rows(base), Bench(base)
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED)
    bench.clock = table.clock
    act = meanwhile(lambda: bench.compactor(writers_stopped=False).compact())
    with pytest.raises(Conflict, match="newest file slice is another one"):
        cluster(table, FEW, act, lambda *of: run_task(storage, *of))
    assert read_rows(base) == before
    assert scan(base).timeline.pending == ()


def test_a_write_of_new_groups_meanwhile(tmp_path: Path) -> None:
    """It meets nothing of what is packed, and both stay."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before = values(read_rows(base))
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED)
    act = meanwhile(lambda: write(base, [("p99", 9, "p", "meanwhile")], "insert", clock=table.clock, **APART))
    cluster(table, FEW, act, lambda *of: run_task(storage, *of))
    assert values(read_rows(base)) == before | {"p99": "meanwhile"}
    assert len(scan(base).latest_slices) == 3


def pending_write(base: Path, clock: Clock | None = None) -> str:
    """A write that has begun and says nothing of what it will touch; its instant."""
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses())
    return begin_write(replace(table, clock=clock or table.clock), WriteRequest(WriteOperation.UPSERT)).instant


def profile(base: Path, instant: str, partition: str) -> None:
    """It says that it touches one partition."""
    newest = next((base / ".hoodie" / "timeline").glob("*_*.deltacommit"))
    content = newest.read_bytes()
    commit = read_commit_metadata(content, file="", layout=2)
    stats = {path: of for path, of in commit.partition_to_write_stats.items() if path == partition}
    inflight = base / ".hoodie" / "timeline" / f"{instant}.deltacommit.inflight"
    inflight.write_bytes(write_commit_metadata(replace(commit, partition_to_write_stats=stats)))


def test_a_pending_write_holds_back(tmp_path: Path) -> None:
    """Keeps 2 of services/clustering/run/clusterer and Keeps 1 of protocol/pause_of_writers: also one that no
    heartbeat shows to be alive; but none that says that it touches another partition, and none where writers are
    stopped."""
    base = made(tmp_path / "t")
    before, instant = read_rows(base), pending_write(base)
    for beat in (base / ".hoodie" / ".heartbeat").iterdir():
        os.utime(beat, (beat.stat().st_mtime - 7200,) * 2)
    waits = {**SHARED, "yielding": YieldOptions(seconds=0.0)}
    with pytest.raises(TryLater, match=instant):
        pack(base, packing=FEW, **waits)
    profile(base, instant, "p")
    with pytest.raises(TryLater, match=instant):
        pack(base, packing=FEW, **waits)
    pack(base, packing=FEW, partitions={"q"}, **waits)
    assert [each.partition_path for each in scan(base).latest_slices] == ["p", "p", "p", "q"]
    assert read_rows(base) == before


def test_a_write_without_a_heartbeat_is_refused(tmp_path: Path) -> None:
    """Keeps 3 of protocol/pause_of_writers: its writer would roll back what is at work; not where writers are
    stopped."""
    base = made(tmp_path / "t")
    instant, files = pending_write(base), data_files(base)
    for beat in (base / ".hoodie" / ".heartbeat").iterdir():
        beat.unlink()
    with pytest.raises(Refused, match=f"{instant} has no heartbeat"):
        pack(base, packing=FEW, **SHARED)
    assert data_files(base) == files


def leave_no_heartbeat(base: Path, *, copied_after: float = 0.0) -> str:
    """The times of files as a writer without heartbeats leaves them, or so long after as the table was copied; the
    newest write."""
    newest = scan(base).timeline.completed_writes[-1]
    assert newest.completion_time is not None
    committed = parse_instant_time(newest.completion_time, UTC) / 1000 + copied_after
    completed = base / ".hoodie" / "timeline" / newest.file_name
    for path in (base / ".hoodie" / ".heartbeat", *completed.parent.iterdir()):
        os.utime(path, (committed - (path != completed),) * 2)
    return newest.time


def test_a_write_that_left_no_heartbeat_is_refused(tmp_path: Path) -> None:
    """Keeps 5 of protocol/pause_of_writers: the folder of heartbeats is older than its commit. Not where it changed
    since, in a copy of the table, whose files are younger than its commits say, nor where writers are stopped."""
    base = made(tmp_path / "t")

    def found() -> str | None:
        write = left_no_heartbeat(LocalStorage(), scan(base))
        return None if write is None else write.time

    assert found() is None
    newest = leave_no_heartbeat(base, copied_after=3600.0)
    assert found() is None
    leave_no_heartbeat(base)
    assert found() == newest
    files = data_files(base)
    with pytest.raises(Refused, match=f"{newest} left no heartbeat"):
        pack(base, packing=FEW, **SHARED)
    assert data_files(base) == files
    assert pack(base, packing=FEW).output_groups == 2


def test_a_rollback_of_it_holds_it_back(tmp_path: Path) -> None:
    """Keeps 4 of protocol/pause_of_writers: another engine is about to delete the files of the attempt."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before = read_rows(base)
    timeline = base / ".hoodie" / "timeline"

    def roll_back() -> None:
        (own,) = (each.time for each in scan(base).timeline.pending)
        plan = encode_rollback_plan(RollbackPlan(own, "replacecommit", {}), base_path=str(base))
        (timeline / "29990101000000000.rollback.requested").write_bytes(plan)

    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED, yielding=YieldOptions(seconds=0.0))
    with pytest.raises(TryLater, match="rollback 29990101000000000 is at work"):
        cluster(table, FEW, meanwhile(roll_back), lambda *of: run_task(storage, *of))
    (timeline / "29990101000000000.rollback.requested").unlink()
    assert read_rows(base) == before and len(scan(base).latest_slices) == 6


def test_a_write_that_begins_meanwhile_holds_back(tmp_path: Path) -> None:
    """Keeps 5 and 6 of write/write_run, Keeps 2 of protocol/pause_of_writers and Keeps 3 of protocol/life_cycle: the
    look under the lock counts, at its beginning and once more at its end. `.replacecommit.requested`, which the writer
    may be about to open, stays, of a commit of nothing; the next run packs what this one gave up."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before = read_rows(base)
    table = serviced_table(str(base), storage, ScriptedProcesses(), **SHARED, yielding=YieldOptions(seconds=0.0))
    with pytest.raises(TryLater, match="at work"):
        cluster(table, FEW, meanwhile(lambda: pending_write(base, table.clock)), lambda *of: run_task(storage, *of))
    assert read_rows(base) == before and len(scan(base).latest_slices) == 6
    (pending,) = scan(base).timeline.pending
    assert pending.action == "deltacommit"
    commit = newest_commit(base)
    assert commit.is_clustering and not commit.file_groups and not commit.partition_to_write_stats
    assert len(list((base / ".hoodie" / "timeline").glob("*.replacecommit.requested"))) == 1
    for left in (base / ".hoodie" / "timeline").glob(f"{pending.time}.*"):
        left.unlink()
    assert not scan(base).uncommitted_files
    assert pack(base, packing=FEW, clock=table.clock, **SHARED).output_groups == 2 and read_rows(base) == before


def test_it_begins_in_a_pause_as_the_lock_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 5 of services/clustering/run/clusterer: a write that begins after the wait, before the lock is taken, is
    waited for, too, as long as for one; nothing of the clustering is on the timeline then."""
    base, awaited = made(tmp_path / "t"), PauseOfWriters.await_writers

    def late(self: PauseOfWriters) -> None:
        awaited(self)
        pending_write(base)

    monkeypatch.setattr(PauseOfWriters, "await_writers", late)
    with pytest.raises(TryLater, match="No pause of the writers"):
        pack(base, packing=FEW, **SHARED, yielding=YieldOptions(seconds=0.0))
    assert [each.action for each in scan(base).timeline.pending] == ["deltacommit"]
    assert not list((base / ".hoodie" / "timeline").glob("*.replacecommit*"))


def test_a_write_that_begins_in_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 5 of write/write_run and Keeps 3 of protocol/life_cycle: nothing is left of what was staged. It is rolled
    back, since no instant can be completed after one that lies so far ahead."""
    base = made(tmp_path / "t", indexed=True)
    before, stage = read_rows(base), Attempt.stage

    def late(self: Attempt, commit: bytes) -> None:
        stage(self, commit)
        (base / ".hoodie" / "timeline" / "29990101000000000.deltacommit.requested").touch()

    monkeypatch.setattr(Attempt, "stage", late)
    with pytest.raises(LakewardError):
        pack(base, packing=FEW, **SHARED)
    monkeypatch.undo()
    (base / ".hoodie" / "timeline" / "29990101000000000.deltacommit.requested").unlink()
    check_untouched(base, before)
    check_agrees(base)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"hoodie.index.type": "BUCKET"}, "a file group is a bucket"),
        (None, "hash consistently"),
    ],
)
def test_tables_on_which_it_would_harm(tmp_path: Path, properties: dict[str, str] | None, why: str) -> None:
    """Keeps 4 of services/clustering/run/clusterer."""
    base = made(tmp_path / "t", COPY_ON_WRITE)
    if properties is None:
        (base / ".hoodie" / ".bucket_index" / "consistent_hashing_metadata").mkdir(parents=True)
    else:
        with (base / ".hoodie" / "hoodie.properties").open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in properties.items())
    files = everything(base)
    with pytest.raises(Refused, match=why):
        pack(base, packing=FEW)
    assert everything(base) == files


def test_lakewards_own_index_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record index of Lakeward has each key in its new file group once it was updated, as after any commit."""
    base = made(tmp_path / "t", COPY_ON_WRITE)

    def index(verb: str, *keys: str) -> str:
        exit_code = run(["index", verb, str(base), *keys, "--type", "record"])
        printed = capsys.readouterr()
        assert exit_code == 0, printed
        return printed.out

    index("build")
    pack(base, packing=FEW)
    index("update")
    index("verify")
    (new,) = (each.file_id for each in scan(base).latest_slices if each.partition_path == "q")
    assert new in index("lookup", "q12")


def test_a_clean_keeps_what_was_replaced(tmp_path: Path) -> None:
    """Replaced file groups go into the quarantine with a clean, and come back from it; no query reads them again."""
    base, storage = made(tmp_path / "t"), LocalStorage()
    before, files = read_rows(base), data_files(base)
    pack(base, packing=FEW)
    clean(base, storage, keep_seconds=3600.0)
    assert len(data_files(base)) == 2 and files <= contents(base).keys()
    assert read_rows(base) == before
    (kept,) = load_quarantine(storage, str(base)).runs
    undo_clean(serviced_table(str(base), storage, ScriptedProcesses()), kept.run)
    assert files <= data_files(base) and read_rows(base) == before


def test_a_restore_undoes_it(tmp_path: Path) -> None:
    """The file groups that were replaced are the table's again, also where a clean had set them aside, and the rows are
    those of before; the commit to go back to is the one before the clustering."""
    base, storage = made(tmp_path / "t", indexed=True), LocalStorage()
    before, files, last = read_rows(base), data_files(base), scan(base).timeline.completed_writes[-1].time
    groups = {each.group_id for each in scan(base).latest_slices}
    pack(base, packing=FEW)
    clean(base, storage, keep_seconds=3600.0)
    restored = restore(serviced_table(str(base), storage, ScriptedProcesses()), last)
    assert [each.instant for each in restored.planned.undone] != []
    assert {each.group_id for each in scan(base).latest_slices} == groups
    assert read_rows(base) == before and files <= data_files(base)
