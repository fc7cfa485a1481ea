"""The record index in a folder, written by commits of every kind, against an index in memory."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import AlreadyExists, BrokenFile, IndexMoved, LakewardError, Refused, TryLater, Unsupported
from lakeward.index import manifest_form
from lakeward.index.index import Indexed, record_locations
from lakeward.index.location import LOCATIONS
from lakeward.index.manifest_form import list_manifests, manifest_path
from lakeward.index.record.created_with import KeyScope
from lakeward.index.record.entry_sorter import EntrySorter
from lakeward.index.record.index_growth import Scaling, ScalingWay
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_file import FileKind
from lakeward.index.record.record_manifest import RECORD_FORM, RecordManifest, find_manifest
from lakeward.protocol.index import record_index_writer
from lakeward.protocol.index.bucket_tasks import BucketSpread
from lakeward.protocol.index.manifests import KEPT, KEPT_SECONDS, REBASES, delete_unnamed
from lakeward.protocol.index.record_index_writer import (
    create_record_index,
    drop_record_index,
    moved_record_index,
)
from lakeward.storage.local import LocalStorage
from lakeward.storage.metered import MeteredStorage
from lakeward.table.timeline.timeline import Timeline
from tests.called_storage import WRITES
from tests.faults import Fault, FaultKind, FaultyStorage, Killed, faults_of
from tests.index.memory_index import MemoryIndex
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.index.test_writable_index import changes, found
from tests.runs import runs, spread
from tests.synthetic_table import completed as instant_completed
from tests.synthetic_table import minute, pending

STORAGE = LocalStorage()
KEYS = [*(f"k{number}" for number in range(24)), "Aa", "BB", "", "é", "\U0001f600"]
GROUPS = [(path, f"{path}-{number}") for path in "pq" for number in range(3)]
Row = tuple[str, str | None, str | None]


@dataclass
class Histories:
    """Commits of a table: completed, pending, archived; and two indexes that hear of them, one in memory."""

    chance: random.Random
    is_global: bool
    folder: Path
    scaling: Scaling
    spread: BucketSpread | None = None
    completed: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    archived: set[str] = field(default_factory=set)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    shown: list[str] = field(default_factory=list)
    clock: int = 0

    def __post_init__(self) -> None:
        new_record_index(self.folder, is_global=self.is_global, buckets=2, scaling=self.scaling)
        self.merges = MergeOptions(logs_max=3, log_ratio=0.5)
        self.index = ReopenedRecordIndex(self.folder, self.times, merges=self.merges, spread=self.spread)
        self.memory = MemoryIndex(self.times, self.is_global)

    def times(self, instants) -> dict[str, str]:
        return {each: self.completed[each] for each in instants if each in self.completed}

    def now(self) -> str:
        self.clock += 1
        return minute(self.clock)

    def timeline(self) -> Timeline:
        active = [each for each in self.completed if each not in self.archived]
        instants = [one for each in active for one in instant_completed(each, "deltacommit", self.completed[each])]
        return Timeline((*instants, *(one for each in self.waiting for one in pending(each, "deltacommit"))))

    def some_rows(self, *, in_order: bool) -> list[Row]:
        found = []
        for key in self.chance.sample(KEYS, self.chance.randint(1, 9)):
            path, file_id = self.chance.choice(GROUPS)
            gone = self.chance.random()
            # Gone from one place may come with another one, in one commit.
            if gone < 0.3:
                found.append((key, None if gone < 0.1 and (in_order or self.is_global) else path, None))
            if gone >= 0.3 or self.chance.random() < 0.2:
                found.append((key, path, file_id))
        return found

    def follow(self) -> None:
        """A commit of another writer, that completes and is taken in."""
        instant = self.now()
        at = self.completed[instant] = self.now()
        self._update(instant, self.some_rows(in_order=True), at)

    def begin(self) -> None:
        """A writer reports its own commit, and has yet to complete it."""
        instant = self.now()
        self.waiting.append(instant)
        self._update(instant, self.some_rows(in_order=False), None)

    def end(self) -> None:
        """It completes, or fails."""
        if not self.waiting:
            return
        instant = self.waiting.pop(self.chance.randrange(len(self.waiting)))
        if self.chance.random() < 0.6:
            self.completed[instant] = self.now()
            self.shown.append(f"{instant} completes")
        elif self.chance.random() < 0.5:
            self.shown.append(f"{instant} fails")
        else:
            self.shown.append(f"{instant} fails, and is taken back")
            self.index.rollback(instant)
            self.memory.rollback(instant)

    def restore(self) -> None:
        """The last commits are undone; the places of their keys before them are given again."""
        active = sorted((self.completed[each], each) for each in self.completed if each not in self.archived)
        if self.waiting or len(active) < 2:
            return
        undone = [each for _, each in active[-self.chance.randint(1, min(3, len(active) - 1)) :]]
        keys = {row[0] for each in undone for row in self.rows[each]}
        for each in undone:
            del self.completed[each]
        self.shown.append(f"{undone} are undone")
        there = {key: [] for key in keys}
        for key, path, file_id in self.memory.places():
            if key in there:
                there[key].append((key, path, file_id))
        gone = [(key, path, None) for key in sorted(keys) for path in "pq"]
        instant = self.now()
        at = self.completed[instant] = self.now()
        self._update(instant, [*gone, *(row for key in sorted(keys) for row in there[key])], at)
        for each in undone:
            self.index.rollback(each)
            self.memory.rollback(each)

    def archive(self) -> None:
        """The oldest commits leave the active timeline."""
        active = sorted((self.completed[each], each) for each in self.completed if each not in self.archived)
        self.archived |= {each for _, each in active[: max(0, len(active) - self.chance.randint(1, 4))]}

    def tidy(self) -> None:
        through = self.index.indexed().through
        if through is not None:
            self.shown.append("tidied")
            self.index.tidy(self.timeline(), through=through)

    def _update(self, instant: str, rows: list[Row], at: str | None) -> None:
        self.shown.append(f"{instant}, {at}: {rows}")
        self.rows[instant] = rows
        self.index.update(instant, changes(rows), completed=at)
        self.memory.update(instant, changes(self._memory_rows(rows)), completed=at)

    def _memory_rows(self, rows: list[Row]) -> list[Row]:
        """Gone from all of the table is gone from each partition."""
        if self.is_global:
            return rows
        return [(key, one, file_id) for key, path, file_id in rows for one in ([path] if path is not None else "pq")]

    def check(self) -> None:
        truth = sorted((key, path, file_id) for key, path, file_id in self.memory.places())
        what = "\n".join(self.shown)
        assert [row[:3] for row in found(self.index, *KEYS)] == truth, what
        listed = [row for part in self.index.parts(None) for row in rows_of(self.index, part)]
        assert sorted(listed) == truth, what


def rows_of(index: ReopenedRecordIndex, part: int) -> list[tuple[str, ...]]:
    batches = index.look_up(STORAGE, part, None)
    return [tuple(row.values())[:3] for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", range(runs(5)))
@pytest.mark.parametrize("way", [None, *ScalingWay])
def test_any_history(tmp_path, seed, way, monkeypatch):
    """Whatever commits, fails, is undone and archived, and however often the index is tidied meanwhile: it says of each
    key what one in memory says that forgets nothing, and lists just these. Keeps 1, 2 and 3 of
    protocol/index/record_index_writer, and 1 of index/record/record_index."""
    print(f"seed {seed}")
    if seed % 2:
        monkeypatch.setattr(manifest_form, "CHANGES_FROM", 0)
    chance = random.Random(seed)
    scaling = Scaling() if way is None else Scaling(way, entries_max=6)
    history = Histories(chance, chance.random() < 0.6, tmp_path / "record", scaling)
    acts = [history.follow] * 5 + [history.begin, history.end] * 2 + [history.tidy] * 3
    acts += [history.restore, history.archive]
    for _ in range(30):
        chance.choice(acts)()
        history.check()
    while history.waiting:
        history.end()
    for _ in range(4):
        history.follow()
        history.tidy()
        history.check()
    kinds = {file.kind for file in history.index.open().manifest.files}
    assert kinds > {FileKind.DELTA} or kinds == {FileKind.BASE}, "something was merged"
    if way is ScalingWay.GROUP:
        assert len(history.index.open().manifest.groups) > 1
    if way is ScalingWay.SEAL:
        assert max(history.index.open().manifest.groups[0].links) > 0


def story(index: ReopenedRecordIndex, times: dict[str, str]) -> list[str]:
    """One of each kind of change, after each of which the index was whole."""
    for number in range(1, 6):
        instant = minute(number)
        times[instant] = instant
        index.update(
            instant, changes([(f"k{number}", "p", f"p-{number}"), ("k0", "p", f"p-{number}")]), completed=instant
        )
    timeline = Timeline(tuple(one for each in times for one in instant_completed(each, "deltacommit", each)))
    index.tidy(timeline, through=minute(5))
    index.rollback(minute(9))
    return sorted(times)


@pytest.mark.crash
@pytest.mark.parametrize("kind", list(FaultKind))
def test_stopped_at_any_call(tmp_path, kind, monkeypatch):
    """Stopped at any call of updates and of tidying, the index is what it was before or after the change, and the same
    once all is done again, also where manifests say what changed. Keeps 1 of protocol/index/record_index_writer, and 1
    of protocol/index/manifests."""
    monkeypatch.setattr(manifest_form, "CHANGES_FROM", 0)
    times: dict[str, str] = {}

    def index_in(folder: Path, storage) -> ReopenedRecordIndex:
        return ReopenedRecordIndex(
            folder, lambda of: {e: times[e] for e in of if e in times}, storage=storage, merges=MergeOptions(2, 0.5)
        )

    counting = FaultyStorage()
    new_record_index(tmp_path / "whole", buckets=2)
    story(index_in(tmp_path / "whole", counting), times)
    expected = found(index_in(tmp_path / "whole", STORAGE), *(f"k{number}" for number in range(6)))
    assert any(call.split()[0] in WRITES for call in counting.calls)
    for fault in spread(faults_of(kind, counting.calls)):
        folder = tmp_path / f"{fault.call}"
        times.clear()
        new_record_index(folder, buckets=2)
        with suppress(Killed, LakewardError, OSError):
            story(index_in(folder, FaultyStorage(fault)), times)
        again = index_in(folder, STORAGE)
        shown = found(again, *(f"k{number}" for number in range(6)))
        assert all(row[3] in times for row in shown), f"{fault}"
        story(again, times)
        assert found(again, *(f"k{number}" for number in range(6))) == expected, f"{fault}"


def test_writers_of_disjoint_commits_do_not_conflict(tmp_path):
    """Two that opened the index at the same moment, and report commits that they have yet to complete, both are in."""
    times: dict[str, str] = {}
    new_record_index(tmp_path, buckets=2)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: times[each] for each in of if each in times})
    one, other = index.writer(), index.writer()
    one.update("1", changes([("a", "p", "p-0")]), completed=None)
    other.update("2", changes([("b", "p", "p-1")]), completed=None)
    times |= {"1": "3", "2": "4"}

    assert [row[0] for row in found(index, "a", "b")] == ["a", "b"]


def test_of_two_that_follow_the_table_one_is_shown(tmp_path):
    """One that takes in a commit after another one did so since it had opened the index begins again: what it asked the
    index is not so any more."""
    times = {"1": "1", "2": "2"}
    new_record_index(tmp_path, buckets=2)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: times[each] for each in of if each in times})
    one, other = index.writer(), index.writer()
    one.update("1", changes([("a", "p", "p-0")]), completed="1")

    with pytest.raises(TryLater, match="took in what completed"):
        other.update("2", changes([("b", "p", "p-1")]), completed="2")
    assert index.indexed() == Indexed("1", frozenset({"1"}))


def test_files_go_when_no_attempt_can_publish_them(tmp_path):
    """A file that no manifest names stays as long as its attempt can still publish it; then it goes, and manifests go
    after an hour. Keeps 2 of protocol/index/manifests."""
    times: dict[str, str] = {}
    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: times[each] for each in of if each in times})
    dead = tmp_path / "data" / "0-0-0_0-00c0ffee_20261127.hfile"
    foreign = tmp_path / "data" / "notes.txt"
    index.update("1", changes([("a", "p", "p-0")]), completed=None)
    for path in (dead, foreign):
        path.write_bytes(b"x")
    for number in range(2, REBASES + 4):
        assert dead.exists() == (number <= REBASES + 1)
        index.update("1", changes([("a", "p", f"p-{number}")]), completed=None)
        index.tidy(Timeline(tuple(pending("1", "deltacommit"))), through="0")

    assert not dead.exists() and foreign.exists()
    assert len(list(tmp_path.glob("manifest-*"))) == REBASES + 4
    for path in sorted(tmp_path.glob("manifest-*"))[:-1]:
        status = path.stat()
        os.utime(path, (status.st_atime, status.st_mtime - KEPT_SECONDS - 60))
    index.tidy(Timeline(tuple(pending("1", "deltacommit"))), through="0")
    assert len(list(tmp_path.glob("manifest-*"))) == KEPT
    assert len(list((tmp_path / "data").glob("*.hfile"))) <= REBASES + 2
    times["1"] = "2"
    assert [row[2] for row in found(index, "a")] == [f"p-{REBASES + 3}"]


def test_manifests_say_what_changed(tmp_path, monkeypatch):
    """An index of many files writes down what a commit changed; what is kept for an hour can be read, also where it
    follows manifests that are older, and a change whose predecessor is gone or another one is refused. Keeps 2 of
    index/manifest_form. Keeps 3 of protocol/index/manifests."""
    monkeypatch.setattr(manifest_form, "CHANGES_FROM", 0)
    new_record_index(tmp_path, buckets=40)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: each for each in of})
    keys = [f"k{number}" for number in range(200)]
    for number in range(1, 46):
        instant = minute(number)
        changed = keys if number < 3 else ["k7"]
        index.update(instant, changes([(key, "p", f"p-{number}") for key in changed]), completed=instant)
    sizes = {number: status.size for number, status in list_manifests(STORAGE, str(tmp_path)).items()}
    assert max(sizes) == 45 and {number for number in sizes if sizes[number] > 4500} == {1, 2, 4}

    for number in range(44):
        path = Path(manifest_path(str(tmp_path), number))
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - KEPT_SECONDS - 60))
    delete_unnamed(STORAGE, str(tmp_path), RECORD_FORM)
    left = list_manifests(STORAGE, str(tmp_path))
    assert [number for number in left if number <= 30] == [4, 16, 20, 24, 28, 29, 30], "30 is kept, and follows these"
    assert [RECORD_FORM.read(STORAGE, str(tmp_path), number).number for number in left] == [*left]
    assert [row[2] for row in found(index, "k7")] == ["p-45"]

    whole, newest = (RECORD_FORM.read(STORAGE, str(tmp_path), number) for number in (44, 45))
    path = Path(manifest_path(str(tmp_path), 44))
    path.write_bytes(RECORD_FORM.encode(whole))
    assert RECORD_FORM.read(STORAGE, str(tmp_path), 45) == newest
    path.write_bytes(RECORD_FORM.encode(replace(whole, files=whole.files[1:])))
    with pytest.raises(BrokenFile, match="named other files"):
        index.open()
    path.unlink()
    with pytest.raises(BrokenFile, match="is gone"):
        index.open()
    with pytest.raises(BrokenFile, match="says what changed"):
        RECORD_FORM.decode(Path(manifest_path(str(tmp_path), 45)).read_bytes(), path="m", number=45)


def test_an_index_that_was_opened_long_ago(tmp_path):
    """What was opened more than an hour ago, and is another one by now, is refused; a file that the newest manifest
    names and that is not there is lost. Keeps 5 of index/record/record_index."""
    times: dict[str, str] = {}
    new_record_index(tmp_path, buckets=1)
    files_alone = MeteredStorage(STORAGE)
    index = ReopenedRecordIndex(
        tmp_path, lambda of: {each: times[each] for each in of if each in times}, storage=files_alone
    )
    index.update("1", changes([("a", "p", "p-0")]), completed=None)
    times["1"] = "2"
    held = index.open()
    for number in range(REBASES + 2):
        index.update("1", changes([("a", "p", f"p-{number}")]), completed=None)
    for path in tmp_path.glob("manifest-*"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - KEPT_SECONDS - 60))
    index.update("1", changes([("a", "p", "p-9")]), completed=None)
    delete_unnamed(STORAGE, str(tmp_path), RECORD_FORM)

    with pytest.raises(IndexMoved, match="its files are gone"):
        found(held, "a")
    assert [row[2] for row in found(index, "a")] == ["p-9"]
    (named,) = index.open().manifest.files
    (tmp_path / named.path).unlink()
    with pytest.raises(BrokenFile, match="lacks a file"):
        found(index, "a")
    drop_record_index(STORAGE, str(tmp_path))
    with pytest.raises(IndexMoved, match="its files are gone"):
        found(held, "a")


def test_a_commit_that_is_yet_to_complete_names_partitions(tmp_path):
    """A commit that says that a key is gone from all of the table, where it is one in its partition, is taken in when
    it completed, and not before: another one may put it elsewhere until then."""
    new_record_index(tmp_path, is_global=False, buckets=1)
    index = ReopenedRecordIndex(tmp_path, dict.fromkeys)

    with pytest.raises(Unsupported, match="names no partition"):
        index.update("1", changes([("a", None, None)]), completed=None)


def test_lost_replies_of_the_store(tmp_path):
    """A create that the store tried again by itself, and that found what it had made, was the attempt's own; one that
    found another's manifest is followed by the next number. Keeps 1 of protocol/index/manifests."""

    class TriesAgain(LocalStorage):
        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            if "manifest" in path and path.endswith("1.json"):
                raise AlreadyExists(f"{path} exists.")

    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: each for each in of}, storage=TriesAgain())
    index.update("1", changes([("a", "p", "p-0")]), completed="1")

    assert [row[2] for row in found(index, "a")] == ["p-0"]
    assert len(list(tmp_path.glob("manifest-*"))) == 2


