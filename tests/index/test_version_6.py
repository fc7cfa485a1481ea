"""Indexes of tables of version 6, against what Hudi 0.15.0 read of them after each of its steps: writes, moves,
deletes, a writer that is late, one that dies, compactions, cleans, archiving, replaced groups, rollbacks and restores.

A seed is one pace; LAKEWARD_RUNS=100 runs as many.
"""

from __future__ import annotations

import copy
import random
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import LakewardError, Refused
from lakeward.index.record.as_of import locations_as_of
from lakeward.index.record.record_index import RecordIndex
from lakeward.services.indexing.judge.key_change_list import changes_between
from lakeward.services.indexing.run.build_work import build_state, make_missing
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.write.request import IndexKind
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.index.builds import in_process
from tests.index.external.called_entries import CalledEntries
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import truth
from tests.index.version_6_indexes import Kept, outside, record, record_folder
from tests.our_reader import scan
from tests.runs import runs, spread
from tests.version_6_lives import RecordedLife, archive
from tests.write.own_record_index import opened
from tests.write.writing import write

STORAGE = LocalStorage()
WIDE = [
    pytest.param(name, seed, marks=pytest.mark.wide)
    for name in ("merged", "by_event_time", "copied")
    for seed in range(1, max(2, runs(3)))
]
STOPS = [
    FaultKind.KILL,
    *(pytest.param(kind, marks=pytest.mark.wide) for kind in (FaultKind.TORN, FaultKind.BEFORE, FaultKind.LOST_REPLY)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "seed"), [("merged", 0), ("copied", 0), *WIDE])
def test_each_step_of_hudis(tmp_path: Path, name: str, seed: int) -> None:
    """Each key is found where Hudi reads it, and nowhere else, by indexes that are brought up to date with each step,
    now and then, and never. Keeps 1 of index/key_changes/unseen_commits and that of unseen_changes."""
    chance = random.Random(f"{name} {seed}")
    life = RecordedLife(name, tmp_path)
    first = 0 if seed == 0 else chance.randrange(life.find("upsert [40, 41] in p0"))
    life.state(first)
    kept = [record(life.base, "at-pace", 1.0), outside(life.base, MemoryEntries(is_global=True), 0.3)]
    if seed:
        kept += [
            record(life.base, "late", 0.2),
            record(life.base, "never", 0.0),
            record(life.base, "by-partition", 0.5, is_global=False),
        ]
    for index in kept:
        index.build()
    for told, hudis in life.lived(first):
        if scan(life.base).frozen:
            # Logs of old slices, which Hudi's upgrade leaves behind commits that are on no timeline any more.
            assert scan(life.base).config.layout == 2, told
            for index in kept:
                with pytest.raises(Refused, match="cannot be known"):
                    index.update()
            continue
        rows = truth(life.base)
        assert {key: place[0] for key, place in rows} == hudis, told
        for index in kept:
            where = f"{name} {seed=} {told}: {index.name}"
            assert index.found() == rows, where
            if chance.random() < index.pace:
                index.update()
                assert index.found(bytes_max=0) == rows, f"{where}, up to date"


@pytest.mark.parametrize("kind", STOPS)
def test_an_update_is_stopped_at_every_call(tmp_path: Path, kind: FaultKind) -> None:
    """Keeps 1 of services/indexing/run/advancing: over commits that were archived unseen, the next one comes to the
    same, and lookups are right meanwhile."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("a write is under way"))
    record(life.base, "stopped", 1.0).build()
    life.state(life.find("clean [26, 9, 10]"))
    rows, kept = truth(life.base), tmp_path / "kept"
    shutil.copytree(record_folder(life.base, "stopped"), kept)

    def again(storage: Storage) -> Kept:
        shutil.rmtree(record_folder(life.base, "stopped"))
        shutil.copytree(kept, record_folder(life.base, "stopped"))
        return record(life.base, "stopped", 1.0, storage=storage)

    unharmed = FaultyStorage()
    again(unharmed).update(unharmed)
    for fault in spread(faults_of(kind, unharmed.calls)):
        storage = FaultyStorage(fault)
        with suppress(Killed, OSError, LakewardError):
            again(storage).update(storage)
        index = record(life.base, "stopped", 1.0)
        assert index.found() == rows, fault
        index.update()
        assert index.found(bytes_max=0) == rows, fault


@pytest.mark.parametrize("kind", STOPS)
def test_an_update_in_a_store_is_stopped_at_every_call(tmp_path: Path, kind: FaultKind) -> None:
    """The same of entries outside of the table."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("a write is under way"))
    built = MemoryEntries(is_global=True)
    outside(life.base, built, 1.0).build()
    life.state(life.find("clean [26, 9, 10]"))
    rows = truth(life.base)

    def entries(process: FaultyStorage) -> CalledEntries:
        return CalledEntries(copy.deepcopy(built), process)

    unharmed = FaultyStorage()
    outside(life.base, entries(unharmed), 1.0).update()
    for fault in spread(faults_of(kind, unharmed.calls)):
        process = FaultyStorage(fault)
        left = entries(process)
        with suppress(Killed, OSError, LakewardError):
            outside(life.base, left, 1.0).update()
        index = outside(life.base, left.inner, 1.0)
        assert index.found() == rows, fault
        index.update()
        assert index.found(bytes_max=0) == rows, fault


