"""A metadata table that is as its files say passes; each way not to be is found and named."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pytest

from lakeward.base.errors import NotFound, Unsupported
from lakeward.format.metadata.record import (
    BloomFilterRecord,
    ColumnStatsRecord,
    FileEntry,
    FilesRecord,
    MetadataRecord,
    PartitionStatsRecord,
    RecordIndexRecord,
)
from lakeward.read.row_lookup import sample_keys
from lakeward.services.verification.check_report import CheckReport, Problem
from lakeward.services.verification.metadata_check import SampleSize, check_metadata, error_bound
from lakeward.services.verification.metadata_view import view_metadata
from lakeward.services.verification.record_index_check import check_index_in_rows, check_rows_in_index, first_entries
from lakeward.services.verification.stats_check import check_blooms, check_column_stats, check_partition_stats
from lakeward.storage.local import LocalStorage
from lakeward.table.file_group import FrozenGroup
from lakeward.table.snapshot import TableSnapshot
from tests.clocks import SkippingClock
from tests.golden_tables import copy_golden
from tests.our_reader import scan
from tests.services.verification.metadata_damage import change_record, put_record, records

ALL = SampleSize(None, 1000)


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_golden("v9_metadata", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "table"))


def check(base: Path, snapshots: Callable[[], TableSnapshot] | None = None, size: SampleSize = ALL) -> CheckReport:
    return check_metadata(LocalStorage(), snapshots or (lambda: scan(base)), size=size, clock=SkippingClock())


def the_problem(base: Path) -> Problem:
    (problem,) = check(base).problems
    return problem


def base_file(base: Path) -> Path:
    (path,) = (base / "p").glob("*.parquet")
    return path


def test_a_sound_table_has_no_problem(base: Path):
    """The report says how much was checked."""
    report = check(base)

    assert report.problems == ()
    assert [(part.name, part.checked) for part in report.checks] == [
        ("files", 1),
        ("column_stats", 1),
        ("partition_stats", 1),
        ("bloom_filters", 1),
        ("record_index", 6),
        ("record_index entries", 4),
    ]
    assert "95% confidence fewer than 50%" in report.checks[4].note
    assert report.notes == ()


def test_a_table_without_a_metadata_table_is_no_problem(tmp_path: Path):
    """It is said."""
    base = copy_golden("v9", tmp_path / "table")
    assert check(base) == CheckReport(notes=("The table has no metadata table.",))


def test_a_file_that_is_not_listed(base: Path):
    """Readers miss its rows."""
    name = base_file(base).name
    change_record(
        base,
        "files",
        lambda record: isinstance(record, FilesRecord) and name in record.entries,
        lambda record: FilesRecord({name: FileEntry(0, is_deleted=True)}),
    )
    problem = the_problem(base)
    assert (problem.check, problem.subject) == ("files", f"p/{name}")
    assert "does not list" in problem.what


def test_a_file_that_is_not_there(base: Path):
    """Readers fail on it."""
    put_record(base, "files", "p", FilesRecord({"f_0-0-0_20261121142629303.parquet": FileEntry(7)}))
    problem = the_problem(base)
    assert problem.subject == "p/f_0-0-0_20261121142629303.parquet"
    assert "not there" in problem.what


def test_a_file_of_another_size(base: Path):
    """The larger one is the metadata table's, whichever came last."""
    path = base_file(base)
    put_record(base, "files", "p", FilesRecord({path.name: FileEntry(path.stat().st_size + 1)}))
    problem = the_problem(base)
    assert problem.subject == f"p/{path.name}"
    assert f"{path.stat().st_size} bytes, the metadata table says {path.stat().st_size + 1}" in problem.what


# A tight record takes the place of the older one; others are joined with it.


