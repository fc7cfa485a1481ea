"""Whether a base file is sorted, by its keys alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.engine.task.order_check import OrderCheck, check_order
from lakeward.format.parquet.base_file import open_base_file
from lakeward.read import slice_scan
from lakeward.storage.local import LocalStorage

NAME = "f-0_0-1-0_20261121050000000.parquet"


def is_sorted(folder: Path, keys: list[str | None], *, rows_of_group: int = 1_000_000) -> bool:
    table = pa.table({"_hoodie_record_key": pa.array(keys, pa.string()), "v": [b"x"] * len(keys)})
    pq.write_table(table, folder / NAME, row_group_size=rows_of_group)
    found = check_order(LocalStorage(), OrderCheck(str(folder), NAME), 0)
    assert found.repeated in (None, "b") and not (found.is_sorted and found.repeated)
    return found.is_sorted


@pytest.mark.parametrize(
    ("keys", "due"),
    [
        ([], True),
        (["a"], True),
        (["", "a", "aa", "b"], True),
        (["a", "b", "b", "c"], False),
        (["a", "c", "b"], False),
        (["10", "2", "9"], True),
        (["Z", "a", "z", "é", "\uffee", "\U00010000"], True),  # by UTF-16, as Java has it, the last two stand otherwise
        (["\U00010000", "\uffee"], False),
    ],
)
def test_the_order_of_bytes(keys: list[str | None], due: bool, tmp_path: Path) -> None:
    """Keeps 1 of engine/task/order_check: strictly ascending UTF-8 bytes, within row groups and from one to the
    next."""
    for rows in (1_000_000, 2, 1):
        assert is_sorted(tmp_path, keys, rows_of_group=rows) is due


def test_what_has_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 1 of engine/task/order_check: a row without a key, and a file of which fewer rows are read than it has, are
    no sorted file, but a broken one."""
    with pytest.raises(BrokenFile, match="key"):
        is_sorted(tmp_path, ["a", None])
    monkeypatch.setattr(
        slice_scan, "open_base_file", lambda *args, **more: [b.slice(1) for b in open_base_file(*args, **more)]
    )
    with pytest.raises(BrokenFile, match="2 keys were read, its footer counts 3"):
        is_sorted(tmp_path, ["a", "b", "c"])


def test_no_more_is_read_than_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps 2 of engine/task/order_check: the second of three row groups is out of order, and the third stays
    unread."""
    read = 0

    def counted(*args: object, **more: object) -> object:
        nonlocal read
        for batch in open_base_file(*args, **more):  # type: ignore[arg-type]
            read += 1
            yield batch

    monkeypatch.setattr(slice_scan, "open_base_file", counted)
    assert not is_sorted(tmp_path, ["a", "c", "b", "a", "d", "e"], rows_of_group=2)
    assert read == 2
