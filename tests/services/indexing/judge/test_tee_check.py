"""The shadow of a tee held against its primary: which commits it was right of."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import Unsupported
from lakeward.index.location import RECORD_KEY
from lakeward.index.simple import SimpleIndex
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.services.indexing.judge.tee_check import TeeCheck, TeeMoment, check_tee
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.index.table_index import TableIndex
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


def by_rows(snapshot: TableSnapshot, *, without: tuple[str, ...] = ()) -> TableIndex:
    """What is right, but for these keys."""
    rows = sample_rows(STORAGE, snapshot, 1000, 0, with_logs=True).rows
    kept = [row for row in rows.to_pylist() if row[RECORD_KEY] not in without]
    return TableIndex.of(type(rows).from_pylist(kept, rows.schema))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three commits: two rows come, one of them is written over and another one comes, one goes."""
    table = new_table(tmp_path / "table", table_type="COPY_ON_WRITE")
    write(table, [("k1", 1, "a", "x"), ("k2", 1, "a", "x")])
    write(table, [("k2", 2, "a", "y"), ("k3", 2, "b", "y")])
    write(table, [("k3", 3, "b", None)], "delete")
    return table


def checked(table: Path, *without: tuple[str, ...], after: str | None = None, rows: int = 10) -> TeeCheck:
    """The shadow lacks these keys, at the first moment those of the first group, and so on."""
    moments = iter(without)
    last: tuple[str, ...] = ()

    def moment_now() -> TeeMoment:
        nonlocal last
        snapshot, last = scan(table), next(moments, last)
        return TeeMoment(snapshot, SimpleIndex.of(snapshot), by_rows(snapshot, without=last))

    return check_tee(STORAGE, moment_now, after=after, seed=0, clock=SkippingClock(), rows=rows)


def test_each_commit_is_judged(table: Path) -> None:
    """Keeps 1 and 2 of services/indexing/judge/tee_check: a commit of whose keys the shadow lacks one is not clean,
    also of those that it wrote over in place; the others are. They come in order, from the given time on."""
    clean = checked(table)
    completed = [each.completed for each in clean.commits]
    assert [each.is_clean for each in clean.commits] == [True, True, True]
    assert completed == sorted(completed) and clean.left == 0 and clean.differences == ()
    assert [each.keys for each in clean.commits] == [2, 3, 1]
    assert [each.completed for each in checked(table, after=completed[1]).commits] == completed[2:]

    wrong = checked(table, ("k1",))
    assert [each.shadow_wrong for each in wrong.commits] == [1, 1, 0], "the second wrote k1 over"
    assert {each.key for each in wrong.differences} == {"k1"}


def test_a_step_of_a_writer_is_no_fault(table: Path) -> None:
    """What the shadow lacks at one moment and has at the next is not held against it; what it lacks still is, also
    where the primary lacks it, too."""
    assert all(each.is_clean for each in checked(table, ("k1", "k2"), ()).commits)
    assert not checked(table, ("k1",), ("k1",)).commits[0].is_clean

    def both_without() -> TeeMoment:
        snapshot = scan(table)
        index = by_rows(snapshot, without=("k1",))
        return TeeMoment(snapshot, index, index)

    found = check_tee(STORAGE, both_without, after=None, seed=0, clock=SkippingClock())
    assert [(each.shadow_wrong, each.primary_wrong) for each in found.commits] == [(1, 1), (1, 1), (0, 0)]


def test_what_no_row_can_decide_is_not_clean(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of services/indexing/judge/tee_check, Keeps of index/placed_keys: where the answers
    differ and the file group cannot be read, the commit is refused by name; it counted as clean."""

    def unsupported(*given: object, **words: object) -> None:
        raise Unsupported("The log is of another kind.", why="It is.")

    monkeypatch.setattr("lakeward.index.placed_keys.find_rows", unsupported)
    assert all(each.is_clean for each in checked(table, rows=0).commits)
    with pytest.raises(Unsupported) as raised:
        checked(table, ("k1",), rows=0)
    (first, *_) = sorted(each.time for each in scan(table).timeline.completed_writes)
    assert raised.value.what == (
        f"The commit {first} cannot be compared: of 1 keys the indexes say different things, and no row can decide."
    )
    assert raised.value.why == "The log is of another kind. It is."
