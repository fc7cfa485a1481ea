"""Two indexes that are asked for the same keys: what is equal, what is wrong with which, and what it took."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.index.location import FILE_ID, PARTITION_PATH, RECORD_KEY
from lakeward.index.simple import SimpleIndex
from lakeward.services.indexing.judge.comparison import (
    Answers,
    ComparedIndex,
    Comparison,
    compare_indexes,
    draw_keys,
    given_keys,
)
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.index.table_index import TableIndex
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three rows in two groups; a fourth was deleted in a log."""
    table = new_table(tmp_path / "table")
    write(table, [(key, 1, "a", "x") for key in ("k1", "k2", "k3")])
    write(table, [("k4", 1, "b", "x")])
    write(table, [("k2", 2, "a", None)], "delete")
    return table


def compared(snapshot: TableSnapshot, first: object, second: object, asked: object) -> Comparison:
    both = [ComparedIndex(name, lambda storage, of=of: of) for name, of in (("one", first), ("other", second))]
    return compare_indexes(STORAGE, snapshot, *both, asked, clock=SkippingClock())  # type: ignore[arg-type]


def judged(index: Answers) -> tuple[int, int]:
    return index.judged.false.num_rows, index.judged.missed.num_rows


def test_each_answer_is_judged_by_the_rows(table: Path) -> None:
    """The simple index still finds k2, which a log deleted; the other has k3 nowhere and k1 in a group that has it not:
    so the former has one false location, and the latter one, and misses two rows."""
    snapshot = scan(table)
    rows = sample_rows(STORAGE, snapshot, 100, 0, with_logs=True).rows.sort_by(RECORD_KEY)
    k1, _, k4 = rows.to_pylist()
    wrong = pa.Table.from_pylist([k4, k4 | {RECORD_KEY: "k1"}], rows.schema)

    found = compared(
        snapshot,
        SimpleIndex.of(snapshot),
        TableIndex.of(wrong),
        given_keys(pa.array(["k1", "k2", "k3", "k4", "k5"]), absent=2),
    )
    a, b = ((row[PARTITION_PATH], row[FILE_ID]) for row in (k1, k4))
    assert [(each.key, each.first, each.second, each.rows) for each in found.differences] == [
        ("k1", (a,), (b,), (a,)),
        ("k2", (a,), (), ()),
        ("k3", (a,), (), (a,)),
    ]
    assert (found.keys, found.absent, found.equal, found.differing) == (7, 2, 4, 3)
    first, second = found.first, found.second
    assert (first.keys_found, first.locations, *judged(first)) == (4, 4, 1, 0)
    assert (second.keys_found, second.locations, *judged(second)) == (2, 2, 1, 2)
    assert first.files_opened == 2 and first.bytes_read > 0 == second.bytes_read == second.files_opened


def test_made_up_keys_are_in_no_row(table: Path) -> None:
    """Keeps of services/indexing/judge/comparison: a seed asks for the same keys again. An index that finds a key that
    was made up has a false location for it, also where the other says the same; and of keys that are drawn a miss of
    both shows."""
    snapshot = scan(table)
    asked = draw_keys(STORAGE, snapshot, number=10, absent=1, seed=3)
    assert asked.keys.equals(draw_keys(STORAGE, snapshot, number=10, absent=1, seed=3).keys)
    (made_up,) = asked.absent.to_pylist()
    assert (len(asked.keys), made_up[2:]) == (4, "~absent")
    stale = asked.rows.slice(0, 1).set_column(0, asked.rows.schema.field(0), asked.absent)
    found = compared(snapshot, TableIndex.of(stale), TableIndex.of(stale), asked)
    assert (found.equal, found.differing, found.differences) == (4, 0, ())
    assert judged(found.second) == (1, 3)
    assert judged(found.first) == (1, 3)