def test_a_rollback_under_way(tmp_path: Path) -> None:
    """Keeps 2 of index/key_changes/unseen_commits: what is seen, and pending again or nowhere, counts no more, and when
    a rollback says that it undid it, nothing is to be done."""
    life = RecordedLife("merged", tmp_path)
    before = life.find("that is rolled back") - 1
    life.state(before)
    indexes = [record(life.base, name, 1.0) for name in ("updated", "late")]
    for index in indexes:
        index.build()
    there = truth(life.base)
    newest = max((life.base / ".hoodie").glob("2*.deltacommit"))
    newest.unlink()
    assert [index.found() for index in indexes] == [truth(life.base)] * 2 != [there] * 2
    indexes[0].update()
    for path in (life.base / ".hoodie").glob(f"{newest.stem}.*"):
        path.unlink()
    assert [index.found() for index in indexes] == [truth(life.base)] * 2
    life.state(before + 1)
    assert [index.found() for index in indexes] == [truth(life.base)] * 2
    with pytest.raises(Refused, match="lakeward index update"):
        indexes[1].found(bytes_max=100)
    for index in indexes:
        index.update()
        assert index.found(bytes_max=0) == truth(life.base)


def test_what_was_archived_unseen(tmp_path: Path) -> None:
    """The archive says what it wrote to: other file groups are not read again, and what was read of it once is not read
    again."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("upsert [6, 19]"))
    index = record(life.base, "index", 1.0)
    index.build()
    life.state(life.find("clean [26, 9, 10]"))
    snapshot = scan(life.base)
    done = index.update()
    archived = [each for each in done.commits if snapshot.timeline.find(each) is None]
    assert archived and 0 < done.read_anew < len(snapshot.file_groups)
    assert index.found(bytes_max=0) == truth(life.base)
    calls = FaultyStorage()
    assert not record(life.base, "index", 1.0).update(calls).commits
    assert [call for call in calls.calls if "/archived/" in call and call.startswith("open_input")] == []


def test_an_archive_that_is_lost(tmp_path: Path) -> None:
    """If what was seen is neither on the timeline nor in the archive, nothing that the index has is relied on."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("a write is under way"))
    index = record(life.base, "index", 1.0)
    index.build()
    life.state(life.find("clean [26, 9, 10]"))
    shutil.rmtree(life.base / ".hoodie" / "archived")
    assert index.found() == truth(life.base)
    index.update()
    assert index.found(bytes_max=0) == truth(life.base)


