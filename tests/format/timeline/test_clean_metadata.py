"""Completed cleans: read, refused when they point outside, broken when torn. The interop suite reads Hudi's own."""

from __future__ import annotations

import pytest

from lakeward.base.errors import BrokenFile, UntrustedName
from lakeward.format.timeline.clean_metadata import CleanedPartition, read_clean_metadata
from tests.table.table_history import clean_metadata


def test_names_by_partition() -> None:
    """What was deleted and what could not be."""
    metadata = read_clean_metadata(clean_metadata({"p": ["a", "b"]}, {"p": ["c"], "": ["d"]}), file="x.clean")
    assert metadata.version == 2
    assert metadata.partitions == {
        "p": CleanedPartition(deleted=("a", "b"), failed=("c",)),
        "": CleanedPartition(failed=("d",)),
    }


def test_a_partition_outside_the_table_is_refused() -> None:
    """Every name from metadata is checked so."""
    with pytest.raises(UntrustedName):
        read_clean_metadata(clean_metadata({"../p": ["a"]}, {}), file="x.clean")


@pytest.mark.parametrize("data", [b"", b"Obj", clean_metadata({"p": ["a"]}, {})[:-5]])
def test_a_torn_file_is_broken(data: bytes) -> None:
    """It is never half a clean."""
    with pytest.raises(BrokenFile):
        read_clean_metadata(data, file="x.clean")