@pytest.mark.slow
def test_memory_goes_by_the_sorter_and_the_buckets(tmp_path, monkeypatch):
    """Changes that take more than the sorter may hold are spilled, and give the same files. Keeps 4 of
    protocol/index/record_index_writer."""
    rows = [(f"k{number:04}", *GROUPS[number % len(GROUPS)]) for number in range(2000)]
    new_record_index(tmp_path / "whole", buckets=3)
    new_record_index(tmp_path / "spilled", buckets=3)
    ReopenedRecordIndex(tmp_path / "whole", dict.fromkeys).build("1", changes(rows), completed="1")
    spilled: list[int] = []

    class SmallSorter(EntrySorter):
        def __init__(self, scope: KeyScope) -> None:
            super().__init__(scope, memory_bytes=20_000)
            spilled.append(1)

    monkeypatch.setattr(record_index_writer, "EntrySorter", SmallSorter)
    ReopenedRecordIndex(tmp_path / "spilled", dict.fromkeys).build("1", changes(rows), completed="1")

    contents = [
        sorted(each.read_bytes() for each in (tmp_path / name / "data").iterdir()) for name in ("whole", "spilled")
    ]
    assert spilled and contents[0] == contents[1]


def test_an_attempt_that_slept_publishes_nothing(tmp_path):
    """A number that was used, and deleted while the one before it stays, by which others are read, is not used again:
    the attempt is refused, and what it wrote is no part of the index."""
    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: each for each in of})
    slept = index.writer()
    for number in range(1, KEPT + 2):
        index.update(f"{number:02}", changes([("a", "p", f"p-{number}")]), completed=f"{number:02}")
    os.unlink(tmp_path / f"manifest-{1:020}.json")

    with pytest.raises(TryLater, match="took longer"):
        slept.update("99", changes([("a", "p", "p-99")]), completed=None)
    assert [row[2] for row in found(index, "a")] == [f"p-{KEPT + 1}"]