def test_what_a_dead_write_left_may_count_again(tmp_path: Path) -> None:
    """What a write left that failed, and no rollback took back, counts to readers once the timeline begins behind it:
    what unseen_changes keeps."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("upsert [6, 19]"))
    base = life.base
    _, dead, _ = sorted((base / ".hoodie").glob("2*.deltacommit"))[-3:]
    for path in (base / ".hoodie").glob(f"{dead.stem}.*"):
        path.unlink()
    index, late = record(base, "index", 1.0), record(base, "late", 0.0)
    for each in (index, late):
        each.build()
    there = [truth(base)]
    while len(writes := sorted((base / ".hoodie").glob("2*.deltacommit"))) > 1:
        archive(base, writes[:1], number=len(there))
        there.append(truth(base))
        assert index.found() == late.found() == there[-1]
        index.update()
        assert index.found(bytes_max=0) == there[-1]
    assert "k17" not in dict(there[0]) and "k17" in dict(there[-1])


def test_another_version_in_between(tmp_path: Path) -> None:
    """Keeps 3 of index/key_changes/unseen_commits: an index that followed the commits of a table is refused once that
    is of version 6."""
    life = RecordedLife("copied", tmp_path)
    life.state(len(life.steps) - 1)
    index = record(life.base, "index", 1.0)
    index.build()
    life.state(0)
    for ask in (index.found, index.update):
        with pytest.raises(Refused, match="lakeward index rebuild"):
            ask()


@pytest.mark.slow
@pytest.mark.parametrize("is_archived", [False, True])
def test_upgraded(tmp_path: Path, is_archived: bool) -> None:
    """Keeps 2 of services/indexing/run/advancing: an index of a table that was upgraded reads it once more, all of it
    where commits may have been archived that it lacks, and follows its commits from then on."""
    life = RecordedLife("copied", tmp_path)
    first = life.find("upsert [40, 41] in p0")
    life.state(0 if is_archived else first - 1)
    assert scan(life.base).config.layout == 1
    index, late = record(life.base, "index", 1.0), record(life.base, "late", 1.0)
    for each in (index, late):
        each.build()
    for number in range(first, len(life.steps)):
        life.state(number)
        assert scan(life.base).config.layout == 2
        assert index.found() == late.found() == truth(life.base)
        index.update()
        assert index.found(bytes_max=0) == truth(life.base)
        assert index.opens(scan(life.base)).indexed().seen is None
    late.update()
    assert late.found(bytes_max=0) == truth(life.base)


def test_a_write_of_ours_behind_an_upgrade(tmp_path: Path) -> None:
    """It goes by the index, and tells it nothing as long as that has to read the table once more."""
    life = RecordedLife("copied", tmp_path)
    first = life.find("upsert [40, 41] in p0")
    life.state(first - 1)
    index = record(life.base, "record", 1.0)
    index.build()
    life.state(first)
    opens = partial(opened, life.base)
    for key in ("k40", "k49"):
        write(life.base, [(key, 1000, "p1", "ours")], index=IndexKind.RECORD, moves_rows=True, open_index=opens)
        assert index.found() == truth(life.base)
        assert dict(truth(life.base))[key][0] == "p1"
        before = index.opens(scan(life.base)).indexed()
        assert (before.seen is None) == (key == "k49")
        index.update()
        assert index.found(bytes_max=0) == truth(life.base)


def test_what_cannot_be_told(tmp_path: Path) -> None:
    """What each commit did, and where keys were as of one, is not told of version 6."""
    life = RecordedLife("merged", tmp_path)
    life.state(2)
    record(life.base, "index", 1.0).build()
    snapshot = scan(life.base)
    with pytest.raises(Refused, match="each by itself"):
        changes_between(STORAGE, snapshot, after=None, until=None, kept=10)
    index = RecordIndex.of(STORAGE, snapshot, str(record_folder(life.base, "index")))
    with pytest.raises(Refused, match="each by itself"):
        locations_as_of(STORAGE, snapshot, index, pa.array(["k1"]), snapshot.timeline.completed_writes[0].time)
    assert index.manifest.exact_at == ()


def test_a_build_that_goes_on(tmp_path: Path) -> None:
    """A log stays as it is when a write of which it has a block completes: what was read of it counts no more."""
    life = RecordedLife("merged", tmp_path)
    life.state(life.find("delete [2, 3]"))
    newest = max((life.base / ".hoodie").glob("2*.deltacommit"))
    data = newest.read_bytes()
    newest.unlink()
    snapshot, work = scan(life.base), in_process(life.base)
    make_missing(STORAGE, snapshot, build_state(STORAGE, snapshot, work.folder), work)
    assert "k2" in dict(truth(life.base))
    newest.write_bytes(data)
    index = record(life.base, "index", 1.0)
    index.build()
    assert index.found(bytes_max=0) == truth(life.base)
    assert "k2" not in dict(truth(life.base))
