"""The metadata table's own timeline is archived after its table's, where only Lakeward is there to do it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakeward.format.timeline.instant import State, parse_instant
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archive_preview import preview_archive
from lakeward.services.archive.run.archiver import ArchiveReport
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.metadata.plan.dead_slices import RETAINED_COMMITS
from lakeward.table.timeline.archived import load_history
from tests.life.small_table import BASE, TIMELINE, Kind, SmallTable, without_threads

OPTIONS = ArchiveOptions(4, 6, 2, 1)
COMMITS = 60


@pytest.fixture
def table() -> Iterator[SmallTable]:
    """Sixty commits, the metadata table compacted after most of them, and nothing archived."""
    made = SmallTable(Kind.WITH_METADATA)
    made.storage.watch = lambda change, path: None
    with without_threads():
        for number in range(1, COMMITS + 1):
            made.complete(made.begin(number, {number % made.keys}))
            made.clock.sleep(60.0)
            if number == COMMITS // 2:
                made.compact(CompactionType.FULL)
                made.clean(CleanPolicy(CleanPolicyKind.COMMITS, 2))
        made.service_metadata()
        yield made


def completed(table: SmallTable, folder: str) -> list[str]:
    """Instants of writes on a timeline, by time."""
    found = [parse_instant(name, 2) for name in table.storage.names(folder)]
    return sorted({each.time for each in found if each is not None and each.state is State.COMPLETED})


def in_history(table: SmallTable) -> list[str]:
    """First and last instant of each file of the metadata table's archive."""
    files = load_history(table.storage, f"{table.metadata.path}/.hoodie/timeline/history").sizes
    return [time for file in files for time in (file.first, file.last)]


def archived_of_metadata(report: ArchiveReport) -> list[str]:
    assert isinstance(report.metadata, ArchiveReport)
    return [instant.time for instant in report.metadata.archived]


def test_it_follows_its_tables(table: SmallTable) -> None:
    """Nothing goes that is not older than all that the table keeps; what a clean counts stays."""
    before = completed(table, table.metadata.timeline)
    plan = preview_archive(table.storage, BASE, OPTIONS, clock=table.clock, timezone="UTC")
    assert completed(table, table.metadata.timeline) == before
    report = table.archive(OPTIONS)
    gone = archived_of_metadata(report)
    assert isinstance(report.metadata, ArchiveReport)
    assert plan.metadata == report.metadata.plan
    assert len(gone) > 20 and report.archived
    own = completed(table, TIMELINE)
    assert all(int(time) < int(own[0]) for time in gone)
    left = completed(table, table.metadata.timeline)
    assert sorted([*left, *gone], key=int) == sorted(before, key=int)
    assert len(left) == RETAINED_COMMITS + 1, "more than Hudi's cleaner of the metadata table retains"
    assert in_history(table)[0] == min(gone, key=int)
    assert table.archive(OPTIONS).metadata is not None
    assert completed(table, table.metadata.timeline) == left


def test_nothing_goes_that_was_not_compacted(table: SmallTable) -> None:
    """A block of a log counts while its instant is on one of the timelines."""
    compactions = [name for name in table.storage.names(table.metadata.timeline) if name.endswith(".commit")]
    for name in [*table.storage.names(table.metadata.timeline)]:
        if name.partition("_")[0].partition(".")[0] in {each.partition("_")[0] for each in compactions}:
            table.storage.delete(f"{table.metadata.timeline}/{name}")
    report = table.archive(OPTIONS)
    assert archived_of_metadata(report) == []


def test_what_no_instant_explains_stays_hidden(table: SmallTable) -> None:
    """Once the timeline began after its instant every reader would take it for committed."""
    first = completed(table, table.metadata.timeline)[1]
    stray = f"{table.metadata.path}/files/.files-0000-0_{int(first) + 1}.log.1_0-9-0"
    table.storage.create(stray, b"left")
    report = table.archive(OPTIONS)
    assert isinstance(report.metadata, ArchiveReport)
    assert len(report.metadata.archived) <= 1
    assert report.metadata.plan.blocked_by is not None
    assert report.metadata.plan.blocked_by.reason.value == "uncommitted-files"
    assert report.archived, "its table's timeline is archived all the same"


def test_a_metadata_table_that_is_not_understood_holds_nothing_back(table: SmallTable) -> None:
    """Keeps of services/archive/run/archived_timeline."""
    table.storage.create(f"{table.metadata.path}/files/strange.log.x", b"?")
    report = table.archive(OPTIONS)
    assert report.archived
    assert isinstance(report.metadata, str) and "strange.log.x" in report.metadata
