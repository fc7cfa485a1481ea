"""Partitions of which nothing is left to be held against the commits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from lakeward.format.partition_metadata import is_partition_metadata
from lakeward.format.timeline.commit_metadata import read_commit_metadata, write_commit_metadata
from lakeward.services.verification.check_report import Problem
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.table.table_history import replace_metadata

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def problems_of(base: Path, storage: LocalStorage | None = None) -> list[Problem]:
    report = verify_table(
        storage or LocalStorage(),
        str(base),
        size=SampleSize(1, 1),
        merge_sample=0,
        clock=SkippingClock(),
        timezone="UTC",
    )
    return [problem for problem in report.problems if "partition is not listed" in problem.what]


def replace_group(base: Path, file_id: str) -> None:
    """Replaces the group like delete_partition."""
    instant = base / ".hoodie/timeline/20261121043720000_20261121043721000.replacecommit"
    instant.write_bytes(replace_metadata({}, {"p": [file_id]}))


def forget_partition(base: Path) -> None:
    (file,) = (file for file in (base / "p").iterdir() if is_partition_metadata(file.name))
    file.unlink()


@pytest.mark.parametrize("is_pending", [False, True], ids=["", "with a plan"])
@pytest.mark.parametrize("lose", [lambda base: shutil.rmtree(base / "p"), forget_partition], ids=["folder", "metadata"])
def test_a_partition_that_is_gone_is_a_problem(tmp_path: Path, lose: Callable[[Path], None], is_pending: bool) -> None:
    """Its commits are on the active timeline, and nothing replaced what they wrote; without its partition metadata
    Hudi does not list it either."""
    base = copy_golden("v9", tmp_path / "table", pending=is_pending)
    assert problems_of(base) == []
    lose(base)
    (problem,) = problems_of(base)
    assert (problem.check, problem.subject) == ("table", "p")
    assert "name 4 files" in problem.what and f"{FILE_ID}_" in problem.what and "Restore" in problem.remedy


def test_a_partition_that_was_deleted_is_none(base: Path) -> None:
    """Keeps 2 of services/verification/table_verification: all of its groups were replaced, and a cleaner took them
    away; where one was not, it is still missed."""
    shutil.rmtree(base / "p")
    replace_group(base, "another-0")
    assert len(problems_of(base)) == 1
    replace_group(base, FILE_ID)
    assert problems_of(base) == []


def test_a_partition_that_archived_commits_wrote_is_none(base: Path) -> None:
    """Keeps 3 of services/verification/table_verification: commits that stay on the active timeline wrote elsewhere."""
    shutil.rmtree(base / "p")
    for file in (base / ".hoodie/timeline").glob("*commit*"):
        file.unlink()
    (base / ".hoodie/timeline/20261121043720000_20261121043721000.replacecommit").write_bytes(replace_metadata({}, {}))
    assert problems_of(base) == []


def test_a_link_that_stands_for_a_partition_is_shown_as_such(base: Path, tmp_path: Path) -> None:
    """Keeps 4 of services/verification/table_verification: what it leads to is not listed, and that is what the problem
    of the link says."""
    (base / "p").rename(tmp_path / "elsewhere")
    (base / "p").symlink_to(tmp_path / "elsewhere")
    assert problems_of(base) == []


def test_a_name_that_is_no_text_is_shown_as_such(base: Path) -> None:
    """Java wrote its replacement character in the place of the byte, so the commit's partition is the nameless one."""
    (base / "p").rename(f"{base}/\udcff")
    for file in (base / ".hoodie/timeline").glob("*_*.*commit"):
        metadata = read_commit_metadata(file.read_bytes(), file=str(file), layout=2)
        (written,) = metadata.partition_to_write_stats.values()
        stats = tuple(replace(stat, path=f"\ufffd/{PurePosixPath(stat.path or '').name}") for stat in written)
        metadata = replace(metadata, partition_to_write_stats={"\ufffd": stats})
        file.write_bytes(write_commit_metadata(metadata))
    assert problems_of(base) == []
    shutil.rmtree(os.fsencode(f"{base}/\udcff"))
    assert len(problems_of(base)) == 1


class Returning(LocalStorage):
    """A mount that comes back after the table was listed once."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self._base = base
        self._listed = 0

    def list(self, folder: str) -> list[FileStatus]:
        found = super().list(folder)
        if folder == str(self._base):
            self._listed += 1
            if self._listed == 1:
                (self._base.parent / "away").rename(self._base / "p")
        return found


def test_a_partition_that_comes_back_is_none(base: Path) -> None:
    """The second snapshot decides."""
    (base / "p").rename(base.parent / "away")
    assert problems_of(base, Returning(base)) == []
    assert (base / "p").is_dir()
