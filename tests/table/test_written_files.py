"""What commits say that they wrote, held against what is there: damage is found, and nothing else is taken for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.paths import join
from lakeward.format.file_name import parse_log_file
from lakeward.format.timeline.commit_metadata import (
    CommitMetadata,
    WriteStat,
    read_commit_metadata,
    write_commit_metadata,
)
from lakeward.format.timeline.instant import Instant, State
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import FileStatus
from lakeward.table.damaged_file import DamagedFile, DamageKind
from lakeward.table.file_system_view import sort_files
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from lakeward.table.timeline.timeline import Timeline
from lakeward.table.watching.incremental_view import DAMAGED_SECONDS, IncrementalView
from lakeward.table.written_files import WrittenBy, find_damage
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.synthetic_table import completed, pending

FILE_ID = "ebf517f7-02cc-4e03-aec7-b7450919b7fd-0"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return copy_golden("v9", tmp_path / "table")


def scan(base: Path, *, only: set[tuple[str, str]] | None = None, accept_damaged_logs: bool = False) -> TableSnapshot:
    return take_snapshot(
        LocalStorage(),
        str(base),
        timezone="UTC",
        clock=SkippingClock(),
        only=only,
        accept_damaged_logs=accept_damaged_logs,
    )


def newest_log(base: Path) -> Path:
    return max((base / "p").glob(".*.log.*"))


def base_file(base: Path) -> Path:
    (found,) = (base / "p").glob("*.parquet")
    return found


def cut(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])


def empty_group(base: Path) -> Path:
    """An empty log that stands alone, under the name of a completed instant."""
    file = base / "p" / ".x_20261121043709156.log.1"
    file.touch()
    return file


def orphan(base: Path) -> Path:
    log = newest_log(base)
    name = parse_log_file(log.name)
    assert name is not None
    return Path(shutil.copy(log, log.with_name(replace(name, version=2).text)))


def longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


DAMAGE: dict[str, tuple[Callable[[Path], object], DamageKind]] = {
    "log cut in half": (lambda base: cut(newest_log(base), 441), DamageKind.OTHER_SIZE),
    "log cut by one byte": (lambda base: cut(newest_log(base), 881), DamageKind.OTHER_SIZE),
    "log longer": (lambda base: longer(newest_log(base)), DamageKind.OTHER_SIZE),
    "log emptied": (lambda base: cut(newest_log(base), 0), DamageKind.OTHER_SIZE),
    "log gone": (lambda base: newest_log(base).unlink(), DamageKind.MISSING),
    "orphan log": (orphan, DamageKind.ORPHAN),
    "base file gone": (lambda base: base_file(base).unlink(), DamageKind.MISSING),
    "base file cut": (lambda base: cut(base_file(base), 2000), DamageKind.OTHER_SIZE),
    "base file longer": (lambda base: longer(base_file(base)), DamageKind.OTHER_SIZE),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_group_with_a_damaged_file_is_frozen(base: Path, name: str) -> None:
    """The file, its instant and what is wrong with it are named; nothing of the group is planned."""
    damage, kind = DAMAGE[name]
    damage(base)
    snapshot = scan(base)
    (group,) = snapshot.frozen
    assert snapshot.file_groups == ()
    (file,) = group.damage
    assert (group.file_id, file.kind) == (FILE_ID, kind)
    assert file.instant == group.instant and file.path in group.why
    assert scan(base, only={("p", FILE_ID)}).frozen == (group,), "as a scan of this group alone sees it"


def test_an_empty_log_alone_is_no_file_group(base: Path) -> None:
    """An empty file under a completed instant opens nothing that a base file could be published for."""
    empty_group(base)
    snapshot = scan(base)
    assert [group.file_id for group in snapshot.frozen] == ["x"]
    assert [group.file_id for group in snapshot.file_groups] == [FILE_ID]


def test_a_file_that_comes_back_is_sound_again(base: Path) -> None:
    """Nothing remembers the damage."""
    log = newest_log(base)
    content = log.read_bytes()
    log.unlink()
    assert scan(base).frozen
    log.write_bytes(content)
    assert not scan(base).frozen


def test_sound_tables_have_no_damage(tmp_path: Path) -> None:
    """Whatever Hudi's release and with a plan pending, too."""
    for version, is_pending in (("v8", False), ("v9", False), ("v9", True), ("v9_metadata", False)):
        snapshot = scan(copy_golden(version, tmp_path / f"{version}-{is_pending}", pending=is_pending))
        assert snapshot.file_groups and not snapshot.frozen, version


