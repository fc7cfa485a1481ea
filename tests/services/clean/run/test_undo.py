"""A clean that is undone: what comes back, who may end it, and what forbids it."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Conflict, LakewardError, Refused, TryLater, UsageError
from lakeward.format.metadata.key import bloom_filter_key, column_stats_key
from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS
from lakeward.format.metadata.record import BloomFilterRecord, ColumnStatsRecord, MetadataRecord
from lakeward.format.timeline.clean_metadata import VERSION, CleanMetadata, write_clean_metadata
from lakeward.format.timeline.savepoint_metadata import SavepointMetadata, write_savepoint_metadata
from lakeward.protocol.metadata.snapshot import take_metadata_snapshot
from lakeward.protocol.progress import Silent
from lakeward.protocol.quarantine import begin_undo, bring_back
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.clean.run.cleaner import Cleaner
from lakeward.services.clean.run.purge import purge_quarantine
from lakeward.services.clean.run.undo import UndoneClean, preview_undo, undo_clean
from lakeward.storage.local import LocalStorage
from lakeward.table.metadata.metadata_reader import MetadataReader
from lakeward.table.quarantine import load_quarantine
from tests.clocks import SkippingClock
from tests.crash.compacting import check_readable
from tests.crash.metadata_compacting import check_agrees
from tests.faults import Fault, FaultKind, FaultyStorage, Killed
from tests.metadata_golden import GOLDEN as WITH_METADATA
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.clean.run.cleaning import TIMELINE, clean, compacted, completed_cleans, data_files
from tests.services.metadata.run.compacting_metadata import serviced_table

HOUR = 3600.0
INSTANT = "20260701000000000"


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compacted("v9", tmp_path_factory.mktemp("golden") / "table")


@pytest.fixture
def base(golden: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(golden, tmp_path / "table", copy_function=shutil.copy2))


def table_at(base: Path, **changes: object) -> ServicedTable:
    return replace(serviced_table(str(base), LocalStorage(), ScriptedProcesses()), **changes)  # type: ignore[arg-type]


def undo(base: Path, run: str, **changes: object) -> UndoneClean:
    return undo_clean(table_at(base, **changes), run)


def taken(base: Path) -> str:
    """Clean, and say by which instant."""
    (cleaned,) = clean(base, LocalStorage(), keep_seconds=HOUR).cleans
    return cleaned.instant


@pytest.mark.parametrize("kind", ["v9", WITH_METADATA])
def test_an_undone_clean_is_as_if_it_had_never_been(kind: str, tmp_path: Path):
    """Every file is back and listed, the last clean says what the table can be read as of, nothing is left over, and it
    can be cleaned again."""
    base = compacted(kind, tmp_path / "table")
    before = {path: (base / path).read_bytes() for path in data_files(base)}
    run = taken(base)
    assert preview_undo(table_at(base), run).instant is None
    done = undo(base, run)

    assert {path: (base / path).read_bytes() for path in data_files(base)} == before
    assert load_quarantine(LocalStorage(), str(base)).runs == ()
    (last,) = (each for name, each in completed_cleans(base).items() if name.startswith(done.instant or "-"))
    assert last.extra_metadata["lakeward.undoes"] == run and last.partitions == {}
    assert last.earliest_retained == done.plan.earliest.time
    if kind == WITH_METADATA:
        check_agrees(base)
    else:
        check_readable(base)
    with pytest.raises(UsageError, match="undone already"):
        undo(base, run)
    assert len(clean(base, LocalStorage()).cleans) == 1


def test_what_a_dead_process_began_to_keep_is_kept_on(base: Path, tmp_path: Path):
    """Who ends the clean is asked to keep nothing, as an undo is: it sets the rest aside all the same."""
    unhurt = FaultyStorage()
    clean(Path(shutil.copytree(base, tmp_path / "trial")), unhurt, keep_seconds=HOUR)
    moves = [n for n, call in enumerate(unhurt.calls) if call.startswith("move ") and "/p/" in call]
    before, processes = data_files(base), ScriptedProcesses()
    with pytest.raises(Killed):
        clean(base, FaultyStorage(Fault(FaultKind.KILL, moves[1])), processes, keep_seconds=HOUR)
    processes.kill_all()
    (run,) = load_quarantine(LocalStorage(), str(base)).runs
    assert 0 < len(before) - len(data_files(base)) < len(run.files)
    table = serviced_table(str(base), LocalStorage(), processes)
    assert undo_clean(table, run.run).instant is not None
    assert data_files(base) == before


def test_statistics_and_filters_come_back_as_they_were(tmp_path: Path):
    """What the metadata table says of the columns of each file, and its bloom filter, is what it said before."""
    base = compacted(WITH_METADATA, tmp_path / "table")
    held = known_of(base, data_files(base))
    run = taken(base)
    (kept,) = load_quarantine(LocalStorage(), str(base)).runs
    gone = {file.path for file in kept.files}
    assert {key for path in gone for key in held[path]} and not any(known_of(base, gone).values())
    undo(base, run)

    back = known_of(base, gone)
    for path in gone:
        assert back[path].keys() == held[path].keys()
        for key, record in held[path].items():
            if isinstance(record, BloomFilterRecord):
                found = back[path][key]
                assert isinstance(found, BloomFilterRecord)
                assert (found.type_code, found.bloom_filter) == (record.type_code, record.bloom_filter)
            else:
                assert facts_of(back[path][key]) == facts_of(record)


def facts_of(record: MetadataRecord) -> tuple[object, ...]:
    """What queries skip files by. The counts are summed with what is in a base file of the metadata table yet."""
    assert isinstance(record, ColumnStatsRecord) and record.value_count is not None and record.null_count is not None
    share = (record.null_count == 0, record.null_count == record.value_count)
    return record.column, record.file_name, record.min_value, record.max_value, share, record.is_deleted


def known_of(base: Path, paths: Collection[str]) -> dict[str, dict[str, MetadataRecord]]:
    """The records of column_stats and bloom_filters of each of these files, by key."""
    snapshot = scan(base)
    metadata = take_metadata_snapshot(LocalStorage(), snapshot, clock=SkippingClock())
    assert metadata.indexed is not None
    reader = MetadataReader(LocalStorage(), metadata.table)
    found = {}
    for path in paths:
        partition, _, name = path.rpartition("/")
        columns = [column_stats_key(column, partition, name) for column in metadata.indexed.columns]
        found[path] = reader.lookup(COLUMN_STATS, columns) | reader.lookup(
            BLOOM_FILTERS, [bloom_filter_key(partition, name)]
        )
    return found


def test_what_forbids_it_is_said_before_anything_is_written(base: Path):
    """Keeps 1 of services/clean/run/undo."""
    (cleaned,) = clean(base, LocalStorage()).cleans
    before = sorted(path.name for path in (base / TIMELINE).iterdir())
    for attempt in (lambda: undo(base, cleaned.instant), lambda: preview_undo(table_at(base), cleaned.instant)):
        with pytest.raises(Refused, match="deleted at once"):
            attempt()
    assert sorted(path.name for path in (base / TIMELINE).iterdir()) == before


def test_a_file_that_is_nowhere_is_named(base: Path):
    """Then nothing comes back."""
    run = taken(base)
    (held,) = load_quarantine(LocalStorage(), str(base)).runs
    lost = next(path for path in (base / ".hoodie/.quarantine").rglob(held.files[0].name))
    lost.unlink()
    left = data_files(base)
    with pytest.raises(Refused, match="nowhere"):
        undo(base, run)
    assert data_files(base) == left


def test_beside_a_clean_of_another_process_nothing_is_undone(base: Path):
    """Keeps 2 of services/clean/run/undo."""
    run = taken(base)
    requested = base / TIMELINE / f"{INSTANT}.clean.requested"
    (own,) = (base / TIMELINE).glob("*.clean.requested")
    requested.write_bytes(own.read_bytes().replace(b"planned_by", b"planned_xy"))
    table = serviced_table(str(base), LocalStorage(), ScriptedProcesses(), writers_stopped=False)
    with pytest.raises(TryLater, match="pending"):
        undo_clean(table, run)


def test_a_clean_ends_an_undo_that_a_dead_process_began(base: Path, tmp_path: Path):
    """The next `lakeward clean` brings the rest back, lists it, and forgets the run. What forbids an undo is asked
    again under the lock. Keeps 3 of services/clean/run/undo_run."""
    before = data_files(base)
    run = taken(base)
    unhurt = FaultyStorage()
    trial = Path(shutil.copytree(base, tmp_path / "trial", copy_function=shutil.copy2))
    undo_clean(serviced_table(str(trial), unhurt, ScriptedProcesses()), run)
    call = next(n for n, each in enumerate(unhurt.calls) if each.startswith("move ") and "/.hoodie/" not in each)
    processes = ScriptedProcesses()
    with pytest.raises(Killed):
        undo_clean(serviced_table(str(base), FaultyStorage(Fault(FaultKind.KILL, call)), processes), run)
    processes.kill_all()
    table = serviced_table(str(base), LocalStorage(), processes)
    (ended,) = Cleaner(table, {}).end_pending().cleans
    assert (ended.undoes, ended.recovered) == (run, True) and ended.files > 0
    assert data_files(base) == before
    purge_quarantine(table, bytes_max=None)
    assert load_quarantine(LocalStorage(), str(base)).runs == ()


class Meanwhile(Silent):
    """Does something at a step, once."""

    def __init__(self, at: str, act: object) -> None:
        self._at, self._act = at, act

    def step(self, text: str) -> None:
        if self._at in text and self._act is not None:
            act, self._act = self._act, None
            act()  # type: ignore[operator]


def test_a_restore_that_comes_meanwhile_forbids_it(base: Path):
    """It is asked under the lock; the next run ends the clean as one that brings nothing back. Keeps 2 of
    services/clean/run/undo_run."""
    run = taken(base)

    def restore() -> None:
        (base / TIMELINE / "20990101000000000.restore.requested").write_bytes(b"plan")

    with pytest.raises(LakewardError):
        undo(base, run, observer=Meanwhile("brought files back", restore))
    (base / TIMELINE / "20990101000000000.restore.requested").unlink()
    assert all("lakeward.undoes" not in each.extra_metadata for each in completed_cleans(base).values())


def test_a_file_that_goes_meanwhile_forbids_it(base: Path):
    """A completed clean says that it undoes another only once every file is in its place. Keeps 1 of
    services/clean/run/undo_run."""
    before = data_files(base)
    run = taken(base)

    def take_away() -> None:
        held = load_quarantine(LocalStorage(), str(base)).runs[0]
        victim = held.files[0].path
        (base / victim).rename(base / ".hoodie" / "elsewhere")

    with pytest.raises((Conflict, Refused)):
        undo(base, run, observer=Meanwhile("has done its work", take_away))
    assert all("lakeward.undoes" not in each.extra_metadata for each in completed_cleans(base).values())
    held = load_quarantine(LocalStorage(), str(base)).runs[0]
    (base / ".hoodie" / "elsewhere").rename(base / held.files[0].path)
    undo(base, run)
    assert data_files(base) == before


def test_what_hudi_ended_goes_aside_again(base: Path):
    """Hudi completes the undo as a clean of no files: what was brought back by then is in no listing, so it goes back
    into the quarantine, and then by its time. Keeps 3 of services/clean/run/purge."""
    run = taken(base)
    without = data_files(base)
    (held,) = load_quarantine(LocalStorage(), str(base)).runs
    instant = "20990101000000000"
    begin_undo(LocalStorage(), str(base), run, instant)
    bring_back(LocalStorage(), str(base), run, held.files[:1])
    completed = CleanMetadata(VERSION, instant=instant, extra_metadata={"lakeward.undo-of": run})
    (base / TIMELINE / f"{instant}_20990101000000001.clean").write_bytes(write_clean_metadata(completed))

    purge_quarantine(table_at(base), bytes_max=None)
    assert data_files(base) == without
    (held,) = load_quarantine(LocalStorage(), str(base)).runs
    assert held.undone_by is None and not held.is_purging


def test_a_savepoint_of_what_came_back_is_made_again(base: Path):
    """An undone clean does not stand in the way of a savepoint; what a savepoint names stays after the next clean."""
    run = taken(base)
    undo(base, run)
    time = min(path.name.split("_")[0] for path in (base / TIMELINE).glob("*.deltacommit"))
    names = tuple(path.rpartition("/")[2] for path in sorted(data_files(base)))
    content = write_savepoint_metadata(SavepointMetadata("me", "", {"p": names}))
    (base / TIMELINE / f"{time}.savepoint.inflight").touch()
    (base / TIMELINE / f"{time}_20990101000000000.savepoint").write_bytes(content)
    assert clean(base, LocalStorage()).cleans == ()
