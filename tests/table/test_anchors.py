"""Logs behind a log compaction that are gone: which loss is damage, and which is none."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward
from lakeward.base.errors import DamagedFiles
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.table.damaged_file import DamageKind
from lakeward.table.live_logs import live_logs
from lakeward.table.retired_logs import find_stood_for
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.hudi.log_compacting import log_compact
from tests.interop.lakeward_cli import lakeward as lakeward_command
from tests.our_reader import read_rows, scan


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A real table of one slice of three logs, and the output of a log compaction by Lakeward."""
    base = copy_golden("v9", tmp_path / "table")
    for file in (base / ".hoodie" / "timeline").iterdir():
        if "logcompaction" in file.name:
            file.unlink()  # what released Hudi left pending
    log_compact(base)
    return base


def logs(base: Path) -> list[Path]:
    """Oldest first; the last is the output."""
    (group,) = scan(base).file_groups
    return [base / log.path for log in group.slices[0].log_files]


def drop(*files: Path) -> None:
    for file in files:
        file.unlink()


def archive(base: Path, *instants: str) -> None:
    """What is on the timeline of writes, and of the log compaction but that it completed, goes."""
    for file in (base / ".hoodie" / "timeline").iterdir():
        if file.name.startswith(instants) or "logcompaction" in file.name:
            file.unlink()


def test_sources_may_be_gone_but_for_the_newest(base: Path) -> None:
    """Keeps 4 of table/retired_logs: the rows stay, nothing is damage, and the output stands where it stood."""
    before = read_rows(base)
    *sources, anchor, output = logs(base)
    drop(*sources)

    snapshot = scan(base)

    assert (snapshot.damage, snapshot.frozen) == ((), ())
    (slice_,) = snapshot.file_groups[0].slices
    found = live_logs(slice_, snapshot.log_compactions[slice_.group_id])
    assert [log.file_name for log in found.live] == [output.name]
    assert [log.file_name for log in found.superseded] == [anchor.name]
    assert read_rows(base) == before
    report = verify_table(LocalStorage(), str(base), size=SampleSize(10, 10, 0), merge_sample=1, clock=SkippingClock())
    assert report.problems == ()


def test_the_loss_of_the_newest_is_damage(base: Path) -> None:
    """Keeps 4 of table/retired_logs: whatever is left of the others, for they may lie before another write."""
    *_, anchor, _ = logs(base)
    drop(anchor)
    (damaged,) = scan(base).damage
    assert (damaged.kind, damaged.path) == (DamageKind.MISSING, str(anchor.relative_to(base)))


def test_a_lost_output_makes_its_sources_damage_again(base: Path) -> None:
    """Nothing stands for them."""
    first, *_, output = logs(base)
    drop(first, output)
    assert {Path(file.path).name for file in scan(base).damage} == {first.name, output.name}


def test_readers_refuse_an_output_whose_logs_are_gone_and_archived(base: Path) -> None:
    """No commit names the missing logs any more, but the output does. Neither queries nor a compaction go on without
    its rows, as Hudi's do."""
    *sources, _ = logs(base)
    instants = {log.instant for log in scan(base).file_groups[0].slices[0].log_files[:-1]}
    drop(*sources)
    archive(base, *instants)

    assert scan(base).damage == ()
    with pytest.raises(DamagedFiles, match="is read by no reader: none of the logs that it stands for is there"):
        lakeward.Table(str(base), timezone="UTC").scan().to_arrow()
    exit_code, printed = lakeward_command("compact", str(base), "--type", "full", "--writers", "stopped")
    assert (exit_code, printed["compactions"]) == (1, []), printed
    report = verify_table(LocalStorage(), str(base), size=SampleSize(10, 10, 0), merge_sample=1, clock=SkippingClock())
    assert ["is read by no reader" in problem.what for problem in report.problems] == [True]


def names(instants: str) -> frozenset[str]:
    return frozenset(f".g_{instant}.log.1_0-0-0" for instant in instants.split())


@pytest.mark.parametrize(
    ("there", "gone", "retired"),
    [
        ("3 4", "1 2", True),
        ("1 2 4", "3", False),  # the anchor, whatever is left of the others
        ("1 2 3", "4", False),  # the output
        ("1 2", "3", False),
        ("5 6 7 8", "4", True),  # the output that another took, with a log that the later one names
        ("3 5 6 8", "4", True),  # it says of the earlier one's anchor, too, that it stands for it
        ("2 5 6 8", "4", False),  # the earlier one alone said that of this log, which would be read again
        ("5 6 8", "1 2 3 4", True),
        ("3 5 6 8", "1 2", True),
        ("2 5 6 8", "1", False),
        ("5 8", "6", False),
        ("8", "6", False),
    ],
)
def test_which_loss_is_none(there: str, gone: str, retired: bool) -> None:
    """Keeps 4 of table/retired_logs: 4 is an output of 1, 2 and 3; 8 is one of 4, 5 and 6, which found 3 there as
    well."""
    compactions = [LogCompaction("4", names("1 2 3")), LogCompaction("8", names("3 4 5 6"))]
    found = find_stood_for(names(there), compactions).by
    for name in names(gone):
        assert (name in found) is retired, name