def test_damage_to_a_slice_under_a_pending_plan_counts(tmp_path: Path) -> None:
    """The plan's slice is open and empty; what it merges is the slice before."""
    base = copy_golden("v9", tmp_path / "table", pending=True)
    cut(newest_log(base), 500)
    (group,) = scan(base).frozen
    assert [file.kind for file in group.damage] == [DamageKind.OTHER_SIZE]


def test_accepted_logs_do_not_freeze(base: Path) -> None:
    """An operator's word lets damaged logs pass; a damaged base file, or a log that no commit names, never."""
    cut(newest_log(base), 441)
    snapshot = scan(base, accept_damaged_logs=True)
    assert not snapshot.frozen and len(snapshot.file_groups) == 1
    ((file,),) = snapshot.accepted_damage.values()
    assert (file.expected_size, file.size) == (882, 441) and snapshot.damage == (file,)
    orphan(base)
    assert scan(base, accept_damaged_logs=True).frozen


def test_a_base_file_is_never_accepted(base: Path) -> None:
    """Without it the rows are gone that no log has."""
    base_file(base).unlink()
    assert scan(base, accept_damaged_logs=True).frozen


def test_a_base_file_without_a_readable_footer_freezes_its_group(base: Path) -> None:
    """The file has the right size, and is no Parquet: the table's other groups go on."""
    file = base_file(base)
    file.write_bytes(bytes(file.stat().st_size))
    (group,) = scan(base).frozen
    assert [each.kind for each in group.damage] == [DamageKind.UNREADABLE]


def test_a_size_that_no_commit_says_is_not_held_against_a_file(base: Path) -> None:
    """A writer that leaves it out, or says 0, says nothing of it; an empty file is damaged all the same."""
    for size in (None, 0):
        report_size(base, newest_log(base), size)
        assert not scan(base).frozen
    cut(newest_log(base), 0)
    ((file,),) = (group.damage for group in scan(base).frozen)
    assert file.kind is DamageKind.EMPTY


def test_several_stats_of_one_file_report_no_size(base: Path) -> None:
    """A stat says what was appended that time, so two of one file name it and do not say how long it is."""
    path = next((base / ".hoodie/timeline").glob("20261121043709156_*.deltacommit"))
    metadata = read_commit_metadata(path.read_bytes(), file=str(path), layout=2)
    (stat,) = metadata.partition_to_write_stats["p"]
    stats = {"p": (replace(stat, file_size_in_bytes=100), replace(stat, file_size_in_bytes=500))}
    path.write_bytes(write_commit_metadata(replace(metadata, partition_to_write_stats=stats)))
    assert not scan(base).frozen


def report_size(base: Path, file: Path, size: int | None) -> None:
    """Let the commit of a log say another size."""
    log = parse_log_file(file.name)
    assert log is not None
    path = next((base / ".hoodie/timeline").glob(f"{log.instant}_*.deltacommit"))
    metadata = read_commit_metadata(path.read_bytes(), file=str(path), layout=2)
    stats = {
        partition: tuple(replace(stat, file_size_in_bytes=size) for stat in each)
        for partition, each in metadata.partition_to_write_stats.items()
    }
    path.write_bytes(write_commit_metadata(replace(metadata, partition_to_write_stats=stats)))


# What is no damage


def instant(second: int) -> str:
    return f"202601010000{second:02}000"


def base_name(second: int) -> str:
    return f"f_1-0-0_{instant(second)}.parquet"


def log_name(second: int) -> str:
    return f".f_{instant(second)}.log.1_1-0-0"


def damage_of(timeline: Timeline, files: dict[str, int], written: dict[int, dict[str, int]]) -> tuple[DamagedFile, ...]:
    listed = [FileStatus(join("/t/p", name), size, 0.0, False) for name, size in files.items()]
    shown = [
        WrittenBy(instant(s), {"p": {join("p", n): size for n, size in each.items()}}) for s, each in written.items()
    ]
    return find_damage([sort_files("p", listed)], shown, timeline).get("p", ())


def timeline(*instants: object) -> Timeline:
    return Timeline(tuple(each for part in instants for each in part))  # type: ignore[attr-defined]


def test_what_a_cleaner_may_have_removed_is_not_missing() -> None:
    """A slice that a newer base file replaced, with the logs that completed before it."""
    shown = timeline(
        completed(instant(1), "commit"), completed(instant(2), "deltacommit"), completed(instant(5), "commit")
    )
    written = {1: {base_name(1): 10}, 2: {log_name(2): 10}, 5: {base_name(5): 10}}
    assert damage_of(shown, {base_name(5): 10}, written) == ()


def test_a_log_that_completed_after_the_newest_base_file_began_is_missing() -> None:
    """It is missing though its instant is the older one: it lies on top of that base file."""
    shown = timeline(completed(instant(2), "deltacommit", instant(7)), completed(instant(5), "commit", instant(6)))
    written = {2: {log_name(2): 10}, 5: {base_name(5): 10}}
    (file,) = damage_of(shown, {base_name(5): 10}, written)
    assert (file.kind, file.path) == (DamageKind.MISSING, f"p/{log_name(2)}")