def of_key_column(base: Path) -> Callable[[MetadataRecord], bool]:
    name = base_file(base).name

    def pick(record: MetadataRecord) -> bool:
        return (
            isinstance(record, ColumnStatsRecord) and record.column == "_hoodie_record_key" and record.file_name == name
        )

    return pick


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"min_value": "k2"}, "from 'k1' to 'k6', the record says 'k2' to 'k6'"),
        ({"max_value": "k5"}, "the record says 'k1' to 'k5'"),
        ({"value_count": 5}, "6 values, the record says 5"),
        ({"null_count": 1}, "0 nulls, the record says 1"),
        ({"is_deleted": True}, "not that of a file that is there"),
    ],
)
def test_statistics_that_would_hide_rows(base: Path, change: dict[str, object], shown: str):
    """The file and column are named."""

    def apply(record: MetadataRecord) -> MetadataRecord:
        assert isinstance(record, ColumnStatsRecord)
        return replace(record, is_tight=True, **change)  # type: ignore[arg-type]

    change_record(base, "column_stats", of_key_column(base), apply)
    problem = the_problem(base)
    assert (problem.check, problem.subject) == ("column_stats", f"p/{base_file(base).name}")
    assert problem.what.startswith("Column _hoodie_record_key: ")
    assert shown in problem.what or "no statistics" in problem.what
    assert "metadata drop TABLE column_stats" in problem.remedy


def test_a_range_that_is_too_wide_hides_nothing(base: Path):
    """Hudi's own may be: it costs time."""
    change_record(
        base,
        "column_stats",
        of_key_column(base),
        lambda record: replace(record, max_value="z", total_size=1, is_tight=True),  # type: ignore[arg-type, call-arg]
    )
    assert check(base).problems == ()


def of_partition(record: MetadataRecord) -> bool:
    return isinstance(record, PartitionStatsRecord) and record.column == "_hoodie_record_key"


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"min_value": "k2"}, "from 'k1' to 'k6', the record says 'k2' to 'k6'"),
        ({"max_value": "k5"}, "the record says 'k1' to 'k5'"),
        ({"min_value": None, "max_value": None}, "the record has no range"),
    ],
)
def test_statistics_that_would_hide_a_partition(base: Path, change: dict[str, object], shown: str):
    """The partition is named, with the file that has more."""

    def apply(record: MetadataRecord) -> MetadataRecord:
        assert isinstance(record, PartitionStatsRecord)
        return replace(record, is_tight=True, **change)  # type: ignore[arg-type]

    change_record(base, "partition_stats", of_partition, apply)
    problem = the_problem(base)
    assert (problem.check, problem.subject) == ("partition_stats", "p")
    assert problem.what.startswith(f"Column _hoodie_record_key, file {base_file(base).name}: ")
    assert shown in problem.what
    assert "metadata drop TABLE partition_stats" in problem.remedy


def test_a_log_whose_values_its_partition_does_not_have(base: Path):
    """What column_stats says of it is held against the partition's record."""
    key, record = next(
        (key, record)
        for key, record in records(base, "column_stats").items()
        if isinstance(record, ColumnStatsRecord)
        and (record.column, record.max_value is None) == ("ts", False)
        and ".log." in str(record.file_name)
    )
    put_record(base, "column_stats", key, replace(record, max_value=record.max_value + 1000, is_tight=True))
    problem = the_problem(base)
    assert problem.check == "partition_stats"
    assert problem.what.startswith(f"Column ts, file {record.file_name}: ")


def test_a_partition_that_is_said_to_hold_more(base: Path):
    """Reading it fails."""
    change_record(
        base,
        "partition_stats",
        of_partition,
        lambda record: replace(record, max_value="z", value_count=1, is_tight=True),  # type: ignore[arg-type, call-arg]
    )
    assert check(base).problems == ()


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"bloom_filter": b"AAAA"}, "another bloom filter"),
        ({"type_code": "SIMPLE"}, "reads it as SIMPLE"),
        ({"is_deleted": True, "bloom_filter": b"", "type_code": ""}, "bloom filter|not that of a file"),
    ],
)
def test_a_wrong_bloom_filter(base: Path, change: dict[str, object], shown: str):
    """Lookups by it miss keys, or fail."""
    change_record(
        base,
        "bloom_filters",
        lambda record: isinstance(record, BloomFilterRecord),
        lambda record: replace(record, **change),  # type: ignore[arg-type]
    )
    problem = the_problem(base)
    assert (problem.check, problem.subject) == ("bloom_filters", f"p/{base_file(base).name}")
    assert any(part in problem.what for part in shown.split("|"))


