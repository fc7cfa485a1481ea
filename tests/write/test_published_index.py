"""A write and its index are published together: what the index has of it counts with the commit, and never without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeward.base.errors import Conflict, Refused, StoreUnavailable
from lakeward.index.index_type import IndexType
from lakeward.index.overlay import current_index
from lakeward.services.together.restore.run.restore import restore
from lakeward.storage.local import LocalStorage
from lakeward.table.new_table import NewIndex, NewIndexes
from lakeward.write.own_index import OwnIndexPart
from lakeward.write.request import FileSizes
from tests.crash.compacting import compact
from tests.crash.metadata_compacting import check_agrees
from tests.faults import FaultyStorage
from tests.index.external.memory_entries import MemoryEntries
from tests.index.following import places, truth
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import serviced_table
from tests.write.own_index import build, catch_up, located, located_alone, opened, opener
from tests.write.test_whole_write import CLOCK, write_while
from tests.write.writing import Row, new_table, rows_of, values, write

KEYS = [f"k{number}" for number in range(10)]
FIRST: list[Row] = [("k1", 1, "p", "a"), ("k2", 1, "p", "a"), ("k3", 1, "q", "a")]
NOTHING_SMALL = FileSizes(small_file=0)


@pytest.fixture(params=["MERGE_ON_READ", "COPY_ON_WRITE"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    table = new_table(tmp_path / "t", table_type=request.param)
    write(table, FIRST, clock=CLOCK)
    return table


@pytest.fixture
def entries(base: Path) -> MemoryEntries:
    """A global one that has the table."""
    store = MemoryEntries(is_global=True)
    build(base, store)
    return store


def write_by(base: Path, entries: MemoryEntries, rows: Any, operation: str = "upsert", **request: Any) -> str:
    by = {"index": IndexType.POSTGRES, "open_index": opener(entries), "clock": CLOCK, "sizes": NOTHING_SMALL}
    return write(base, rows, operation, **(by | request)).instant


@pytest.mark.parametrize(
    ("rows", "operation", "request_"),
    [
        ([("k1", 2, "p", "b"), ("k4", 2, "p", "b")], "upsert", {"sizes": FileSizes()}),
        ([("k1", 2, "p", "b"), ("k4", 2, "r", "b")], "upsert", {}),
        ([("k1", 2, "q", "b"), ("k3", 2, "p", "b")], "upsert", {"moves_rows": True}),
        ([("k1", 2, "p", "b"), ("k9", 2, "p", "b")], "delete", {}),
        ([("k5", 2, "p", "b")], "insert", {}),
        ([("k5", 2, "p", "b"), ("k6", 2, "s", "b")], "bulk_insert", {}),
        ([("k1", 2, "p", "b"), ("k5", 2, "p", "b")], "insert_overwrite", {}),
        ([("k5", 2, "s", "b")], "insert_overwrite_table", {}),
        ([], "delete_partition", {"partitions": ("p",)}),
    ],
)
def test_the_index_has_the_commit(
    base: Path, entries: MemoryEntries, rows: list[Row], operation: str, request_: dict[str, Any]
) -> None:
    """After each operation the index alone says where the keys are: nothing of the commit is read again. Keeps 1 of
    write/own_index."""
    instant = write_by(base, entries, rows_of(rows), operation, **request_)
    assert instant in opened(entries, scan(base)).indexed().instants
    assert located_alone(base, entries, KEYS) == truth(base)
    catch_up(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)


def test_entries_are_there_before_the_commit(base: Path, entries: MemoryEntries) -> None:
    """When the first file of a commit becomes visible the index has all of it, and it does not count yet. Keeps 1 of
    write/own_index."""
    before = located_alone(base, entries, KEYS)
    seen = []

    class Looking(FaultyStorage):
        def call(self, name: str, path: str, act: Callable[[], Any], tear: Any = None) -> Any:
            if name in ("move", "link") and "/.hoodie" not in path:
                _, unsettled = entries.commits()
                seen.append((located(base, entries, KEYS), len(unsettled)))
            return super().call(name, path, act, tear)

        _call = call

    write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")], storage=Looking())
    assert seen[0] == (before, 1)
    assert located_alone(base, entries, KEYS) == truth(base) != before


def test_a_write_that_meets_another_one(base: Path, entries: MemoryEntries) -> None:
    """The index forgets the try that failed, and has the next one. Keeps 2 of write/own_index."""

    def other(number: int) -> Callable[[], object]:
        rows: list[Row] = [("k1", 2, "p", f"{number}")]
        return lambda: write(base, rows, options={"writers_stopped": False}, clock=CLOCK)

    by: dict[str, Any] = {"index": IndexType.POSTGRES, "open_index": opener(entries)}
    if scan(base).config.is_merge_on_read:
        by["sizes"] = FileSizes()
    before = entries.commits()
    with pytest.raises(Conflict):
        write_while(base, [("k1", 3, "p", "own"), ("k5", 3, "p", "own")], other(1), **by)
    assert entries.commits() == before and not entries.begun_beside_others()
    assert write_while(base, [("k1", 3, "p", "own"), ("k5", 3, "p", "own")], other(2), retries=1, **by) == 2
    assert len(entries.commits()[1]) == 1
    assert located(base, entries, KEYS) == truth(base)
    assert values(read_rows(base))["k5"] == "own"


def test_an_index_that_fails(base: Path, entries: MemoryEntries, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the write fails, and nothing of it is left, neither in the table nor, once it answers again, in the
    index."""

    def away(*_: object) -> None:
        raise StoreUnavailable("The database is away.")

    before = read_rows(base), entries.commits()
    with monkeypatch.context() as patched:
        patched.setattr(entries, "finish", away)
        with pytest.raises(StoreUnavailable):
            write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")])
    assert (read_rows(base), entries.commits()) == before
    assert scan(base).timeline.pending == () and not entries.begun_beside_others()
    with monkeypatch.context() as patched:
        for name in ("finish", "forget"):
            patched.setattr(entries, name, away)
        with pytest.raises(StoreUnavailable) as failed:
            write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")])
    assert "lakeward index update" in "".join(failed.value.__notes__)
    write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")])
    assert entries.begun_beside_others()
    catch_up(base, entries)
    assert not entries.begun_beside_others()
    assert located_alone(base, entries, KEYS) == truth(base)


