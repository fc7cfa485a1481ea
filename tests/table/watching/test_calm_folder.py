"""What a folder's own modification time proves about its entries, and what it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from lakeward.table.watching.incremental_view import CALM_SECONDS, CalmFolder
from tests.clocks import SettableClock

COARSE = 1_800_000_000.0


class Stepped(LocalStorage):
    """Counts folder times in whole steps, as some file systems do; 0: it has none."""

    time = COARSE

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def stat(self, path: str) -> FileStatus | None:
        self.asked += 1
        return FileStatus(path, 0, self.time, True)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(COARSE)


def test_an_entry_that_comes_or_goes_ends_the_calm(tmp_path: Path, clock: SettableClock) -> None:
    """A real file system shows it; before, a minute has to pass between two listings."""
    folder = CalmFolder(LocalStorage(), str(tmp_path), clock)
    for wait, calm in ((0.0, False), (CALM_SECONDS - 1, False), (1.0, True)):
        clock.sleep(wait)
        folder.before_listing()
        assert folder.is_calm() is calm
    (tmp_path / "a").touch()
    assert not folder.is_calm()
    folder.before_listing()
    clock.sleep(CALM_SECONDS)
    folder.before_listing()
    assert folder.is_calm()
    os.rename(tmp_path / "a", tmp_path / "b")
    assert not folder.is_calm()


def test_an_old_time_alone_proves_nothing(clock: SettableClock) -> None:
    """An entry made in the same step as our listing leaves the time as it is, however old that looks."""
    storage = Stepped()
    folder = CalmFolder(storage, "/t", clock)
    clock.sleep(10 * CALM_SECONDS)
    folder.before_listing()
    assert not folder.is_calm()
    folder.before_listing()
    assert not folder.is_calm()


def test_where_folders_have_no_time_it_is_not_asked_for_again(clock: SettableClock) -> None:
    """Each question would be a call to the store."""
    storage = Stepped()
    storage.time = 0.0
    folder = CalmFolder(storage, "/t", clock)
    for _ in range(5):
        folder.before_listing()
        clock.sleep(CALM_SECONDS)
        assert not folder.is_calm()
    assert storage.asked == 1