def test_what_is_merged_by_what_the_index_goes_through(tmp_path):
    """A commit that its writer reported, and that completed after one which the index does not have yet, is not merged:
    the one that comes in later is the older one."""
    times = {"1": "1", "9": "9"}
    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(
        tmp_path, lambda of: {each: times[each] for each in of if each in times}, merges=MergeOptions(2, 0.1)
    )
    index.update("1", changes([("a", "p", "p-0"), ("b", "p", "p-0")]), completed="1")
    index.update("9", changes([("a", "q", "q-0")]), completed=None)
    index.tidy(Timeline(tuple(one for each in "19" for one in instant_completed(each, "commit", each))), through="1")
    times["5"] = "5"
    index.update("5", changes([("a", "p", "p-1"), ("b", "p", "p-1")]), completed="5")

    assert [row[:3] for row in found(index, "a", "b")] == [("a", "q", "q-0"), ("b", "p", "p-1")]


def test_as_of(tmp_path):
    """Asked as of a moment it says what it said then; of one before a merge, and of one that it does not have yet, it
    refuses. Keeps 4 of index/record/record_index."""
    times: dict[str, str] = {}
    new_record_index(tmp_path, buckets=2)
    index = ReopenedRecordIndex(
        tmp_path, lambda of: {each: times[each] for each in of if each in times}, merges=MergeOptions(2, 10)
    )
    unmerged = ReopenedRecordIndex(tmp_path, index._times)
    for number, place in enumerate([("p", "p-0"), ("p", None), ("q", "q-0")], 1):
        times[str(number)] = str(number)
        index.update(str(number), changes([("a", *place), (f"k{number}", "p", "p-0")]), completed=str(number))
        timeline = Timeline(tuple(one for at in times for one in instant_completed(at, "commit", at)))
        unmerged.tidy(timeline, through=str(number))
    keys = pa.array(["a", "k1", "k3"])
    assert index.open().manifest.exact_at == ("1", "2", "3")

    def shown(at: str) -> list[tuple[str, str]]:
        rows = record_locations(STORAGE, index.open().as_of(at), keys).to_pylist()
        return sorted((row[LOCATIONS.names[0]], row[LOCATIONS.names[2]]) for row in rows)

    assert shown("1") == [("a", "p-0"), ("k1", "p-0")]
    assert shown("2") == [("k1", "p-0")]
    assert shown("3") == [("a", "q-0"), ("k1", "p-0"), ("k3", "p-0")]
    with pytest.raises(Refused, match="does not know yet"):
        shown("4")
    index.tidy(Timeline(tuple(one for each in "123" for one in instant_completed(each, "commit", each))), through="3")
    with pytest.raises(Refused, match="does not know any more"):
        shown("1")
    assert shown("3") == [("a", "q-0"), ("k1", "p-0"), ("k3", "p-0")]