def test_an_index_that_is_not_built(base: Path) -> None:
    """It learns of no write, since its build would be refused, and has all once it is built."""
    entries = MemoryEntries(is_global=True)
    write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")])
    assert entries.commits() == (None, {})
    assert located(base, entries, KEYS) == truth(base)
    build(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)


def test_a_commit_that_the_index_lacks_came_before(base: Path, entries: MemoryEntries) -> None:
    """Another writer adds k4, and puts k2 away; a write by the index, which covers that, takes k4 away and brings k2.
    What the index has is the later one, whichever is taken in first."""
    write(base, [("k4", 2, "p", "hudis")], sizes=NOTHING_SMALL, clock=CLOCK)
    write(base, [("k2", 2, "p", "hudis")], "delete", clock=CLOCK)
    write_by(base, entries, [("k4", 3, "p", "gone")], "delete")
    own = write_by(base, entries, [("k2", 3, "r", "own")])
    assert "k4" not in dict(truth(base)) and dict(truth(base))["k2"][0] == "r"

    assert located(base, entries, KEYS) == truth(base)
    catch_up(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)
    assert own in opened(entries, scan(base)).indexed().instants


def test_what_went_before_a_commit_that_is_undone(base: Path, entries: MemoryEntries) -> None:
    """Another writer takes k1 away; a write by the index brings it back elsewhere; then the index takes in the former,
    and the latter is undone: k1 is nowhere again. Keeps 2 of services/indexing/run/index_update."""
    hudis = write(base, [("k1", 2, "p", "hudis")], "delete", clock=CLOCK).instant
    write_by(base, entries, [("k1", 3, "r", "own")])
    catch_up(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)
    table = replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), clock=CLOCK)
    restore(table, hudis)
    assert "k1" not in dict(truth(base))
    assert located(base, entries, KEYS) == truth(base)
    catch_up(base, entries)
    assert located_alone(base, entries, KEYS) == truth(base)


def test_a_compaction_between_two_writes(tmp_path: Path) -> None:
    """The index lacks it, and it moved no key: what came since is not read again."""
    base = new_table(tmp_path / "t", ordering_fields=())
    write(base, FIRST, clock=CLOCK)
    entries = MemoryEntries(is_global=True)
    build(base, entries)
    write_by(base, entries, [("k1", 2, "p", "b")])
    compact(base, FaultyStorage(), ScriptedProcesses(), clock=CLOCK)
    compacted = sum(each.base_bytes for each in scan(base).latest_slices)
    write_by(base, entries, [("k1", 3, "p", "c"), ("k4", 3, "p", "c")])
    snapshot = scan(base)
    index = current_index(LocalStorage(), snapshot, opened(entries, snapshot), bytes_max=compacted)
    assert places(index, KEYS) == truth(base)