def test_a_base_file_that_no_commit_names_replaces_nothing() -> None:
    """One that a compaction is writing is not there for readers; what it will replace must still be."""
    shown = timeline(completed(instant(2), "deltacommit"), pending(instant(5), "compaction"))
    (file,) = damage_of(shown, {base_name(5): 0}, {2: {log_name(2): 10}})[1:]
    assert file.kind is DamageKind.EMPTY or file.kind is DamageKind.MISSING
    assert {each.kind for each in damage_of(shown, {base_name(5): 10}, {2: {log_name(2): 10}})} == {DamageKind.MISSING}


def test_files_of_archived_instants_are_held_against_nothing() -> None:
    """Their commits are no longer on the active timeline; savepoints that stay behind there miss nothing either."""
    shown = timeline(
        completed(instant(2), "deltacommit"),
        [Instant(instant(2), "savepoint", State.COMPLETED, instant(3), f"{instant(2)}_{instant(3)}.savepoint")],
        completed(instant(5), "deltacommit"),
    )
    assert damage_of(shown, {log_name(1): 7}, {2: {log_name(2): 10}, 5: {}}) == ()


def test_logs_of_changes_are_no_rows() -> None:
    """A snapshot does not read them."""
    shown = timeline(completed(instant(2), "deltacommit"))
    assert damage_of(shown, {f"{log_name(2)}.cdc": 7}, {2: {f"{log_name(2)}.cdc": 9}}) == ()


# Watched


def test_a_view_comes_to_the_same_result(base: Path) -> None:
    """It does when it scans everything; it scans again after some minutes while something is damaged, or when it is
    reported."""
    clock = SkippingClock()
    view = IncrementalView(LocalStorage(), str(base), timezone="UTC", clock=clock)
    view.refresh()
    assert not view.snapshot().frozen
    log = newest_log(base)
    content = log.read_bytes()
    log.unlink()
    view.refresh()
    assert not view.snapshot().frozen, "nothing says that anything happened"
    view.doubt()
    assert view.refresh().changed
    assert view.snapshot() == scan(base) and view.snapshot().frozen
    log.write_bytes(content)
    clock.slept += DAMAGED_SECONDS
    assert view.refresh().changed
    assert view.snapshot() == scan(base) and not view.snapshot().frozen


class Cleaning(LocalStorage):
    """While the partition is listed for the first time, a compaction completes and the slice before it is cleaned."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self._base = base
        self.listed = 0

    def list(self, folder: str) -> list[FileStatus]:
        if folder == str(self._base / "p"):
            self.listed += 1
            if self.listed == 1:
                before = list_files(self._base)
                name, size = f"{FILE_ID}_0-1-0_20261121050000000.parquet", base_file(self._base).stat().st_size
                shutil.copy(base_file(self._base), self._base / "p" / name)
                stat = WriteStat(file_id=FILE_ID, path=f"p/{name}", file_size_in_bytes=size)
                commit = self._base / ".hoodie/timeline/20261121050000000_20261121050001000.commit"
                commit.write_bytes(write_commit_metadata(CommitMetadata({"p": (stat,)}, operation_type="COMPACT")))
                for file in before:
                    file.unlink()
        return super().list(folder)


def list_files(base: Path) -> list[Path]:
    return [file for file in (base / "p").iterdir() if FILE_ID in file.name]


def test_what_went_between_two_listings_is_no_damage(base: Path) -> None:
    """What the timeline called the newest base file is gone with right: the scan is made again, and once."""
    storage = Cleaning(base)
    snapshot = take_snapshot(storage, str(base), timezone="UTC", clock=SkippingClock())
    assert not snapshot.frozen and len(snapshot.file_groups) == 1 and storage.listed == 2
    base_file(base).unlink()
    assert take_snapshot(storage, str(base), timezone="UTC", clock=SkippingClock()).frozen
    assert storage.listed == 3, "the timeline is as it was, so this is damage"


@pytest.mark.parametrize("name", DAMAGE)
def test_verify_finds_it_on_a_table_that_was_never_compacted(base: Path, name: str) -> None:
    """Verify reports it as a problem of the table, with the file and a remedy."""
    damage, _ = DAMAGE[name]
    damage(base)
    report = verify_table(
        LocalStorage(), str(base), size=SampleSize(1, 1), merge_sample=0, clock=SkippingClock(), timezone="UTC"
    )
    (problem,) = report.problems
    assert problem.subject.startswith("p/") and problem.remedy
