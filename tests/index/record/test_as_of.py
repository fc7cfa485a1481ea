"""Lookups as of an earlier commit, in tables whose file groups were replaced since."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import Refused, UsageError
from lakeward.index.record.as_of import locations_as_of
from lakeward.index.record.record_index import RecordIndex
from lakeward.index.record.record_options import RecordOptions
from lakeward.protocol.index.record_index_writer import RecordIndexWriter
from lakeward.services.indexing.run.index_build import build_index, update_and_tidy
from lakeward.storage.local import LocalStorage
from lakeward.table.snapshot import TableSnapshot
from tests.index.builds import in_process
from tests.index.following import truth
from tests.index.record.reopened_record_index import new_record_index
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()
KEYS = pa.array(["k1", "k2", "k3", "k4"])


def opened(base: Path, snapshot: TableSnapshot) -> RecordIndexWriter:
    return RecordIndexWriter.of(STORAGE, snapshot, RecordOptions().folder(str(base)))


def found(base: Path, instant: str) -> list[tuple[str, str, str]]:
    snapshot = scan(base)
    index = RecordIndex.of(STORAGE, snapshot, RecordOptions().folder(str(base)))
    rows = locations_as_of(STORAGE, snapshot, index, KEYS, instant).select([0, 1, 2])
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_file_groups_that_were_replaced(tmp_path: Path) -> None:
    """A key is in the file group that it was in then, also where that was replaced since, and not before it came there;
    a file group of which nothing says when it went makes the answer refused. Keeps of index/record/as_of."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "q", "a")])
    new_record_index(Path(RecordOptions().folder(str(base))), buckets=2)
    build_index(STORAGE, partial(opened, base), lambda: scan(base), in_process(base))
    first = write(base, [("k3", 2, "p", "a")]).instant
    before = truth(base)
    update_and_tidy(STORAGE, partial(opened, base), lambda: scan(base))
    second = write(base, [("k1", 3, "p", "b"), ("k4", 3, "p", "b")], "insert_overwrite").instant
    after = truth(base)
    update_and_tidy(STORAGE, partial(opened, base), lambda: scan(base))

    assert [key for key, _ in before] == ["k1", "k2", "k3"] and [key for key, _ in after] == ["k1", "k2", "k4"]
    assert found(base, first) == [(key, *place) for key, place in before]
    assert found(base, second) == [(key, *place) for key, place in after]
    with pytest.raises(UsageError, match="No write of the instant"):
        found(base, "20200101000000000")

    forgotten = replace(scan(base), replaced={})
    index = RecordIndex.of(STORAGE, forgotten, RecordOptions().folder(str(base)))
    with pytest.raises(Refused, match="It is no longer known where keys were"):
        locations_as_of(STORAGE, forgotten, index, KEYS, first)


def test_commits_that_were_taken_in_late(tmp_path: Path) -> None:
    """What came of a commit when its file group had been replaced already is not known: as of it the answer is refused,
    with the moments that can be known, and no key is missing without a word. Keeps of index/record/as_of."""
    base = new_table(tmp_path / "t")
    write(base, [("k1", 1, "p", "a"), ("k2", 1, "q", "a")])
    new_record_index(Path(RecordOptions().folder(str(base))), buckets=2)
    build_index(STORAGE, partial(opened, base), lambda: scan(base), in_process(base))
    built = scan(base).timeline.completed_writes[-1].time
    first = write(base, [("k3", 2, "p", "a")]).instant
    second = write(base, [("k1", 3, "p", "b"), ("k4", 3, "p", "b")], "insert_overwrite").instant
    update_and_tidy(STORAGE, partial(opened, base), lambda: scan(base))

    assert [row[0] for row in found(base, built)] == ["k1", "k2"]
    assert [row[0] for row in found(base, second)] == ["k1", "k2", "k4"]
    with pytest.raises(Refused, match="does not know any more") as refused:
        found(base, first)
    assert str(scan(base).timeline.completion_time(second)) in refused.value.remedy