@pytest.mark.parametrize("is_global", [True, False])
def test_a_delete_that_loses(tmp_path: Path, is_global: bool) -> None:
    """A delete with a smaller ordering value changes nothing by event time; the index must not take it for one that
    took the key away. By an index of a partition it is given nothing of such a write. Keeps 3 of write/own_index."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 5, "p", "a"), ("k2", 5, "p", "a")], clock=CLOCK)
    entries = MemoryEntries(is_global=is_global)
    build(base, entries)
    rows = rows_of([("k1", 4, "p", "late"), ("k2", 6, "p", "later")])
    write_by(base, entries, rows.append_column("_hoodie_is_deleted", pa.array([True, True])))
    assert dict(truth(base)).keys() == {"k1"}
    assert located(base, entries, KEYS) == truth(base)
    assert len(entries.commits()[1]) == is_global


def test_a_table_with_both(tmp_path: Path) -> None:
    """A record index in the metadata table is kept beside the index that the write uses, and by a write that uses
    none of both too."""
    base = new_table(tmp_path / "t", indexes=NewIndexes(finds_keys=NewIndex.METADATA))
    write(base, FIRST, index=IndexType.METADATA, clock=CLOCK)
    entries = MemoryEntries(is_global=True)
    build(base, entries)
    write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "r", "b")])
    check_agrees(base)
    assert located_alone(base, entries, KEYS) == truth(base)


def test_what_is_forgotten(base: Path, entries: MemoryEntries) -> None:
    """A write that failed is forgotten if its instant is nowhere on the timeline; not while it is pending, for another
    process may complete it, and not if it is complete. Keeps 2 of write/own_index."""
    done = write_by(base, entries, [("k4", 2, "r", "b")])
    timeline = scan(base).timeline
    (instant,) = [each for each in timeline.instants if each.time == done and each.completion_time is not None]
    pending = replace(timeline, instants=tuple(each for each in timeline.instants if each is not instant))
    nowhere = timeline.without([done])
    part = OwnIndexPart(lambda: opened(entries, scan(base)), done)
    part.enter(LocalStorage(), [], undone=[], knows_its_keys=lambda index: True)
    for shown, is_kept in ((timeline, True), (pending, True), (nowhere, False)):
        part.withdraw(Conflict("It met another one."), lambda shown=shown: shown)
        assert (done in entries.commits()[1]) == is_kept


def test_an_index_beside_the_one_that_a_write_goes_by(base: Path, entries: MemoryEntries) -> None:
    """The shadow of a tee learns of the write with its commit, unless by the write's own index it cannot be known what
    came back. One that fails is behind, which lookups cover, and the write goes on."""
    shadow = MemoryEntries(is_global=True)
    build(base, shadow)
    write_by(base, entries, [("k1", 2, "p", "b"), ("k4", 2, "p", "b")], shadow=opener(shadow))
    for each in (entries, shadow):
        assert [key for key, _ in located_alone(base, each, KEYS)] == ["k1", "k2", "k3", "k4"]
    write(base, [("k5", 3, "p", "c")], index=IndexType.GLOBAL_SIMPLE, shadow=opener(shadow), clock=CLOCK)
    if scan(base).config.is_merge_on_read:
        with pytest.raises(Refused, match="does not have yet"):
            located_alone(base, shadow, KEYS)
    else:
        assert ("k5" in dict(located_alone(base, shadow, KEYS))) is True

    def away(snapshot: object) -> Any:
        raise StoreUnavailable("The database is away.")

    catch_up(base, entries)
    write_by(base, entries, [("k6", 4, "p", "d")], shadow=away)
    assert "k6" in values(read_rows(base)) and "k6" in dict(located_alone(base, entries, KEYS))
    assert dict(located(base, shadow, KEYS)).keys() == {f"k{number}" for number in range(1, 7)}


def test_a_failed_write_is_forgotten_by_both(base: Path, entries: MemoryEntries) -> None:
    """Keeps 2 of write/own_index holds of the shadow, too."""
    shadow = MemoryEntries(is_global=True)
    build(base, shadow)
    before = [each.indexed() for each in (opened(entries, scan(base)), opened(shadow, scan(base)))]
    with pytest.raises(Conflict):
        write_while(
            base,
            [("k1", 2, "p", "b"), ("k4", 2, "p", "b")],
            lambda: write(base, [("k1", 3, "p", "c")], clock=CLOCK),
            index=IndexType.POSTGRES,
            open_index=opener(entries),
            shadow=opener(shadow),
        )
    assert [each.indexed() for each in (opened(entries, scan(base)), opened(shadow, scan(base)))] == before
