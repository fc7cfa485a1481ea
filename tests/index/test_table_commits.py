"""Commits that an index does not have: found on either timeline, counted, bounded, and what is read for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile, Refused, VerificationFailed
from lakeward.format.avro.schema_text import schema_text
from lakeward.format.file_name import LogFileName
from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.key_changes.group_changes import CommitChanges, Compared, ReadAgain, TableFiles, choose_changes
from lakeward.index.key_changes.key_reader import KeyReader
from lakeward.index.key_changes.marked_keys import IS_THERE
from lakeward.index.key_changes.table_commits import FileOfCommit, Staleness, TableCommit, commits_behind, staleness
from lakeward.index.location import RECORD_KEY
from lakeward.services.together.restore.run.restore import restore
from lakeward.table.file_group import BaseFile, FileGroup, FileSlice, LogFile
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.clocks import SkippingClock
from tests.crash import compacting
from tests.crash.compacting import compact
from tests.faults import FaultyStorage
from tests.golden_tables import copy_golden
from tests.index.following import STORAGE, memory_index, places, shown, truth, update
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.archive.run.archiving import archive, folder_of
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.synthetic_table import completed, snapshot_of
from tests.write.writing import BUCKETS, COLUMNS, Row, new_table, write

NOTHING = Indexed()


def rows(*keys: str, ts: int = 1) -> list[Row]:
    return [(key, ts, "p", "v") for key in keys]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Four upserts, of which the first two are archived."""
    clock = SkippingClock()
    base = new_table(tmp_path / "t", has_metadata_table=False)
    for number in range(4):
        write(base, rows(f"k{number}", "k9", ts=number), clock=clock, **BUCKETS)
    archive(base)
    assert len(scan(base).timeline.completed_writes) == 2, "two of them"
    return base


def test_commits_of_both_timelines(base):
    """They come in order of completion, with their files, as many as are asked for, and all are counted."""
    behind = commits_behind(STORAGE, scan(base), NOTHING)

    times = [commit.completed for commit in behind.commits]
    assert behind.count == len(times) == 4 and times == sorted(times)
    assert all(commit.files and commit.bytes and not commit.is_compaction for commit in behind.commits)
    assert commits_behind(STORAGE, scan(base), NOTHING, number=1) == replace(behind, commits=behind.commits[:1])
    left = commits_behind(STORAGE, scan(base), Indexed(times[0], frozenset([behind.commits[2].instant])))
    assert left.commits == (behind.commits[1], behind.commits[3])


def test_an_archived_gap(base):
    """Commits that were archived before they were indexed are indexed all the same."""
    index = memory_index(base)

    report = update(base, index, at_once=1)

    assert report.commits == tuple(commit.instant for commit in commits_behind(STORAGE, scan(base), NOTHING).commits)
    assert places(index, ["k0", "k1", "k2", "k3", "k9"]) == truth(base)


def test_a_history_that_cannot_be_read(base):
    """What it holds is not known then, and no update passes over it."""
    for file in Path(folder_of(base)).glob("*.parquet"):
        file.write_bytes(b"PAR1")

    with pytest.raises(BrokenFile, match="history"):
        update(base, memory_index(base))


def test_staleness(base):
    """Commits, their bytes, and the seconds since the first of them completed; nothing once all are indexed."""
    index, clock = memory_index(base), SkippingClock()
    clock.sleep(1000.0)  # behind the writes, whose clock skips, too
    behind = commits_behind(STORAGE, scan(base), NOTHING)

    found = staleness(STORAGE, scan(base), index.indexed(), clock=clock)

    assert (found.commits, found.bytes) == (4, sum(commit.bytes for commit in behind.commits))
    clock.sleep(100.0)
    later = staleness(STORAGE, scan(base), index.indexed(), clock=clock)
    assert later.seconds - found.seconds >= 100.0
    update(base, index)
    assert staleness(STORAGE, scan(base), index.indexed(), clock=clock) == Staleness()


