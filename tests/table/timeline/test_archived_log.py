"""The archive of a timeline of layout 1: what came to it since it was listed, also where its archiver died."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.base.errors import BrokenFile
from lakeward.storage.local import LocalStorage
from lakeward.table.timeline.archived_log import ArchiveEnd, load_archive_end, load_entries_since
from tests.our_reader import scan
from tests.version_6_lives import RecordedLife, archive_block

STORAGE = LocalStorage()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A table of version 6 of which Hudi archived nothing yet."""
    life = RecordedLife("merged", tmp_path)
    life.state(0)
    return life.base


def file(base: Path, number: int) -> Path:
    folder = base / ".hoodie" / "archived"
    folder.mkdir(exist_ok=True)
    return folder / f".commits_.archive.{number}_1-0-1"


def entries(*times: str, state: str = "COMPLETED") -> bytes:
    return archive_block((time, "deltacommit", state) for time in times)


def end(base: Path) -> ArchiveEnd:
    return load_archive_end(STORAGE, str(base), scan(base).config)


def since(base: Path, known: ArchiveEnd) -> list[str]:
    return [each.time for each in load_entries_since(STORAGE, str(base), scan(base).config, known)]


def test_what_came_since(base: Path) -> None:
    """New files are read, and what was appended to the newest one; what was merged, once more."""
    nothing = end(base)
    assert nothing == ArchiveEnd() and since(base, nothing) == []
    file(base, 1).write_bytes(entries("1", "2"))
    first = end(base)
    assert since(base, nothing) == ["1", "2"] and since(base, first) == []
    with file(base, 1).open("ab") as appended:
        appended.write(entries("3") + entries("3", state="INFLIGHT"))
    assert since(base, first) == ["3"]
    file(base, 2).write_bytes(entries("4"))
    second = end(base)
    assert since(base, first) == ["3", "4"] and since(base, second) == []
    file(base, 3).write_bytes(entries("1", "2") + entries("3") + entries("4"))
    file(base, 1).unlink()
    assert since(base, second) == ["1", "2", "3", "4"]
    (file(base, 9).parent / "mergeArchivePlan").write_bytes(b"x")
    assert end(base).number == 3


def test_an_archiver_died(base: Path) -> None:
    """A torn block is passed over, also where the archive was listed while it was written; one that is whole and cannot
    be read is an error."""
    whole, torn = entries("1"), entries("2")[:-20]
    file(base, 1).write_bytes(whole + torn)
    listed = end(base)
    assert since(base, ArchiveEnd()) == ["1"]
    with file(base, 1).open("ab") as appended:
        appended.write(entries("2", "3"))
    assert since(base, listed) == ["2", "3"]
    file(base, 1).write_bytes(whole + entries("2"))
    assert since(base, listed) == ["1", "2"]
    broken = bytearray(whole)
    at = whole.index(b"COMPLETED") - 1
    broken[at] = 0x7F
    file(base, 1).write_bytes(bytes(broken))
    with pytest.raises(BrokenFile, match="has no archived instants"):
        since(base, ArchiveEnd())
