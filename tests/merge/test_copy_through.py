"""Which row groups no log touches, and where they come between the merged rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.format.parquet.base_file import ROW_GROUP_BYTES, ROW_GROUP_ROWS
from lakeward.format.parquet.stored_row_groups import StoredRowGroup
from lakeward.format.parquet.thrift_tree import Struct
from lakeward.merge.copy_through import check_keys, find_untouched, weave
from lakeward.merge.runs.sort_key import NotSorted


def group(
    index: int, smallest: str, largest: str, *, rows: int = ROW_GROUP_ROWS, size_bytes: int = 0
) -> StoredRowGroup:
    return StoredRowGroup(index, rows, size_bytes, smallest.encode(), largest.encode(), Struct({}))


def untouched(groups: Sequence[StoredRowGroup], logs: Sequence[str]) -> list[int]:
    keys = sorted(key.encode() for key in logs)
    return [
        found.index
        for found in find_untouched(
            groups, log_keys=len(keys), log_key=keys.__getitem__, row_group_bytes=ROW_GROUP_BYTES
        )
    ]


GROUPS = [group(0, "b", "d"), group(1, "f", "h"), group(2, "j", "l"), group(3, "n", "p")]


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ([], [0, 1, 2, 3]),
        (["a"], [1, 2, 3]),  # before the first
        (["c"], [1, 2, 3]),
        (["d"], [1, 2, 3]),
        (["e"], [1, 2, 3]),  # between: the one before
        (["f"], [0, 2, 3]),
        (["ezzz", "l"], [1, 3]),
        (["z"], [0, 1, 2]),
        (["a", "g", "k", "o"], []),
    ],
)
def test_each_log_key_touches_one_row_group(logs: list[str], expected: list[int]) -> None:
    """The one within whose keys it is, or after which it comes. Keeps 1 of merge/copy_through."""
    assert untouched(GROUPS, logs) == expected


def test_a_file_without_rows() -> None:
    """It has no row groups, and nothing is copied: all of its rows were deleted."""
    assert untouched([], ["a"]) == []


@given(
    st.lists(st.text("aé\U0001f600\uffff", max_size=3), min_size=1, max_size=12, unique=True),
    st.lists(st.text("aé\U0001f600\uffff", max_size=3), max_size=6),
    st.integers(1, 4),
)
def test_no_key_of_the_logs_is_copied(base: list[str], logs: list[str], rows: int) -> None:
    """The order is that of bytes, beyond ASCII too, and each row comes out once. Keeps 1, 2 of merge/copy_through."""
    keys = sorted(base, key=str.encode)
    parts = [keys[start : start + rows] for start in range(0, len(keys), rows)]
    groups = [group(index, part[0], part[-1]) for index, part in enumerate(parts)]
    log_keys = sorted({key.encode() for key in logs})
    copied = find_untouched(
        groups, log_keys=len(log_keys), log_key=log_keys.__getitem__, row_group_bytes=ROW_GROUP_BYTES
    )
    of_copied = {key for found in copied for key in parts[found.index]}
    assert not of_copied & set(logs)
    merged = sorted((set(base) - of_copied) | set(logs), key=str.encode)
    batches = [batch(merged[start : start + 2]) for start in range(0, len(merged), 2)]
    out: list[str] = []
    for part in weave(batches, copied, name="f"):
        out += parts[part.index] if isinstance(part, StoredRowGroup) else part.column(0).to_pylist()
    assert out == sorted(set(base) | set(logs), key=str.encode)


@pytest.mark.parametrize(
    "groups",
    [
        [group(0, "b", "d"), group(1, "d", "h")],
        [group(0, "b", "f"), group(1, "e", "h")],
        [group(0, "f", "h"), group(1, "b", "d")],
        [group(0, "d", "b")],
    ],
)
def test_ranges_that_do_not_ascend(groups: list[StoredRowGroup]) -> None:
    """Such a file is not sorted, whatever its footer says: nothing is copied. Keeps 2 of merge/copy_through."""
    assert untouched(groups, []) == []


def test_small_row_groups_are_merged() -> None:
    """With the one before them, so that they become one; wide rows are not few. Keeps 3 of merge/copy_through."""
    small = ROW_GROUP_ROWS // 4 - 1
    for index, expected in enumerate([[1, 2, 3], [2, 3], [0, 3], [0, 1]]):
        groups = [*GROUPS]
        of = groups[index]
        groups[index] = group(index, of.min_key.decode(), of.max_key.decode(), rows=small)
        assert untouched(groups, []) == expected
        groups[index] = group(
            index, of.min_key.decode(), of.max_key.decode(), rows=small, size_bytes=ROW_GROUP_BYTES // 4
        )
        assert untouched(groups, []) == [0, 1, 2, 3]


def batch(keys: list[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_hoodie_record_key": pa.array(keys, pa.string())})


@pytest.mark.parametrize("key", ["f", "g", "h"])
def test_a_merged_row_within_a_row_group_that_is_copied(key: str) -> None:
    """The base file is not what its footer says. Keeps 2 of merge/copy_through."""
    with pytest.raises(NotSorted, match="row group 1 say that it has the keys from 'f' to 'h'"):
        list(weave([batch(["a", key, "z"])], GROUPS[1:2], name="f"))


@pytest.mark.parametrize(
    "batches",
    [
        [["f", "g"], ["h", "x"]],
        [["f", "h"], ["g", "h"]],
        [["f", "f"], ["g", "h"]],
        [["f", "g"], ["g", "h"]],
        [["e", "f"], ["g", "h"]],
        [["f", "fa"], ["g", "ga"]],
        [["f", "g", "h"]],
        [],
    ],
)
def test_keys_that_are_not_what_the_row_group_says(batches: list[list[str]]) -> None:
    """They ascend, from its smallest to its greatest, one for each row. Keeps 2 of merge/copy_through."""
    of = group(1, "f", "h", rows=4)
    with pytest.raises(NotSorted):
        list(check_keys(iter([pa.array(keys) for keys in batches]), of, name="f"))


def test_keys_are_handed_on() -> None:
    """Only those of the row group are taken."""
    more = iter([pa.array(["f", "fa"]), pa.array(["g", "h"]), pa.array(["j"])])
    found = list(check_keys(more, group(1, "f", "h", rows=4), name="f"))
    assert [keys.to_pylist() for keys in found] == [["f", "fa"], ["g", "h"]]
    assert next(more).to_pylist() == ["j"]
