"""Partitions are the folders that say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.storage.local import LocalStorage
from lakeward.table.partition import find_partitions


@pytest.mark.parametrize("metadata", [".hoodie_partition_metadata", ".hoodie_partition_metadata.parquet"])
def test_partitions_by_either_form_of_metadata(tmp_path: Path, metadata: str) -> None:
    """Paths are kept as they are spelled on disk, whatever is encoded in them; folders without metadata are none."""
    for folder in ("part=a b%2Fü", "2024/01", "2024/02", "日本", "no partition", ".hoodie/.temp"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_text("x")
        if "no " not in folder:
            (tmp_path / folder / metadata).write_text("x")

    partitions = find_partitions(LocalStorage(), str(tmp_path))

    assert [partition.path for partition in partitions] == ["2024/01", "2024/02", "part=a b%2Fü", "日本"]
    assert {status.name for partition in partitions for status in partition.files} == {"file", metadata}


def test_an_unpartitioned_table_has_one_partition(tmp_path: Path) -> None:
    """Its path is empty, and nothing below it is looked at."""
    (tmp_path / ".hoodie_partition_metadata").write_text("x")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / ".hoodie_partition_metadata").write_text("x")

    assert [partition.path for partition in find_partitions(LocalStorage(), str(tmp_path))] == [""]


def test_an_empty_table_has_none(tmp_path: Path) -> None:
    """Before the first write there is no partition."""
    (tmp_path / ".hoodie").mkdir()
    assert find_partitions(LocalStorage(), str(tmp_path)) == ()