def test_a_key_that_leads_elsewhere(base: Path):
    """It is found from the row, and from the entry."""
    entry = records(base, "record_index")["k1"]
    assert isinstance(entry, RecordIndexRecord)
    other = "11111111-1111-1111-1111-111111111111-0"
    put_record(base, "record_index", "k1", replace(entry, file_id=other))

    by_row, by_entry = check(base).problems
    assert (by_row.check, by_row.subject) == (by_entry.check, by_entry.subject) == ("record_index", "k1")
    assert f"the index says p, {other}" in by_row.what
    assert f"says that it is in p, {other}" in by_entry.what


def test_a_key_that_has_no_row(base: Path):
    """k4 was deleted by a log; and a key that never was."""
    entry = records(base, "record_index")["k1"]
    put_record(base, "record_index", "k4", entry)
    problem = the_problem(base)
    assert problem.subject == "k4"
    assert "no such row" in problem.what
    put_record(base, "record_index", "zzz", entry)
    assert the_problem(base).subject == "zzz"


def test_what_is_seen_once_is_no_problem(base: Path):
    """Keeps 2 of services/verification/metadata_check: a writer was at work: at the second snapshot it is as it should
    be."""
    path, aside = base_file(base), base / "aside"
    path.rename(aside)
    scans = 0

    def scan_and_restore() -> TableSnapshot:
        nonlocal scans
        scans += 1
        if scans == 2 and aside.exists():
            aside.rename(path)
        return scan(base)

    assert check(base, scan_and_restore).problems == ()
    assert scans >= 2