def test_a_commit_that_was_not_the_last_one(tmp_path):
    """The index is not taken to be what the table was after a commit, where a later one was complete already when it
    took the commit in: that one may have replaced what the commit wrote to."""
    times = {"1": "1", "2": "2"}
    new_record_index(tmp_path, buckets=1)
    index = ReopenedRecordIndex(tmp_path, lambda of: {each: times[each] for each in of if each in times})
    timeline = Timeline(tuple(one for each in times for one in instant_completed(each, "commit", each)))
    for instant, exact in (("1", ()), ("2", ("2",))):
        index.update(instant, changes([("a", "p", f"p-{instant}")]), completed=instant)
        index.tidy(timeline, through=instant)
        assert index.open().manifest.exact_at == exact


def test_created_once_and_dropped_whole(tmp_path):
    """An index is not made over another one; dropped, it leaves nothing, and one that was half deleted is no index."""
    folder = tmp_path / "record"
    new_record_index(folder)
    with pytest.raises(Refused, match="already"):
        new_record_index(folder)
    assert drop_record_index(STORAGE, str(folder)) and not folder.exists()
    assert not drop_record_index(STORAGE, str(folder))

    new_record_index(folder, buckets=1)
    index = ReopenedRecordIndex(folder, dict.fromkeys)
    index.update("1", changes([("a", "p", "p-0")]), completed="1")
    with pytest.raises(Killed):
        calls = FaultyStorage(Fault(FaultKind.KILL, 2))
        drop_record_index(calls, str(folder))
    assert folder.exists() and find_manifest(STORAGE, str(folder)) is None
    create_record_index(STORAGE, str(folder), RecordManifest(0, KeyScope.GLOBAL))
    assert index.indexed() == Indexed()