def test_a_lookup_says_that_it_cannot(base):
    """Beyond the bound in bytes a lookup is refused, and the remedy is named; after that it is answered."""
    index = memory_index(base)

    with pytest.raises(Refused, match="lakeward index update"):
        shown(base, index, ["k1"], bytes_max=100)

    update(base, index)
    assert [key for key, _ in shown(base, index, ["k1"], bytes_max=100)] == ["k1"]


def test_version_6_is_refused(tmp_path):
    """Its timeline does not say in which order commits completed."""
    base = copy_golden("v6", tmp_path / "t")

    with pytest.raises(Refused, match="version 6"):
        commits_behind(STORAGE, scan(base), NOTHING)


@pytest.mark.parametrize("was_indexed", [True, False])
def test_a_restore_is_read_again(tmp_path, was_indexed):
    """What it undid is gone, and what that had taken away is there again, in an index that dropped what was before."""
    clock = SkippingClock()
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    write(base, rows("a", "b"), clock=clock)
    index = memory_index(base)
    (first,) = update(base, index).commits
    for key, operation in (("a", "delete"), ("c", "insert_overwrite")):
        write(base, rows(key), operation, clock=clock)
        if was_indexed:
            update(base, index)
    if was_indexed:
        assert [key for key, _ in places(index, "abc")] == ["b", "c"], "b is in a file group that is not live"
        index.commits[first] = [row for row in index.commits[first] if row[0] != "a"]  # as a compaction of it may
    before = truth(base)
    restore(replace(serviced_table(str(base), STORAGE, ScriptedProcesses()), clock=clock), first)
    assert before != truth(base) and [key for key, _ in truth(base)] == ["a", "b"]

    assert shown(base, index, "abc") == truth(base)
    update(base, index)
    assert places(index, "abc") == shown(base, index, "abc") == truth(base)
    assert set(index.commits) == {first, scan(base).timeline.completed[-1].time}


def _slice(instant: str) -> FileSlice:
    return FileSlice("p", "g-0", instant, BaseFile("g-0", instant, f"g-0_0-0-0_{instant}.parquet", "p", 1, "0-0-0"), ())


def _commit(instant: str, onto: str) -> TableCommit:
    file = FileOfCommit(("p", "g-0"), f"p/g-0_0-0-0_{instant}.parquet", is_log=False, onto=onto)
    return TableCommit(instant, instant, "commit", (file,))


def _files(*slices: str, frozen: bool = False) -> TableFiles:
    of, group = tuple(map(_slice, slices)), ("p", "g-0")
    newest = {} if frozen else {group: of[0]}
    return TableFiles(newest, {group: "why"} if frozen else {}, {}, {group: of}, {}, {}, None, False, False)


def test_first_and_last_are_read_again():
    """A file group whose files are gone is read again for the first commit that lacks some, and for the last one."""
    commits = [_commit(str(number), str(number - 1)) for number in range(1, 6)]

    chosen = choose_changes(commits, _files("5", "4"), ())

    assert [[type(change) is ReadAgain for change in each.changes] for each in chosen] == [
        [True],
        [],
        [],
        [True],
        [False],
    ]


def test_as_of_a_commit_whose_logs_retired_nothing_is_looked_up():
    """Keeps 1 of index/key_changes/group_changes: 2, 3 and 4 were merged into 6, and 2 and 3 are gone. As of 4 they
    were read; as of 6 and of what came behind it the slice reads the same without them."""

    def log(at: str) -> LogFile:
        return LogFile(LogFileName("g-0", at, 1, "0-0-0"), "p", 1)

    instants = [f"2026010100000000{at}" for at in range(8)]
    base = BaseFile("g-0", instants[1], "g-0_0-0-0_1.parquet", "p", 1, "0-0-0")
    merged = LogCompaction(instants[6], frozenset(log(instants[at]).file_name for at in (2, 3, 4)))

    def as_of(*there: int) -> list[int]:
        slice_ = FileSlice("p", "g-0", instants[1], base, tuple(log(instants[at]) for at in there))
        snapshot = snapshot_of(
            [FileGroup("p", "g-0", (slice_,))],
            [each for at in range(1, 8) for each in completed(instants[at], "deltacommit", instants[at])],
            log_compactions={("p", "g-0"): (merged,)},
        )
        table = TableFiles.of(snapshot)
        commits = (TableCommit(instants[at], instants[at], "deltacommit") for at in (4, 5, 6, 7))
        return [int(each.instant[-1]) for each in commits if table.as_of(("p", "g-0"), each) is not None]

    assert as_of(2, 3, 4, 5, 6, 7) == [4, 5, 6, 7]
    assert as_of(4, 5, 6, 7) == [6, 7]


