"""One compaction of the golden table with a metadata table, and what must be true of the two at any moment."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lakeward.format.metadata.key import bloom_filter_key, column_stats_key
from lakeward.format.timeline.instant import State
from lakeward.services.compaction.plan.planner import Planner
from lakeward.storage.local import LocalStorage
from lakeward.table.index_definitions import load_indexed_columns
from lakeward.table.listing_source import ListingSource
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.metadata.metadata_table import load_metadata_table
from lakeward.table.snapshot import TableSnapshot, take_snapshot
from tests.clocks import SkippingClock
from tests.crash.compacting import FULL, LOG, everything, is_leftover
from tests.golden_tables import expected_rows
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA, METADATA_TIMELINE, timeline
from tests.our_reader import read_rows


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    planner: Planner
    pending: str
    completed: str


SERVICES = (Service("full", FULL, "compaction", "commit"), Service("log", LOG, "logcompaction", "deltacommit"))


def snapshot_of(base: Path, source: ListingSource) -> TableSnapshot:
    return take_snapshot(LocalStorage(), str(base), timezone="UTC", clock=SkippingClock(), listing=source)


def check_readable(base: Path) -> None:
    """True at every moment."""
    assert read_rows(base) == expected_rows(GOLDEN)
    check_agrees(base)


def check_agrees(base: Path) -> None:
    """True at every moment of any table: the metadata table lists what is there, and nothing is completed twice."""
    stored = snapshot_of(base, ListingSource.STORAGE)
    assert snapshot_of(base, ListingSource.METADATA) == replace(stored, uncommitted_files=())
    for folder in (DATA_TIMELINE, METADATA_TIMELINE):
        done = (each for each in timeline(base, folder) if each.state is State.COMPLETED)
        completed = [each.time for each in done if each.action != "savepoint"]  # which has the time of its commit
        assert len(completed) == len(set(completed)), completed


def check_finished(base: Path, service: Service) -> None:
    """True in the end: one commit on each timeline, the metadata table's first; all records; nothing left over."""
    check_readable(base)
    (instant,) = {i.time for i in timeline(base, DATA_TIMELINE) if i.action == service.pending}
    (metadata,) = [i for i in timeline(base, METADATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    (data,) = [i for i in timeline(base, DATA_TIMELINE) if i.time == instant and i.state is State.COMPLETED]
    assert data.action == service.completed
    assert instant < str(metadata.completion_time) < str(data.completion_time)
    assert [path for path in everything(base) if is_leftover(path)] == []
    check_records(base, instant)


def check_records(base: Path, instant: str) -> None:
    storage, clock = LocalStorage(), SkippingClock()
    snapshot = snapshot_of(base, ListingSource.STORAGE)
    assert snapshot.schema is not None
    reader = MetadataReader(
        storage, load_metadata_table(storage, str(base), snapshot.config, snapshot.timeline, clock=clock)
    )
    indexed = load_indexed_columns(storage, str(base), snapshot.config, snapshot.schema)
    assert indexed is not None
    names = [path.name for path in (base / "p").iterdir() if instant in path.name]
    (name,) = names
    keys = [column_stats_key(column, "p", name) for column in indexed.columns]
    assert sorted(reader.lookup("column_stats", keys)) == sorted(keys)
    filters = reader.lookup("bloom_filters", [bloom_filter_key("p", name)])
    assert len(filters) == (1 if name.endswith(".parquet") else 0)
    logs = [path for path in everything(base) if path.startswith(METADATA) and f"_{instant}.log" in path]
    assert len(logs) == len({path.rpartition(".log.")[0] for path in logs}), "one for each file group"
