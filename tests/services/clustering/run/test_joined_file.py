"""Base files become one with the row groups of all; where that cannot be, rows are merged as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import lakeward
from lakeward.base.errors import VerificationFailed
from lakeward.format.parquet.joined_file import JoinedFileWriter, JoinedForm
from lakeward.format.parquet.key_summary import Extent
from lakeward.index.index_type import IndexType
from lakeward.merge.memory_budget import MemoryBudget
from lakeward.merge.rows.key_ascent import KeyAscent
from lakeward.read import slice_scan
from lakeward.services.clustering.run import joined_file
from lakeward.table.new_table import COPY_ON_WRITE, MERGE_ON_READ, NewIndex, NewIndexes
from tests.crash.metadata_compacting import check_agrees
from tests.our_reader import read_rows, scan
from tests.services.clustering.run.packing import pack
from tests.services.clustering.run.test_clusterer import APART, BY_METADATA, FEW, check_untouched
from tests.services.together.versions.run.test_layout_step import is_sorted
from tests.write.writing import new_table, values, write

DISJOINT = [["a1", "a2"], ["c1", "c2"], ["b1", "b2"]]
OVERLAPPING = [["a1", "c1"], ["b1", "d1"], ["b2", "b3"]]


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each row group that is copied, whether its keys were read. None is too small to be copied."""
    found, copy = list[bool](), JoinedFileWriter.copy

    def watched(self: JoinedFileWriter, source: Any, group: Any, keys: Any, file: int) -> int:
        found.append(keys is not None)
        return copy(self, source, group, keys, file)

    monkeypatch.setattr(joined_file, "SHARE_OF_SMALL", 10**9)
    monkeypatch.setattr(JoinedFileWriter, "copy", watched)
    return found


def made(base: Path, table_type: str, files: list[list[str]], **options: Any) -> Path:
    new_table(base, table_type=table_type, **options)
    for number, keys in enumerate(files):
        write(base, [(key, 1, "p", f"v{number}") for key in keys], "insert", **APART)
    return base


def packed(base: Path) -> Path:
    """The one file that the table has then; its rows are those of before."""
    before = sorted(read_rows(base), key=str)
    report = pack(base, packing=FEW)
    assert (report.output_groups, report.rows) == (1, len(before))
    assert sorted(read_rows(base), key=str) == before
    (slice_,) = scan(base).latest_slices
    assert slice_.base_file is not None
    return base / slice_.base_file.path


@pytest.mark.parametrize("table_type", [COPY_ON_WRITE, MERGE_ON_READ])
def test_files_in_the_order_of_their_keys(tmp_path: Path, copied: list[bool], table_type: str) -> None:
    """Keeps 1 and 3 of services/clustering/run/joined_file: they are joined in that order, also a second time."""
    base = made(tmp_path / "t", table_type, DISJOINT)
    path = packed(base)
    assert copied == [True] * 3 and is_sorted(path)
    assert [row["_hoodie_record_key"] for row in read_rows(base)] == ["a1", "a2", "b1", "b2", "c1", "c2"]
    names = pq.read_table(path, columns=["_hoodie_file_name"]).column(0).to_pylist()
    assert names == [path.name] * 6
    for key in ("d", "e"):
        write(base, [(key, 1, "p", "x")], "insert", **APART)
    assert is_sorted(packed(base)) and len(copied) == 8


def test_the_record_index_knows_the_keys(tmp_path: Path, copied: list[bool]) -> None:
    base = tmp_path / "t"
    new_table(base, table_type=COPY_ON_WRITE, indexes=NewIndexes(finds_keys=NewIndex.METADATA, bloom_filters=True))
    for keys in DISJOINT:
        write(base, [(key, 1, "p", "v") for key in keys], "insert", **BY_METADATA)
    packed(base)
    assert len(copied) == 3
    check_agrees(base)
    write(base, [("a2", 3, "p", "updated")], index=IndexType.METADATA)
    assert values(read_rows(base)) == dict.fromkeys(("a1", "b1", "b2", "c1", "c2"), "v") | {"a2": "updated"}
    check_agrees(base)


