"""A clean begins on a full disk, by the room that the clean before it left."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from lakeward.services.clean.run.cleaner import PLACE, PLENTY_BYTES, RESERVE_BYTES, keep_reserve
from lakeward.storage.local import LocalStorage
from tests.golden_tables import copy_golden
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import choose_old, clean, cleaner, compacted, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table


class SmallDisk(LocalStorage):
    """A disk with so much room left, which what is created takes and what is deleted gives back."""

    def __init__(self, free: int) -> None:
        super().__init__()
        self.free = free

    def free_bytes(self, path: str) -> int | None:
        return self.free

    def create(self, path: str, data: bytes) -> None:
        if len(data) > self.free:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        super().create(path, data)
        self.free -= len(data)

    def delete(self, path: str) -> bool:
        found = self.stat(path)
        self.free += found.size if found is not None else 0
        return super().delete(path)


def reserve(base: Path) -> Path:
    return base / ".hoodie" / PLACE


def test_a_clean_on_a_full_disk_begins_by_its_reserve(tmp_path: Path) -> None:
    """The clean before left it, where there was room; without it nothing can be written. Keeps 7 of
    services/clean/run/cleaner."""
    base = compacted("v9", tmp_path / "table")
    cleaner(base, SmallDisk(PLENTY_BYTES)).clean(lambda snapshot: None)
    assert reserve(base).stat().st_size == RESERVE_BYTES
    without = compacted("v9", tmp_path / "without")
    before = data_files(without)
    with pytest.raises(OSError, match="No space left"):
        clean(without, SmallDisk(0))
    assert data_files(without) == before

    before = data_files(base)
    assert clean(base, SmallDisk(0)).cleans
    assert not reserve(base).exists()
    assert data_files(base) < before and len(completed_cleans(base)) == 1


def test_room_is_taken_only_where_there_is_plenty(tmp_path: Path) -> None:
    """The reserve is let go only where there is no other room. Keeps 6 of services/clean/run/cleaner."""
    base = copy_golden("v9", tmp_path / "table")
    short = SmallDisk(PLENTY_BYTES - 1)
    cleaner(base, short).clean(lambda snapshot: None)
    assert not reserve(base).exists()
    cleaner(base, SmallDisk(2 * PLENTY_BYTES)).clean(lambda snapshot: None)
    assert reserve(base).exists()
    cleaner(base, SmallDisk(RESERVE_BYTES)).clean(choose_old)
    assert reserve(base).exists()


def test_a_clean_does_not_fail_for_want_of_it(tmp_path: Path) -> None:
    class Refuses(SmallDisk):
        def create(self, path: str, data: bytes) -> None:
            raise OSError(errno.EDQUOT, "Disk quota exceeded", path)

    keep_reserve(serviced_table(str(tmp_path), Refuses(PLENTY_BYTES), ScriptedProcesses()))
    assert not reserve(tmp_path).exists()
