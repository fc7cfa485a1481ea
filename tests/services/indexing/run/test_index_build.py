"""A build that is stopped, at whatever call, goes on when it is begun again, and gives the index that is due."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import TryLater
from lakeward.index.index import Indexed
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.build_work import remove_checkpoints
from lakeward.services.indexing.run.index_build import IndexBuild, build_index, update_and_tidy
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from lakeward.table.snapshot import TableSnapshot
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.index.builds import build_folder, in_process
from tests.index.following import places, truth
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
KEYS = ["k1", "k2", "k3", "k4", "k5"]


def opened(base: Path, storage: Storage, snapshot: TableSnapshot) -> RecordIndexWriter:
    return RecordIndexWriter.of(storage, snapshot, RecordOptions().folder(str(base)))


def build(base: Path, storage: Storage = STORAGE) -> IndexBuild:
    done = build_index(storage, partial(opened, base, storage), lambda: scan(base), in_process(base, storage))
    remove_checkpoints(storage, str(build_folder(base)))
    return done


def unbuilt(path: Path) -> Path:
    """A table of three file groups, one of which has a log with a delete, and an index of it that has nothing."""
    base = new_table(path)
    write(base, [("k1", 1, "a", "x"), ("k2", 1, "a", "x"), ("k3", 1, "b", "x"), ("k4", 1, "c", "x")])
    write(base, [("k2", 2, "a", None)], "delete")
    new_record_index(Path(RecordOptions().folder(str(base))), buckets=2)
    return base


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unbuilt(tmp_path_factory.mktemp("made") / "t")


@pytest.fixture
def prepared(made_once: Path, tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(made_once, tmp_path / name))


def slices_read(calls: list[str], base: Path) -> set[str]:
    """The partitions of the files of rows that were opened."""
    opened = (call.removeprefix("open_input ") for call in calls if call.startswith("open_input "))
    below = (path.removeprefix(f"{base}/") for path in opened if path.startswith(f"{base}/"))
    return {path.partition("/")[0] for path in below if not path.startswith(".hoodie")}


def all_calls(base: Path) -> list[str]:
    storage = FaultyStorage()
    build(base, storage)
    return storage.calls


def stopped_before_it_is_there(base: Path, unharmed: Path) -> None:
    """All is read, and the index has nothing yet."""
    calls = all_calls(unharmed)
    last = next(number for number, call in enumerate(calls) if call.startswith("create") and "manifest-" in call)
    with pytest.raises(Killed):
        build(base, FaultyStorage(Fault(FaultKind.KILL, last - 1)))
    assert len(list(build_folder(base).glob("*.keys"))) == 3


def test_a_later_snapshot(prepared: Callable[[str], Path]) -> None:
    """A slice that was written to since is read again, and a new one; what the table has no more counts for nothing."""
    base = prepared("t")
    stopped_before_it_is_there(base, prepared("unharmed"))
    write(base, [("k3", 3, "b", None)], "delete")
    write(base, [("k5", 3, "d", "x")])
    write(base, (), "delete_partition", partitions=["c"])
    again = FaultyStorage()
    done = build(base, again)
    assert (done.groups, done.entries, done.resumed) == (3, 2, 1)
    assert slices_read(again.calls, base) == {"b", "d"}
    assert places(opened(base, STORAGE, scan(base)), KEYS) == truth(base) != []


def test_a_broken_checkpoint(prepared: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 3 of services/indexing/run/index_build: it is made again, and only it; where each one is broken, the build
    is given up, and the index has nothing."""
    base = prepared("t")
    stopped_before_it_is_there(base, prepared("unharmed"))
    broken = sorted(build_folder(base).glob("*.keys"))[1]
    data = broken.read_bytes()
    broken.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    again = FaultyStorage()
    done = build(base, again)
    assert (done.groups, done.entries, done.resumed) == (3, 3, 2)
    assert len(slices_read(again.calls, base)) == 1
    assert places(opened(base, STORAGE, scan(base)), KEYS) == truth(base)

    base = prepared("other")
    monkeypatch.setattr("lakeward.engine.task.key_checkpoint.write_keys", lambda sink, keys: sink.write(b"no keys"))
    with pytest.raises(TryLater, match="is broken"):
        build(base)
    assert opened(base, STORAGE, scan(base)).indexed() == Indexed()


def test_an_update_looks_at_the_table_twice(prepared: Callable[[str], Path]) -> None:
    """Once for what completed, and once for what is settled by it."""
    base = prepared("t")
    build(base)
    write(base, [("k5", 3, "c", "x")])
    looks: list[TableSnapshot] = []

    def take() -> TableSnapshot:
        looks.append(scan(base))
        return looks[-1]

    done = update_and_tidy(STORAGE, partial(opened, base, STORAGE), take)
    assert (len(done.commits), len(looks)) == (1, 2)
    assert places(opened(base, STORAGE, scan(base)), KEYS) == truth(base)