@pytest.mark.parametrize(
    ("table_type", "are_sorted", "copies"),
    [
        (COPY_ON_WRITE, True, []),
        (COPY_ON_WRITE, False, [False] * 3),
        (COPY_ON_WRITE, False, [True] * 3),
        (MERGE_ON_READ, False, []),
    ],
)
def test_files_that_overlap(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    copied: list[bool],
    table_type: str,
    are_sorted: bool,
    copies: list[bool],
) -> None:
    """Keeps 1 of format/parquet/joined_file and Keeps 2 of services/clustering/run/packed_file: sorted ones are merged,
    as are all of a table that is compacted. Others are joined, and their filters, or one of their keys, find all keys.
    """
    base = made(tmp_path / "t", table_type, OVERLAPPING)
    monkeypatch.setattr(joined_file._File, "is_sorted", are_sorted)
    if all(copies):  # there is no room for the filters of all
        monkeypatch.setattr(MemoryBudget, "bloom_filter", property(lambda self: 1))
    path = packed(base)
    assert copied == copies
    assert is_sorted(path) == (copies == [])
    write(base, [("b3", 2, "p", "updated"), ("d1", 2, "p", "updated")], index=IndexType.BLOOM)
    found = values(read_rows(base))
    assert found["b3"] == found["d1"] == "updated" and len(found) == len(read_rows(base)) == 6


@pytest.mark.parametrize("moved", [False, True])
def test_a_key_is_looked_for_in_its_row_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[bool], moved: bool
) -> None:
    """Keeps 3 of format/parquet/key_summary: the filter says in which, for the row groups that it was made with."""
    base = made(tmp_path / "t", COPY_ON_WRITE, OVERLAPPING)
    monkeypatch.setattr(joined_file._File, "is_sorted", False)
    path = packed(base)
    found, with_keys = list[list[int]](), slice_scan._with_keys

    def watched(*of: Any) -> list[int]:
        found.append(with_keys(*of))
        return found[-1]

    monkeypatch.setattr(slice_scan, "_with_keys", watched)
    if moved:
        monkeypatch.setattr(slice_scan, "_extents", lambda file: [Extent(4, 9, 2, b"", b"")] * 3)
    (column,) = lakeward.Table(str(base)).scan(keys=["b3"]).to_arrow().select(["v"]).columns
    assert column.to_pylist() == ["v2"]
    (group,) = [
        number for number in range(3) if "b3" in pq.ParquetFile(path).read_row_group(number).column("id").to_pylist()
    ]
    assert found == ([[0, 1, 2]] if moved else [[group]])  # all of them have it in their range


@pytest.mark.parametrize("change", ["small", "another form", "wrong order"])
def test_what_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[bool], change: str) -> None:
    """Keeps 2 and 3 of services/clustering/run/joined_file and Keeps 2 of format/parquet/joined_file."""
    base = made(tmp_path / "t", COPY_ON_WRITE, DISJOINT)
    if change == "small":
        monkeypatch.setattr(joined_file, "SHARE_OF_SMALL", 4)
    elif change == "another form":
        forms = iter(range(3))
        monkeypatch.setattr(JoinedForm, "of", classmethod(lambda cls, stored: cls(b"", {"n": str(next(forms))})))
    else:
        lying = type("Lying", (KeyAscent,), {"see": lambda self, keys: setattr(self, "is_strict", False)})
        monkeypatch.setattr(joined_file, "KeyAscent", lying)
    assert is_sorted(packed(base))
    assert len(copied) == (3 if change == "wrong order" else 0)


def test_a_byte_that_changes_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: list[bool]) -> None:
    """Keeps 1 of services/clustering/run/joined_file: nothing is published."""
    base, verify = made(tmp_path / "t", COPY_ON_WRITE, DISJOINT), joined_file._verify
    before = read_rows(base)

    def spoil(storage: Any, path: str, files: Any, stats: Any) -> None:
        data = bytearray(Path(path).read_bytes())
        data[files[0].groups[0].extent.end // 2] ^= 1
        Path(path).write_bytes(data)
        verify(storage, path, files, stats)

    monkeypatch.setattr(joined_file, "_verify", spoil)
    with pytest.raises(VerificationFailed):
        pack(base, packing=FEW)
    check_untouched(base, before)
