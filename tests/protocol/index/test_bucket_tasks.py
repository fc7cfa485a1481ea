"""Buckets of a record index that tasks write are those that one process writes."""

from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile, LakewardError, TaskFailed
from lakeward.index.record.index_growth import Scaling, ScalingWay
from lakeward.index.record.merge_choice import MergeOptions
from lakeward.index.record.record_file import FileKind, RecordFile
from lakeward.protocol.index import bucket_tasks
from lakeward.protocol.index.bucket_tasks import BucketTask, FilesTask, MergesTask, is_worth_tasks, run_bucket_task
from lakeward.protocol.index.manifests import REBASES
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.timeline.timeline import Timeline
from tests.faults import FaultKind, FaultyStorage, Killed, faults_of
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index
from tests.index.test_writable_index import changes, found
from tests.protocol.index.test_record_index_writer import Histories, story
from tests.runs import runs, spread
from tests.synthetic_table import completed as instant_completed
from tests.synthetic_table import minute

STORAGE = LocalStorage()
KEYS = [f"k{number:03}" for number in range(300)]


class Tasks:
    """Three at once, one after the other, each with what travelled to it; the task of that number dies half done."""

    def __init__(self, storage: Storage = STORAGE, *, dies: int | None = None, bends: bool = False) -> None:
        self.storage = storage
        self.dies = dies
        self.bends = bends
        self.ran = Counter[type[BucketTask]]()

    def at_once(self, input_bytes: int) -> int:
        return 3

    def run(self, tasks: Sequence[BucketTask], input_bytes: int) -> list[tuple[RecordFile, ...]]:
        done = []
        for number, task in enumerate(tasks):
            self.ran[type(task)] += 1
            if self.bends and isinstance(task, FilesTask):
                path = Path(task.folder, task.stream.path)
                content = bytearray(path.read_bytes())
                content[len(content) // 2] ^= 1
                path.write_bytes(content)
            done.append(run_bucket_task(self.storage, pickle.loads(pickle.dumps(task)), 0))
            if number == self.dies:
                raise TaskFailed("A task was killed.")
        return done


@pytest.fixture(autouse=True)
def _everything_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_tasks, "SPREAD_SECONDS", -1.0)


def index_in(folder: Path, tasks: Tasks | None, times: dict[str, str]) -> ReopenedRecordIndex:
    if not folder.exists():
        new_record_index(folder, buckets=7)
    storage = STORAGE if tasks is None else tasks.storage
    merges = MergeOptions(2, 0.5)
    return ReopenedRecordIndex(
        folder, lambda of: {e: times[e] for e in of if e in times}, storage=storage, merges=merges, spread=tasks
    )


def contents(folder: Path, index: ReopenedRecordIndex) -> list[tuple[object, ...]]:
    """What each file of the index is of, and its bytes."""
    files = index.open().manifest.files
    found = []
    for file in files:
        content = (folder / file.path).read_bytes()[file.offset : file.offset + file.size]
        found.append((file.of, file.kind.value, file.instant, content))
    return sorted(found)


def update(index: ReopenedRecordIndex, times: dict[str, str], number: int) -> None:
    instant = minute(number)
    times[instant] = instant
    rows = [(key, "p", None if place % 11 == number else f"p-{number}") for place, key in enumerate(KEYS[number:])]
    index.update(instant, changes(rows), completed=instant)


def tidy(index: ReopenedRecordIndex, times: dict[str, str]) -> None:
    timeline = Timeline(tuple(one for each in times for one in instant_completed(each, "deltacommit", each)))
    index.tidy(timeline, through=max(times))


def test_tasks_write_what_one_process_writes(tmp_path: Path) -> None:
    """The files are equal to the byte, those of commits and those of merges, and nothing else is left. Keeps 1 of
    protocol/index/bucket_tasks. Keeps 5 of protocol/index/record_index_writer."""
    times: dict[str, str] = {}
    tasks = Tasks()
    one, several = (index_in(tmp_path / name, each, times) for name, each in (("one", None), ("several", tasks)))
    for number in range(1, 4):
        for index in (one, several):
            update(index, times, number)
        assert contents(tmp_path / "several", several) == contents(tmp_path / "one", one)
    assert tasks.ran == {FilesTask: 9}
    for index in (one, several):
        tidy(index, times)
    assert contents(tmp_path / "several", several) == contents(tmp_path / "one", one)
    assert tasks.ran == {FilesTask: 9, MergesTask: 3}
    assert {file.kind for file in several.open().manifest.files} == {FileKind.BASE}
    assert not list((tmp_path / "several" / "data").glob("*.entries"))


