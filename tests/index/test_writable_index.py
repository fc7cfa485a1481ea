"""The laws that every index of Lakeward keeps, whatever it is stored in: each implementation of the port joins `MADE`,
and one that needs a service `made`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import NotFound
from lakeward.index.index import Indexed, WritableIndex, record_locations
from lakeward.index.location import LOCATIONS
from lakeward.state.engine import open_database
from lakeward.state.index_entries import create_entries
from lakeward.storage.local import LocalStorage
from tests.index.external.memory_entries import MemoryEntries
from tests.index.external.reopened_index import ReopenedIndex
from tests.index.memory_index import CompletionTimes, MemoryIndex
from tests.index.record.reopened_record_index import ReopenedRecordIndex, new_record_index

STORAGE = LocalStorage()
G, H = ("p", "g-0"), ("q", "h-0")
GONE = None

Made = Callable[[Path, bool, CompletionTimes], WritableIndex]
"""(an empty folder, is it global, what the table's timelines say) -> an empty index."""


def in_folder(path: Path, is_global: bool, times: CompletionTimes, *, buckets: int | None) -> ReopenedRecordIndex:
    new_record_index(path / "record", is_global=is_global, buckets=buckets)
    return ReopenedRecordIndex(path / "record", times)


MADE: dict[str, Made] = {
    "memory": lambda _, is_global, times: MemoryIndex(times, is_global),
    "record": lambda path, is_global, times: in_folder(path, is_global, times, buckets=3),
    "record, as it comes": lambda path, is_global, times: in_folder(path, is_global, times, buckets=None),
    "entries": lambda _, is_global, times: ReopenedIndex(MemoryEntries(is_global=is_global), times, [G, H]),
}


@dataclass
class Timelines:
    """What the table says of its commits: they complete at their instants, unless something else is said."""

    completed: dict[str, str] = field(default_factory=dict)
    without: set[str] = field(default_factory=set)

    def times(self, instants: Collection[str]) -> Mapping[str, str]:
        return {each: self.completed.get(each, each) for each in instants if each not in self.without}


@pytest.fixture
def timelines() -> Timelines:
    return Timelines()


@pytest.fixture(params=[*sorted(MADE), pytest.param("postgresql", marks=pytest.mark.services)])
def made(request: pytest.FixtureRequest) -> Iterator[Made]:
    """Makes an index of each implementation."""
    if request.param in MADE:
        yield MADE[request.param]
        return
    database = open_database(request.getfixturevalue("postgresql_url"))

    def in_database(_: Path, is_global: bool, times: CompletionTimes) -> WritableIndex:
        return ReopenedIndex(create_entries(database, "/lake/orders", "keys", is_global=is_global), times, [G, H])

    yield in_database
    database.close()


@pytest.fixture
def index(made: Made, tmp_path: Path, timelines: Timelines) -> WritableIndex:
    """A global one."""
    return made(tmp_path, True, timelines.times)


def changes(rows: Sequence[tuple[str, str | None, str | None]]) -> list[pa.RecordBatch]:
    """Key, partition path, file id, each in a batch of its own."""
    return [
        pa.RecordBatch.from_arrays([pa.array([each], pa.string()) for each in (*row, None)], schema=LOCATIONS)
        for row in rows
    ]


def put(index: WritableIndex, instant: str, **places: tuple[str, str] | None) -> None:
    """One commit, completed at its instant; keys that are gone are gone from partition p."""
    rows = [(key, *(place or ("p", None))) for key, place in places.items()]
    index.update(instant, changes(rows), completed=instant)


def found(index: WritableIndex, *keys: str, partitions: Collection[str] | None = None) -> list[tuple[Any, ...]]:
    """Key, partition path, file id and instant of each."""
    table = record_locations(STORAGE, index, pa.array(keys, pa.string()), partitions)
    return sorted(tuple(row[name] for name in LOCATIONS.names) for row in table.to_pylist())


def test_an_empty_index(index):
    """It has no commit and no key, and nothing that could be forgotten."""
    index.rollback("1")

    assert index.indexed() == Indexed()
    assert found(index, "a") == []


def test_latest_commit_wins(index, timelines):
    """It wins by the time at which commits complete, whatever their instants and the order in which they come."""
    timelines.completed = {"1": "2", "4": "7", "5": "6"}
    index.update("1", changes([("a", *G), ("b", *G), ("c", *G)]), completed="2")
    index.update("4", changes([("a", *H), ("b", *H)]), completed=None)
    index.update("5", changes([("a", *G)]), completed="6")

    assert found(index, "a", "b", "c", "d") == [("a", *H, "4"), ("b", *H, "4"), ("c", *G, "1")]


def test_tombstone(index):
    """A key that a commit took away is nowhere; it may be given without a partition."""
    put(index, "1", a=G, b=G, c=G)
    index.update("2", changes([("a", "p", None), ("c", None, None)]), completed="2")

    assert found(index, "a", "b", "c") == [("b", *G, "1")]


def test_a_key_comes_back_elsewhere(index):
    """A tombstone ends where a later commit locates the key."""
    put(index, "1", a=G)
    put(index, "2", a=GONE)
    put(index, "3", a=H)

    assert found(index, "a") == [("a", *H, "3")]


@pytest.mark.parametrize("gone_first", [True, False])
def test_moved_in_one_commit(index, gone_first):
    """A key that is gone in one batch of a commit and located in another is located, in whichever order they come."""
    put(index, "1", a=G)
    rows = [("a", "p", None), ("a", *H)]
    index.update("2", changes(rows if gone_first else rows[::-1]), completed="2")

    assert found(index, "a") == [("a", *H, "2")]


def test_rollback(index):
    """What the commit said is forgotten, and what was there before it is there again; twice does no harm."""
    put(index, "1", a=G, b=G)
    index.update("2", changes([("a", *H), ("b", "p", None), ("c", *H)]), completed=None)
    index.rollback("2")
    index.rollback("2")

    assert found(index, "a", "b", "c") == [("a", *G, "1"), ("b", *G, "1")]
    assert not index.indexed().has("2", "2")


def test_invalid_commit_is_ignored(index, timelines):
    """A commit that is not completed on the table's timelines says nothing, neither where keys are nor that they are
    gone."""
    put(index, "1", a=G, b=G)
    put(index, "2", a=H, b=GONE, c=H)
    timelines.without.add("2")

    assert found(index, "a", "b", "c") == [("a", *G, "1"), ("b", *G, "1")]

    timelines.without.add("1")
    assert found(index, "a") == []


def test_repeated_delete_is_empty(index):
    """Keys that are gone already are taken away once more: a commit like another, and nothing changes."""
    put(index, "1", a=G)
    put(index, "2", a=GONE)
    put(index, "3", a=GONE, z=GONE)
    index.update("4", [], completed="4")

    assert found(index, "a", "z") == []
    assert index.indexed().has("4", "4") and not index.indexed().has("5", "5")


def test_the_same_update_again(index):
    """A commit that comes twice, because its first time may have failed, is there once."""
    for _ in range(2):
        put(index, "1", a=G)

    assert found(index, "a") == [("a", *G, "1")]


def test_changes_that_fail(index):
    """A commit whose changes end with an error is not taken in, not even in part; it comes whole the next time."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield from changes([("a", *H), ("b", *H)])
        raise NotFound("A clean was faster.")

    put(index, "1", a=G)
    with pytest.raises(NotFound):
        index.update("2", broken(), completed="2")

    assert found(index, "a", "b") == [("a", *G, "1")] and not index.indexed().has("2", "2")
    put(index, "2", b=H)
    assert found(index, "a", "b") == [("a", *G, "1"), ("b", *H, "2")]


def test_what_is_indexed(index):
    """An index goes through the commits that come completed, and has others besides."""
    put(index, "1", a=G)
    index.update("3", changes([("b", *H)]), completed=None)

    assert index.indexed().through == "1"
    assert [index.indexed().has(each, each) for each in "0123"] == [True, True, False, True]


def test_a_key_in_each_partition(tmp_path, timelines, made):
    """A key has a place in each partition, and is gone from one of them, where the index is not global."""
    index = made(tmp_path, False, timelines.times)
    index.update("1", changes([("a", *G), ("a", *H), ("b", *G)]), completed="1")
    index.update("2", changes([("a", "p", None), ("b", "q", None)]), completed="2")

    assert found(index, "a", "b") == [("a", *H, "1"), ("b", *G, "1")]
    assert found(index, "a", "b", partitions=["p"]) == [("b", *G, "1")]


def test_keys_of_any_text(index):
    """Keys are compared whole: those that Java's hash makes equal, empty ones and those of other scripts; and they are
    listed."""
    keys = ["Aa", "BB", "", "é", "\U0001f600", "\uffff", "a" * 2000]
    index.update("1", changes([(key, *G) for key in keys]), completed="1")
    put(index, "2", Aa=GONE)

    assert [row[0] for row in found(index, *keys)] == sorted(set(keys) - {"Aa"})
    listed = [key for part in index.parts(None) for batch in index.look_up(STORAGE, part, None) for key in batch[0]]
    assert sorted(key.as_py() for key in listed) == sorted(set(keys) - {"Aa"})
