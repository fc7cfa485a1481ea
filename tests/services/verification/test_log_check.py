"""The logs that queries read, block by block, without merging anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from lakeward.format.log.block import MAGIC, BlockType
from lakeward.services.verification.check_report import CheckReport
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from tests.clocks import SkippingClock
from tests.format.log.native_log.native_files import data_file, row
from tests.golden_tables import copy_golden
from tests.version_10 import set_version, with_native_logs


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def logs(base: Path) -> list[Path]:
    return sorted((base / "p").glob(".*.log.*"))


def verify(base: Path, storage: LocalStorage | None = None) -> CheckReport:
    return verify_table(
        storage or LocalStorage(),
        str(base),
        size=SampleSize(1, 1),
        merge_sample=0,
        clock=SkippingClock(),
        timezone="UTC",
    )


def change(file: Path, values: dict[int, int]) -> None:
    """Other bytes at these offsets."""
    data = bytearray(file.read_bytes())
    for offset, value in values.items():
        data[offset] = value
    file.write_bytes(data)


def type_of(number: int) -> Callable[[Path], None]:
    """Let the first block be of another type."""
    return lambda file: change(file, {len(MAGIC) + 8 + 4 + 3: number})


HEADERS = len(MAGIC) + 8 + 4 + 4
SAME_SIZE: dict[str, Callable[[Path], object]] = {
    "length of the block": lambda file: change(file, {8: 0x40}),
    "magic": lambda file: change(file, {0: 0}),
    "number of headers": lambda file: change(file, {HEADERS: 0x40}),
    "pointer at the end": lambda file: change(file, {-1: 0x7F}),
    "no instant": lambda file: change(file, {file.read_bytes().index(b"\x1120261121043709156") - 4: 6}),
    "zeros": lambda file: file.write_bytes(bytes(file.stat().st_size)),
}


@pytest.mark.parametrize("is_pending", [False, True], ids=["newest slice", "under a plan"])
@pytest.mark.parametrize("name", SAME_SIZE)
def test_a_block_that_is_not_whole_is_a_problem(tmp_path: Path, name: str, is_pending: bool) -> None:
    """Its file is as long as its commit says, and nothing was compacted yet: the problem has file, offset, instant and
    remedy."""
    base = copy_golden("v9", tmp_path / "table", pending=is_pending)
    SAME_SIZE[name](logs(base)[-1])
    report = verify(base)
    (problem,) = report.problems
    assert (problem.check, problem.subject) == ("logs", f"p/{logs(base)[-1].name}")
    assert "of instant 20261121043709156 is damaged" in problem.what and "byte 0" in problem.what
    assert "Restore the file" in problem.remedy


def test_a_sound_table_has_all_of_its_logs_checked(base: Path) -> None:
    """The check counts all that there are, and finds none wrong."""
    report = verify(base)
    (check,) = (check for check in report.checks if check.name == "logs")
    assert (check.checked, check.of) == (3, 3) and report.problems == ()


def test_a_frozen_group_is_shown_once(base: Path) -> None:
    """Its log is torn and too long; the check of the table says so, and the blocks are not read."""
    SAME_SIZE["length of the block"](logs(base)[-1])
    logs(base)[-1].write_bytes(logs(base)[-1].read_bytes() + b"x")
    report = verify(base)
    (problem,) = report.problems
    assert problem.check == "table"
    assert [check.checked for check in report.checks if check.name == "logs"] == [0]


@pytest.mark.parametrize("kind", [BlockType.HFILE_DATA, BlockType.CDC_DATA])
def test_what_we_could_not_merge_is_no_damage(base: Path, kind: BlockType) -> None:
    """Keeps 7 of services/verification/table_verification: the block is whole, and Hudi reads it."""
    type_of(kind)(logs(base)[-1])
    report = verify(base)
    assert report.problems == () and not any("log" in note for note in report.notes)


def test_a_block_of_a_form_that_is_not_known_is_a_problem(base: Path) -> None:
    """Keeps 7 of services/verification/table_verification: neither Hudi's readers of this version nor we get through
    it; both causes are named, and the log does not count as checked."""
    type_of(77)(logs(base)[-1])
    report = verify(base)
    (problem,) = report.problems
    assert problem.what == (
        f"p/{logs(base)[-1].name} of instant 20261121043709156 cannot be read by this release: "
        f"p/{logs(base)[-1].name}, block at byte 0: block type 77 is unknown. "
        "Either a newer Hudi release wrote this log file or it is damaged; to skip the block would lose rows."
    )
    assert problem.remedy == (
        "Where a newer Hudi release writes this table, compact the file group with it. Otherwise restore the file from "
        "a copy."
    )
    (check,) = (check for check in report.checks if check.name == "logs")
    assert (check.checked, check.of) == (2, 3)


class Faulty(LocalStorage):
    """Calls `fault` when a log is asked about for the first time."""

    def __init__(self, fault: Callable[[Path], None]) -> None:
        super().__init__()
        self._fault = fault
        self.asked = 0

    def stat(self, path: str) -> FileStatus | None:
        if ".log." in path:
            self.asked += 1
            if self.asked == 1:
                self._fault(Path(path))
        return super().stat(path)


def fail(path: Path) -> None:
    raise OSError(5, "the storage is away", str(path))


def test_a_read_that_fails_is_no_damage(base: Path) -> None:
    """It ends the command as any failed read does."""
    with pytest.raises(OSError, match="away"):
        verify(base, Faulty(fail))


def test_a_log_that_goes_meanwhile_is_not_checked(base: Path) -> None:
    """Keeps 6 of services/verification/table_verification: a cleaner may have removed it; it is no problem, and not
    counted."""
    report = verify(base, Faulty(Path.unlink))
    (check,) = (check for check in report.checks if check.name == "logs")
    assert (check.checked, check.of) == (2, 3) and report.problems == ()


class Healing(LocalStorage):
    """Has the right bytes of `log` when it is opened for the second time."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log, self._whole = log, log.read_bytes()
        self.opened = 0

    def open_input(self, path: str) -> BinaryIO:
        if path == str(self._log):
            self.opened += 1
            if self.opened == 2:
                self._log.write_bytes(self._whole)
        return super().open_input(path)


