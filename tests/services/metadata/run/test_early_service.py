"""The services of a metadata table before its writers have to: on a table of Hudi's whose limit its timeline shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeward.base.errors import Cancelled, TryLater
from lakeward.protocol.lock.lock_choice import stopped_writers_options
from lakeward.protocol.lock.table_lock import Guard
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.progress import Count, Silent
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.metadata.plan.due_before_writers import MetadataTrigger
from lakeward.services.metadata.run.early_service import MetadataReport, scan_trigger, service_metadata
from lakeward.storage.storage import Storage
from lakeward.table.metadata.compact_after import AUTO, MetadataCompactAfter
from lakeward.table.table_config import load_table_config
from lakeward.table.timeline.timeline_reader import TimelineCache
from tests.called_storage import WRITES
from tests.clocks import SkippingClock
from tests.faults import Fault, FaultKind, FaultyStorage
from tests.golden_tables import copy_golden
from tests.metadata_golden import GOLDEN, METADATA_TIMELINE
from tests.processes import ScriptedProcesses
from tests.services.metadata.run.compacting_metadata import compact_metadata

NOW = "20261121143000000"
"""After everything on the golden table's timelines."""


class Counts(Silent):
    def __init__(self) -> None:
        self.found: list[Count] = []

    def counted(self, count: Count, number: int = 1) -> None:
        self.found += [count] * number


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return copy_golden(GOLDEN, tmp_path / "table")


def scan(table: Path, after: MetadataCompactAfter = AUTO, cache: TimelineCache | None = None) -> MetadataTrigger | None:
    storage, clock = FaultyStorage(), SkippingClock()
    config = load_table_config(storage, str(table), clock=clock).config
    return scan_trigger(storage, str(table), config, after=after, clock=clock, cache=cache)


def service(
    table: Path,
    storage: Storage,
    counts: Counts | None = None,
    *,
    after: MetadataCompactAfter,
    guard: Guard = lambda: None,
) -> MetadataReport:
    serviced = ServicedTable.for_one_attempt(
        storage,
        str(table),
        CompactionOptions(writers_stopped=True, lock=stopped_writers_options(wait_seconds=0.0), timezone="UTC"),
        clock=SkippingClock(),
        processes=ScriptedProcesses(),
        observer=counts or Counts(),
        guard=guard,
    )
    return service_metadata(serviced, after=after)


@pytest.mark.parametrize("after", [AUTO, 0, 2, 100])
def test_where_nothing_is_due_nothing_is_written(table: Path, after: MetadataCompactAfter):
    """A lock is not written either; what it costs is a listing. Keeps 1 of services/metadata/run/early_service."""
    storage = FaultyStorage()

    report = service(table, storage, after=after)

    assert report.done is report.left is None
    assert not [call for call in storage.calls if call.split()[0] in WRITES]
    assert len(storage.calls) < 10


def test_a_table_without_a_metadata_table_asks_for_nothing(tmp_path: Path):
    """One read of its properties says so."""
    table = copy_golden("v9", tmp_path / "table")
    assert service(table, FaultyStorage(), after=AUTO) == MetadataReport()


def test_what_is_due_is_done_and_then_it_is_not(table: Path):
    """It is in the report with its cost, and counted."""
    counts = Counts()
    report = service(table, FaultyStorage(), counts, after=1)
    assert report.done is not None and report.done.compaction is not None and report.left is None
    assert report.trigger is not None and report.trigger.delta_commits == 1
    assert counts.found == [Count.METADATA_COMPACTION]
    found = scan(table, after=1)
    assert found is not None and (found.delta_commits, found.is_due) == (0, False)


def test_our_compactions_do_not_lower_the_limit(table: Path):
    """They come sooner than a writer's; what writers made shows the limit, before and after."""
    before = scan(table)
    assert before is not None and before.limit == 3

    assert compact_metadata(table, FaultyStorage()) is not None

    after = scan(table)
    assert after is not None and (after.limit, after.delta_commits) == (3, 0)


def test_each_plan_is_read_once(table: Path):
    """What is on the timeline no more is forgotten."""
    cache: TimelineCache = {"gone": None}
    first = scan(table, cache=cache)
    assert cache and "gone" not in cache
    for path in (table / METADATA_TIMELINE).glob("*.compaction.requested"):
        path.write_bytes(b"not read again")
    assert scan(table, cache=cache) == first


def test_what_prevents_it_is_shown_and_passes(table: Path):
    """A plan that is a Hudi writer's to finish; nothing was changed. Keeps 2 of services/metadata/run/early_service."""
    (requested, *_) = (table / METADATA_TIMELINE).glob("*.compaction.requested")
    (table / METADATA_TIMELINE / f"{NOW}.compaction.requested").write_bytes(requested.read_bytes())
    counts = Counts()
    report = service(table, FaultyStorage(), counts, after=1)
    assert isinstance(report.left, TryLater) and report.done is None
    assert counts.found == [Count.METADATA_LEFT]


def test_a_storage_that_fails_is_shown_too(table: Path):
    """It fails at each call that the scan makes, and at the first that would take the lock."""
    clean = FaultyStorage()
    service(shutil.copytree(table, table.parent / "trial", copy_function=shutil.copy2), clean, after=1)
    first_write = next(number for number, call in enumerate(clean.calls) if call.split()[0] in WRITES)
    for number in range(first_write + 1):
        report = service(table, FaultyStorage(Fault(FaultKind.BEFORE, number)), after=1)
        assert isinstance(report.left, OSError), number


def test_a_guard_that_stops_us_is_obeyed(table: Path):
    """A lease that ended or an operator who cancels is not something that prevents the services."""

    def stop() -> None:
        raise Cancelled("It is enough.")

    with pytest.raises(Cancelled):
        service(table, FaultyStorage(), after=1, guard=stop)
