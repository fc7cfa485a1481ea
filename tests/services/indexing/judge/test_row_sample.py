"""Rows that are drawn: each as likely as any other, whatever file has it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from lakeward.index.location import RECORD_KEY
from lakeward.services.indexing.judge.row_sample import sample_rows
from lakeward.storage.local import LocalStorage
from tests.our_reader import scan
from tests.write.writing import new_table, write

STORAGE = LocalStorage()


@pytest.mark.slow
def test_rows_of_small_files_and_of_logs_are_as_likely(tmp_path: Path) -> None:
    """Keeps of services/indexing/judge/row_sample: a seed gives its rows again. In many samples the rows of a file with
    two, of one with thirty and of logs come as often as their share says."""
    table = new_table(tmp_path / "table")
    write(table, [(f"a{at:02}", 1, "a", None) for at in range(30)])
    write(table, [(f"b{at}", 1, "b", None) for at in range(2)])
    write(table, [(f"c{at}", 1, "c", None) for at in range(8)])
    write(table, [("c0", 2, "c", "updated")])
    snapshot, drawn = scan(table), Counter[str]()
    for seed in range(400):
        sample = sample_rows(STORAGE, snapshot, 4, seed, with_logs=True)
        assert (sample.rows.num_rows, sample.of) == (4, 40)
        drawn.update(sample.rows.column(RECORD_KEY).to_pylist())
    again = sample_rows(STORAGE, snapshot, 4, 17, with_logs=True).rows
    assert again.equals(sample_rows(STORAGE, snapshot, 4, 17, with_logs=True).rows)
    assert len(drawn) == 40 and min(drawn.values()) >= 15 and max(drawn.values()) <= 70
    some = [sample_rows(STORAGE, snapshot, 100, seed, with_logs=True, merged_bytes_max=1) for seed in range(2)]
    assert [(each.of, each.notes) for each in some] == [
        (32, ("1 file slices with logs were left for another time.",))
    ] * 2
    assert sample_rows(STORAGE, snapshot, 100, 0, with_logs=True, merged_bytes_max=10**9).notes == ()
    every = sample_rows(STORAGE, snapshot, 100, 0, with_logs=False)
    assert (every.rows.num_rows, every.of) == (40, 40)