def test_what_a_second_snapshot_does_not_show_is_no_problem(base: Path) -> None:
    """Keeps 5 of services/verification/table_verification: what was read wrongly once, and is right, stays unknown."""
    log = logs(base)[-1]
    storage = Healing(log)
    SAME_SIZE["length of the block"](log)
    assert verify(base, storage).problems == () and storage.opened == 2


def test_the_footers_of_native_logs_are_read(tmp_path: Path) -> None:
    """One that is whole is checked, one that is not is damage, and one of a newer version cannot be
    read."""
    content = data_file([row("a")])
    for case, (newer, shown) in {
        "whole": (content, None),
        "no Parquet": (content[:-1] + b"?", "is damaged"),
        "no schema": (content.replace(b'"SCHEMA"', b'"XCHEMA"'), "is damaged"),
        "other positions": (
            data_file([row("a")], positions=[2**62], positions_in="1").replace(b"AAAA", b"AAAB"),
            "is damaged",
        ),
        "newer": (content.replace(b'"VERSION":"2"', b'"VERSION":"3"'), "is of version 3"),
    }.items():
        base = copy_golden("v9", tmp_path / case)
        names = with_native_logs(base, newer)
        set_version(base, 10)
        report = verify(base)
        assert [problem.subject for problem in report.problems] == ([] if shown is None else [f"p/{names[-1]}"]), case
        assert shown is None or shown in report.problems[0].what, case
        (logs_checked,) = (check for check in report.checks if check.name == "logs")
        assert (logs_checked.checked, logs_checked.of) == (2 if case == "newer" else 3, 3), case
