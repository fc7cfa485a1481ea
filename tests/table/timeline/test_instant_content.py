"""Timeline files are read whole, if the table's files justify their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.table.table_config import TableConfig
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import load_timeline
from tests.faults import FaultyStorage

NAME = "20260101000000000.compaction.requested"
MEBIBYTE = 1024 * 1024
CONFIG = TableConfig({"hoodie.timeline.layout.version": "2"})


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / ".hoodie/timeline").mkdir(parents=True)
    (tmp_path / "p").mkdir()
    (tmp_path / "p/.hoodie_partition_metadata").touch()
    return tmp_path


def put(base: Path, size: int) -> None:
    """A file of that size that takes no room on the disk."""
    with (base / ".hoodie/timeline" / NAME).open("wb") as file:
        file.truncate(size)


def read(base: Path) -> tuple[bytes, FaultyStorage]:
    storage = FaultyStorage()
    timeline = load_timeline(storage, str(base), CONFIG)
    return InstantContents(storage, str(base), CONFIG, timeline).read(NAME), storage


def test_a_file_of_usual_size_is_read_at_once(base: Path) -> None:
    """The table's files are not counted for its sake."""
    put(base, 16 * MEBIBYTE)
    content, storage = read(base)
    assert len(content) == 16 * MEBIBYTE
    assert not [call for call in storage.calls if str(base / "p") in call]


def test_a_file_that_few_files_do_not_justify_is_not_read(base: Path) -> None:
    """A terabyte of plan is an error that names it, and not a byte of it is read."""
    put(base, 1 << 40)
    with pytest.raises(BrokenFile, match=f"{NAME} is too large.*1099511627776 bytes"):
        read(base)


def test_the_bound_grows_with_the_files_of_the_table(base: Path) -> None:
    """A plan of many file groups is as large as it has to be: 4 KiB more for each file."""
    put(base, 16 * MEBIBYTE + 100 * 4096)
    for number in range(98):
        (base / "p" / f"{number}").touch()
    with pytest.raises(BrokenFile):
        read(base)
    (base / "p/98").touch()
    read(base)