def test_a_frozen_group_is_refused():
    """Its slices cannot be known, so neither can its keys."""
    with pytest.raises(Refused, match="cannot be known"):
        choose_changes([_commit("1", "0")], _files("1", frozen=True), ())


WITH_DELETES = COLUMNS.append(pa.field("_hoodie_is_deleted", pa.bool_()))


@pytest.mark.parametrize("version", [9, 10])
def test_a_compaction_brings_a_row_back(tmp_path, monkeypatch, version):
    """A row with a smaller ordering value loses to a delete, until the delete is compacted: then it is there, and the
    commit that says so is the compaction."""
    clock = SkippingClock()
    base = new_table(tmp_path / "t", version=version, schema=schema_text(WITH_DELETES, "t"))

    def put(ts: int, *, deletes: bool) -> None:
        columns = [["a"], [ts], ["p"], ["v"], [deletes]]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(each, of.type) for each, of in zip(columns, WITH_DELETES, strict=True)], schema=WITH_DELETES
        )
        write(base, batch, clock=clock, index=IndexType.BUCKET, buckets=1)

    put(4, deletes=False)
    index = memory_index(base)
    put(5, deletes=True)
    with monkeypatch.context() as patched, pytest.raises(VerificationFailed):
        patched.setattr(compacting, "run_operation", _fail)
        compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock)
    put(3, deletes=False)
    assert shown(base, index, "a") == truth(base) == []
    update(base, index)
    compact(base, FaultyStorage(), ScriptedProcesses(), clock=clock)

    assert [key for key, _ in truth(base)] == ["a"], "the delete is gone"
    assert shown(base, index, "a") == truth(base)
    update(base, index)
    assert places(index, "a") == truth(base)


def _fail(*_: object) -> None:
    raise VerificationFailed("No.", why="No.", remedy="No.")


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_each_commit_as_it_was(tmp_path, table_type):
    """Commits that are indexed together say each what it did, not what later ones made of it: as long as no clean was
    planned since."""
    clock = SkippingClock()
    base = new_table(tmp_path / "t", table_type=table_type, ordering_fields=())
    for operation, *keys in (["upsert", "a", "b"], ["delete", "b"], ["upsert", "b", "c"], ["delete", "b"]):
        write(base, rows(*keys), operation, clock=clock, index=IndexType.BUCKET, buckets=1)
    index = memory_index(base)

    update(base, index)

    said = [{key: file_id is not None for key, _, file_id in each} for each in index.commits.values()]
    assert said == [{"a": True, "b": True}, {"b": False}, {"b": True, "c": True}, {"b": False}]


def test_a_row_comes_back_by_a_new_base_file(tmp_path):
    """A key that a log had deleted, and that the base file under it has, was not there before a base file that has it
    again."""
    clock = SkippingClock()
    base = new_table(tmp_path / "t", ordering_fields=())
    for operation, *keys in (["upsert", "a", "b"], ["delete", "a"]):
        write(base, rows(*keys), operation, clock=clock)
    snapshot = scan(base)
    (slice_,) = snapshot.latest_slices
    assert slice_.base_file is not None
    logs = tuple(log.path for log in slice_.log_files)
    compared = Compared(slice_.group_id, replace(slice_, log_files=()), (slice_.base_file.path,), logs)

    batches = KeyReader(STORAGE, snapshot).changes(CommitChanges(_commit("9", "1"), (compared,)), is_global=True)

    assert [(row[RECORD_KEY], row[IS_THERE]) for batch in batches for row in batch.to_pylist()][:1] == [("a", True)]