@pytest.mark.parametrize("seed", range(runs(3)))
@pytest.mark.parametrize("way", list(ScalingWay))
def test_any_history(tmp_path: Path, seed: int, way: ScalingWay) -> None:
    """Whatever commits, is undone, merged and grown, by tasks: the index says what one in memory says."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    tasks = Tasks()
    history = Histories(chance, seed % 2 == 0, tmp_path / "record", Scaling(way, entries_max=6), spread=tasks)
    acts = [history.follow] * 5 + [history.begin, history.end] * 2 + [history.tidy] * 3 + [history.restore]
    for _ in range(20):
        chance.choice(acts)()
        history.check()
    assert tasks.ran[FilesTask]


def test_a_task_that_dies(tmp_path: Path) -> None:
    """The index stays as it was, and the next update makes what it would have made; what the dead one left goes once
    no attempt can name it."""
    times: dict[str, str] = {}
    tasks = Tasks()
    index = index_in(tmp_path / "index", tasks, times)
    update(index, times, 1)
    before = found(index, *KEYS)
    tasks.dies = 1
    with pytest.raises(TaskFailed):
        update(index, times, 2)
    del times[minute(2)]
    assert found(index, *KEYS) == before
    dead = {path.name for path in (tmp_path / "index" / "data").iterdir()} - {
        file.path.rpartition("/")[2] for file in index.open().manifest.files
    }
    assert dead
    with pytest.raises(TaskFailed):
        update(index, times, 2)
        tidy(index, times)
    tasks.dies = None
    update(index, times, 2)
    whole = index_in(tmp_path / "whole", None, times)
    update(whole, times, 1)
    update(whole, times, 2)
    assert contents(tmp_path / "index", index) == contents(tmp_path / "whole", whole)
    for _ in range(REBASES + 2):
        index.update(minute(9), changes([("k001", "p", "p-9")]), completed=None)
    tidy(index, times)
    assert not {path.name for path in (tmp_path / "index" / "data").iterdir()} & dead


def test_a_stream_that_was_bent(tmp_path: Path) -> None:
    """What a task reads is what was written, or nothing is published of it. Keeps 2 of protocol/index/bucket_tasks."""
    times: dict[str, str] = {}
    index = index_in(tmp_path / "index", Tasks(bends=True), times)
    with pytest.raises(BrokenFile, match="not what was written"):
        update(index, times, 1)
    assert not index.open().manifest.files


@pytest.mark.crash
@pytest.mark.parametrize("kind", list(FaultKind))
def test_stopped_at_any_call(tmp_path: Path, kind: FaultKind) -> None:
    """Stopped at any call of updates and of tidying by tasks, the index is what it was before or after the change, and
    the same once all is done again."""
    times: dict[str, str] = {}
    counting = FaultyStorage()
    keys = [f"k{number}" for number in range(6)]
    story(index_in(tmp_path / "whole", Tasks(counting), times), times)
    expected = found(index_in(tmp_path / "whole", None, times), *keys)
    for fault in spread(faults_of(kind, counting.calls)):
        folder = tmp_path / f"{fault.call}"
        times.clear()
        new_record_index(folder, buckets=7)
        with suppress(Killed, LakewardError, OSError):
            story(index_in(folder, Tasks(FaultyStorage(fault)), times), times)
        again = index_in(folder, Tasks(), times)
        assert all(row[3] in times for row in found(again, *keys)), f"{fault}"
        story(again, times)
        assert found(again, *keys) == expected, f"{fault}"


def test_what_is_worth_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files or many entries, and more of these where a stream is written for the tasks; one task never is."""
    monkeypatch.undo()
    commit, merges = partial(is_worth_tasks, is_streamed=True), partial(is_worth_tasks, is_streamed=False)
    assert commit(2, files=1_000, entries=10_000) and commit(16, files=13, entries=5_000_000)
    assert not commit(2, files=13, entries=5_000_000) and merges(2, files=13, entries=6_000_000)
    assert not merges(2, files=13, entries=1_000_000)
    assert not merges(1, files=1_000, entries=100_000_000)