def test_one_takes_the_place_of_another(tmp_path):
    """An index that was built beside another one below its folder is the index from one moment on, and what was there
    before goes."""
    index = ReopenedRecordIndex(tmp_path, dict.fromkeys)
    new_record_index(tmp_path, buckets=1)
    index.build("1", changes([("a", "p", "p-0")]), completed="1")
    for number in (2, 3):
        new_record_index(tmp_path / f"built-{number}", buckets=number)
        beside = ReopenedRecordIndex(tmp_path / f"built-{number}", dict.fromkeys)
        beside.build("1", changes([("a", "p", f"p-{number}")]), completed="1")
        moved_record_index(STORAGE, str(tmp_path), f"built-{number}")
        assert [row[2] for row in found(index, "a")] == [f"p-{number}"]

    assert not (tmp_path / "data").exists() and not (tmp_path / "built-2").exists()
    index.update("2", changes([("a", "p", "p-9")]), completed="2")
    assert (tmp_path / "built-3" / "manifest-00000000000000000002.json").exists()


def test_the_first_one_takes_its_place(tmp_path):
    """An index that was made below its folder, in which there was none, is the index whole or not at all, at whichever
    call it is stopped; it takes no other one's place, nor that of one that is being dropped."""
    for number in range(10):
        folder = tmp_path / str(number)
        new_record_index(folder / "built-1", is_global=False, buckets=1)
        beside = ReopenedRecordIndex(folder / "built-1", dict.fromkeys)
        beside.build("1", changes([("a", "p", "p-1")]), completed="1")
        assert find_manifest(STORAGE, str(folder)) is None
        storage = FaultyStorage(Fault(FaultKind.KILL, number))
        with suppress(Killed):
            moved_record_index(storage, str(folder), "built-1")
        if find_manifest(STORAGE, str(folder)) is None:
            moved_record_index(STORAGE, str(folder), "built-1")
        index = ReopenedRecordIndex(folder, dict.fromkeys)
        assert [row[2] for row in found(index, "a")] == ["p-1"] and not index.is_global
        if number >= len(storage.calls):
            break
    else:
        raise AssertionError("it was stopped at every call")

    new_record_index(folder / "built-2", buckets=1)
    unseen = [str(folder)]  # the index was not there yet when it was looked for
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "lakeward.index.manifest_form.list_manifests",
            lambda storage, at: {} if at in unseen and unseen.pop() else list_manifests(storage, at),
        )
        with pytest.raises(TryLater, match="made one"):
            moved_record_index(STORAGE, str(folder), "built-2")
    with suppress(Killed):
        drop_record_index(FaultyStorage(Fault(FaultKind.KILL, 2)), str(folder))
    new_record_index(folder / "built-3", buckets=1)
    with pytest.raises(TryLater, match="dropped it"):
        moved_record_index(STORAGE, str(folder), "built-3")
