"""Base files of which the bytes make no sense, wherever they are read."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from lakeward.base.errors import BrokenFile
from lakeward.format.parquet.unreadable import broken_if_unreadable
from lakeward.index.index_type import IndexType
from tests.crash.compacting import everything
from tests.write.test_whole_write import CLOCK
from tests.write.writing import new_table, write


@pytest.fixture
def broken_base(tmp_path: Path) -> Path:
    """A table whose only base file is as long as its commit says, and has no footer."""
    base = new_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    write(base, [("a", 1, "p", "x")], clock=CLOCK)
    (file,) = base.glob("p/*.parquet")
    file.write_bytes(file.read_bytes()[:-20] + bytes(20))
    return base


@pytest.mark.parametrize("index", [IndexType.SIMPLE, IndexType.BLOOM])
def test_a_write_to_such_a_table(broken_base: Path, index: IndexType) -> None:
    """The file is named, and nothing is written."""
    before = everything(broken_base)
    with pytest.raises(BrokenFile, match=r"p/.*parquet cannot be read") as refused:
        write(broken_base, [("a", 2, "p", "y")], index=index, clock=CLOCK)
    assert "Restore the file" in str(refused.value.remedy)
    assert everything(broken_base) == before


@pytest.mark.parametrize("error", [pa.ArrowInvalid("no magic"), OSError("no magic"), KeyError("no magic")])
def test_what_the_library_raises(error: Exception) -> None:
    expected = r"The base file p/f\.parquet cannot be read\.(.|\n)*no magic"
    with pytest.raises(BrokenFile, match=expected), broken_if_unreadable("p/f.parquet"):
        raise error


def test_what_the_storage_failed_with() -> None:
    """It says nothing about the file. Keeps what format/parquet/unreadable keeps."""
    with pytest.raises(OSError, match="away") as raised, broken_if_unreadable("p/f.parquet"):
        raise OSError(errno.EIO, "away")
    assert not isinstance(raised.value, BrokenFile)
