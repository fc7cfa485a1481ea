"""Record keys that several rows have: found whatever the number of keys, in their scope and in no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.index.repeated_keys import find_repeated_keys
from lakeward.storage.local import LocalStorage
from tests.our_reader import scan
from tests.write.writing import new_table, write


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two file groups in the partition p, and one in q."""
    base = new_table(tmp_path / "table")
    for turn in (1, 2):
        rows = [(f"k{number}", turn, "p", "a") for number in range(turn * 100, turn * 100 + 150)]
        write(base, rows, "bulk_insert")
    write(base, [("k1", 1, "q", "a"), ("k120", 1, "q", "a")], "bulk_insert")
    return base


@pytest.mark.parametrize("memory_bytes", [1 << 12, 1 << 26], ids=["spilled", "in memory"])
def test_a_key_of_two_file_groups(base: Path, memory_bytes: int) -> None:
    """Keys that both file groups of a partition have are counted; what another partition has is another row, where no
    index says that a key is one in the table."""
    found = find_repeated_keys(LocalStorage(), scan(base), most=3, memory_bytes=memory_bytes)

    assert (found.rows, found.keys) == (302, 50)
    groups = {(group.partition_path, group.file_id) for group in scan(base).file_groups}
    in_p = {group for group in groups if group[0] == "p"}
    assert [key for key, _ in found.first] == ["k200", "k201", "k202"]
    assert all(set(of) == in_p and len(of) == 2 for _, of in found.first)


def test_what_was_deleted_is_no_row(base: Path) -> None:
    """Only rows that a query finds count."""
    write(base, [(f"k{number}", 9, "p", None) for number in range(200, 250)], "delete")

    found = find_repeated_keys(LocalStorage(), scan(base), most=3)
    assert (found.rows, found.keys) == (202, 0)


def test_a_table_without_rows(tmp_path: Path) -> None:
    """There is none."""
    found = find_repeated_keys(LocalStorage(), scan(new_table(tmp_path / "table")), most=3)
    assert (found.rows, found.keys, found.first) == (0, 0, ())