class Cleaned(LocalStorage):
    """A file of the metadata table is cleaned away just before it is opened for the first time."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self._ending = ending
        self.is_cleaned = False

    def open_input(self, path: str) -> BinaryIO:
        if path.endswith(self._ending) and not self.is_cleaned:
            self.is_cleaned = True
            raise NotFound(path)
        return super().open_input(path)


def test_what_is_cleaned_meanwhile_is_checked_again(base: Path):
    """The metadata table has services of its own, which remove files between our snapshot and our reading."""
    (base_file,) = (base / ".hoodie/metadata/bloom_filters").glob("*.hfile")
    storage = Cleaned(base_file.name)
    report = check_metadata(storage, lambda: scan(base), size=ALL, clock=SkippingClock())
    assert storage.is_cleaned
    assert report.problems == ()


def test_files_that_are_cleaned_meanwhile_are_passed_over(base: Path):
    """Keeps of services/verification/stats_check, and Keeps of services/verification/record_index_check: what the
    metadata table says wrongly of a file that is gone misleads no reader."""
    snapshot = scan(base)
    view = view_metadata(LocalStorage(), snapshot, SkippingClock())
    sample = sample_keys(LocalStorage(), snapshot, view.base_files, 10, seed=1, meter=view.meter)
    entries = first_entries(view, keys=10, groups=None)
    base_file(base).unlink()
    assert sample and entries

    assert check_column_stats(view, view.base_files) == check_blooms(view, view.base_files) == []
    assert check_partition_stats(view, view.base_files) == []
    notes: list[str] = []
    assert check_rows_in_index(view, dict.fromkeys(sample, ("no such key",)), on_note=notes.append) == []
    assert check_index_in_rows(view, dict.fromkeys(entries, ("no such key",)), on_note=notes.append) == []
    assert notes == []


def test_entries_of_a_file_group_that_is_frozen_are_not_wrong(base: Path):
    """Which rows it has cannot be known: nothing is said of them."""
    snapshot = scan(base)
    frozen = tuple(
        FrozenGroup(*each.group_id, "1", "why") for group in snapshot.file_groups for each in group.slices[:1]
    )
    view = view_metadata(LocalStorage(), replace(snapshot, file_groups=(), frozen=frozen), SkippingClock())
    entries = first_entries(view, keys=10, groups=None)
    assert entries
    assert check_index_in_rows(view, entries, on_note=lambda note: None) == []


def test_logs_that_cannot_be_merged_are_a_note(base: Path, monkeypatch: pytest.MonkeyPatch):
    """What is wrong in the other file groups is shown all the same, and no bound is given."""

    def unsupported(*given: object, **named: object) -> None:
        raise Unsupported("The log is of another kind.", why="It is.")

    monkeypatch.setattr("lakeward.index.placed_keys.find_rows", unsupported)
    other = "11111111-1111-1111-1111-111111111111-0"
    entry = records(base, "record_index")["k1"]
    assert isinstance(entry, RecordIndexRecord)
    put_record(base, "record_index", "k1", replace(entry, file_id=other))
    report = check(base)
    assert report.problems == ()
    assert report.notes == ("record_index: The log is of another kind. It is.",)
    assert [each.note for each in report.checks if each.name == "record_index"] == [""]


def test_partitions_and_folders_go_together(base: Path):
    """One without the other is named; the rest is checked all the same."""
    metadata = base / ".hoodie/metadata"
    (metadata / "bloom_filters").rename(metadata / "expr_index_old")

    missing, strange = check(base).problems
    assert (missing.check, missing.subject) == ("partitions", "bloom_filters")
    assert (strange.check, strange.subject) == ("partitions", "expr_index_old")
    assert "column_stats" in {part.name for part in check(base).checks}
    shutil.rmtree(metadata)
    assert {problem.subject for problem in check(base).problems} >= {"files", "record_index"}


def test_a_metadata_table_that_cannot_be_read_is_a_problem(base: Path):
    """It is no error: that is what verification is for."""
    for path in (base / ".hoodie/metadata/files").glob("*.hfile"):
        path.write_bytes(path.read_bytes()[:100])
    problem = the_problem(base)
    assert "hfile" in problem.what
    assert "metadata disable" in problem.remedy


def test_a_footer_that_hides_rows_is_shown(base: Path):
    """Keeps 2 of read/row_lookup: by its statistics the row group has one key, which a log deleted, and no other."""
    path = base_file(base)
    data = path.read_bytes()
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:at] + data[at:].replace(b"k1", b"k5").replace(b"k6", b"k5"))
    (problem,) = (problem for problem in check(base).problems if problem.check == "record_index")
    assert problem.subject.startswith("p/")
    assert "hides the row with the key 'k6'" in problem.what
    assert "write the row again" in problem.remedy


def test_what_is_read_of_the_rows_is_shown(base: Path):
    """The columns that a check compares, not all, and where it needs no rows nothing."""
    read = {part.name: part.read for part in check(base).checks}
    assert [name for name, meter in read.items() if meter is not None] == ["record_index", "record_index entries"]
    entries = read["record_index entries"]
    assert entries is not None
    assert 0 < entries.bytes_read < 0.6 * entries.bytes_stored


def test_equal_seeds_give_equal_samples(base: Path):
    """Keeps 1 of services/verification/metadata_check, and Keeps 1 of read/row_lookup: a sample also has the size that
    was asked for."""
    report = check(base, size=SampleSize(1, 3, seed=5))
    assert report == check(base, size=SampleSize(1, 3, seed=5))
    assert report.checks[4].checked == 3


def test_the_bound_is_the_rule_of_three():
    """No key wrong of n: with 95% confidence fewer than 3/n are."""
    assert error_bound(1000) == 0.003
    assert error_bound(2) == error_bound(0) == 1.0
