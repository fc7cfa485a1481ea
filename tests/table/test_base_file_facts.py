"""What the end of a base file says, and what it means when the file is gone."""

from __future__ import annotations

from pathlib import Path

from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import BaseFile
from lakeward.table.snapshot import BaseFileFacts, read_base_file_facts


def facts(base: Path, content: bytes | None) -> BaseFileFacts:
    if content is not None:
        (base / "x.parquet").write_bytes(content)
    return read_base_file_facts(LocalStorage(), str(base), BaseFile("x", "1", "x.parquet", "", 12, "0-0-0"))


def test_a_file_that_was_cleaned_since_it_was_listed_is_not_broken(tmp_path: Path) -> None:
    """A clean beside us takes old slices away between two calls of one scan; that refuses no table."""
    assert facts(tmp_path, None).broken is None


def test_a_file_that_does_not_end_as_parquet_is_broken(tmp_path: Path) -> None:
    """What is there and cannot be read is reported."""
    assert facts(tmp_path, b"not parquet!").broken is not None
