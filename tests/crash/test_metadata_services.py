"""Services of the metadata table, stopped at every call to the storage: readers see no difference. A row is one of them
on one table; the loop is in tests/crash/harness.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.format.metadata.partition import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from lakeward.format.timeline.instant import State
from lakeward.index.out_of_use import FOLDER
from tests.crash.compacting import everything
from tests.crash.harness import Case, Extent, Place, Row, cases_of
from tests.faults import FaultKind
from tests.processes import ScriptedProcesses
from tests.services.metadata.run import test_indexing_abort, test_removal
from tests.services.metadata.run.compacting_metadata import VERSION_10, clean_metadata, compact_metadata, copy_table
from tests.services.metadata.run.test_compaction import (
    GOLDEN,
    base_files,
    compactions,
    metadata_leftovers,
    records,
)
from tests.services.metadata.run.test_metadata_clean import cleans, compacted_copy, files, older_files
from tests.services.metadata.run.test_removal import config
from tests.services.together.metadata_index import test_initial_build

pytestmark = pytest.mark.crash

KILL = FaultKind.KILL
SECONDARY = "secondary_index_by_v"


def compacting_metadata(version: str, folder: Path) -> Case:
    """Running again leaves one compaction, whole, and nothing of an attempt that died. Keeps 3 of
    services/metadata/run/recovery."""
    table = copy_table(version, folder)
    before, own = records(table), len(compactions(table))

    def check_now(base: Path, whole: Path) -> None:
        assert records(base) == before

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert len(compactions(base)) == own + 1
        assert compactions(base, State.REQUESTED) == compactions(base, State.INFLIGHT) == compactions(base)
        assert {instant for _, instant in base_files(base) - base_files(table)} == {compactions(base)[-1]}
        assert metadata_leftovers(base) == []

    return Case(table=table, run=compact_metadata, check_now=check_now, check_end=check_end)


def cleaning_metadata(version: str, folder: Path) -> Case:
    """Running again leaves one clean, whole, that did what it said. Keeps 2 of services/metadata/run/metadata_round."""
    table = compacted_copy(version, folder)
    before, wanted, own = records(table), files(table) - older_files(table), len(compactions(table))

    def again(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        """A compaction tidies up what died before its plan."""
        clean_metadata(base, storage, processes, **options)
        compact_metadata(base, storage, processes, **options)

    def check_now(base: Path, whole: Path) -> None:
        assert records(base) == before
        assert files(base) >= wanted

    def check_end(base: Path, whole: Path) -> None:
        assert records(base) == before
        assert files(base) == wanted
        assert len(cleans(base, State.COMPLETED)) == 1
        assert cleans(base, State.REQUESTED) == cleans(base, State.INFLIGHT) == cleans(base, State.COMPLETED)
        assert len(compactions(base)) == own
        assert metadata_leftovers(base) == []

    return Case(table=table, run=clean_metadata, again=again, check_now=check_now, check_end=check_end)


def aborting_an_indexing(golden: str, folder: Path) -> Case:
    """In the end nothing of the dead indexing is left, and no partition that is named is gone. Keeps 3 of
    services/metadata/run/indexing_abort."""
    table = test_indexing_abort.dead_indexing(golden, folder)
    others = test_indexing_abort.parts(table) - {test_indexing_abort.PARTITION}

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        test_indexing_abort.abort(base, storage)

    def again(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        (base / ".hoodie/lock").unlink(missing_ok=True)
        test_indexing_abort.abort(base, storage, stopped=True)

    def check_now(base: Path, whole: Path) -> None:
        assert set(config(base).built_metadata_partitions) <= test_indexing_abort.parts(base)

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        assert (test_indexing_abort.parts(base), config(base).inflight_metadata_partitions) == (others, ())
        left = {path for path in everything(base) if not path.endswith((".lakeward-tmp", "/lock"))}
        assert {path for path in left if test_indexing_abort.INSTANT in path} == set()
        removed = {path for path in left if path.startswith(".hoodie/.temp/removed-metadata")}
        assert left <= set(everything(whole)) | removed

    return Case(table=table, run=run, again=again, check_now=check_now, check_end=check_end)


def building_an_index(name: str, folder: Path) -> Case:
    """The properties name no index but one that is right, and the next build makes one and leaves nothing. Keeps 2 of
    services/together/metadata_index/initial_build."""
    table = test_initial_build.unindexed(folder)
    rows, make = test_initial_build.truth(table), test_initial_build.of_keys
    if name in (COLUMN_STATS, PARTITION_STATS):
        make = test_initial_build.OF_FILES[name]
        test_removal.remove(table, PARTITION_STATS)
    if name == COLUMN_STATS:
        test_removal.remove(table, COLUMN_STATS)
    if name == BLOOM_FILTERS:
        make = test_initial_build.of_filters
    if name == SECONDARY:
        test_initial_build.build(table)
        make = test_initial_build.of_values()
    built = config(table).built_metadata_partitions

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        test_initial_build.build(base, storage, processes, make)

    def check_now(base: Path, whole: Path) -> None:
        assert test_initial_build.truth(base) == rows
        if config(base).built_metadata_partitions != built:
            assert records(base)[name] == records(whole)[name]

    def check_end(base: Path, whole: Path) -> None:
        assert config(base).built_metadata_partitions == (*built, name)
        assert records(base)[name] == records(whole)[name]
        if name == RECORD_INDEX:
            assert test_initial_build.places(base) == rows
        torn_notes = f"{FOLDER}/."  # of a note whose creation was torn
        assert [each for each in metadata_leftovers(base) if torn_notes not in each] == []

    return Case(table=table, run=run, check_now=check_now, check_end=check_end, every=3)


def rebuilding_an_index(name: str, folder: Path) -> Case:
    """The properties name the wrong index, none, or the right one, and the next rebuild leaves that alone. Keeps 3 of
    services/together/metadata_index/initial_build."""
    table = test_initial_build.unindexed(folder)
    test_initial_build.build(table)
    test_initial_build.make_wrong(table)
    rows, wrong = test_initial_build.truth(table), records(table)[name]
    assert test_initial_build.places(table) != rows

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        test_initial_build.build(base, storage, processes, replaces=True)

    def check_now(base: Path, whole: Path) -> None:
        assert test_initial_build.truth(base) == rows
        if name in config(base).built_metadata_partitions:
            assert records(base)[name] in (wrong, records(whole)[name])

    def check_end(base: Path, whole: Path) -> None:
        assert sorted(config(base).built_metadata_partitions) == sorted(config(table).built_metadata_partitions)
        assert test_initial_build.places(base) == rows
        torn_notes = f"{FOLDER}/."  # of a note whose creation was torn
        assert [each for each in metadata_leftovers(base) if torn_notes not in each] == []

    return Case(table=table, run=run, check_now=check_now, check_end=check_end, every=3)


KILLED = Extent(check=(KILL,), test=(KILL,))
NIGHTLY = Extent(test=())
ONE_RETAINED = {"lakeward.services.metadata.plan.dead_slices.RETAINED_COMMITS": 1}
"""Instead of twenty commits, which no golden table has."""

ROWS = (
    Row(make=compacting_metadata, table=GOLDEN[0], disk=KILLED, store=KILLED),
    Row(make=compacting_metadata, table=GOLDEN[1], disk=NIGHTLY, store=NIGHTLY),
    Row(make=compacting_metadata, table=VERSION_10, disk=NIGHTLY),
    Row(make=cleaning_metadata, table=GOLDEN[0], disk=KILLED, store=KILLED, patches=ONE_RETAINED),
    Row(make=cleaning_metadata, table=GOLDEN[1], disk=NIGHTLY, store=NIGHTLY, patches=ONE_RETAINED),
    Row(make=cleaning_metadata, table=VERSION_10, disk=NIGHTLY, patches=ONE_RETAINED),
    Row(make=aborting_an_indexing, table=GOLDEN[0], disk=KILLED),
    Row(make=building_an_index, table=RECORD_INDEX, disk=KILLED),
    Row(make=building_an_index, table=COLUMN_STATS, disk=NIGHTLY),
    Row(make=building_an_index, table=PARTITION_STATS, disk=NIGHTLY),
    Row(make=building_an_index, table=BLOOM_FILTERS, disk=NIGHTLY),
    Row(make=building_an_index, table=SECONDARY, disk=NIGHTLY),
    Row(make=rebuilding_an_index, table=RECORD_INDEX, disk=NIGHTLY),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_a_service_of_the_metadata_table_survives_every_fault(
    row: Row, place: Place, kind: FaultKind, survives: Callable[[Row, Place, FaultKind], None]
) -> None:
    """Whatever call fails, dies, tears or loses its reply: running again ends it."""
    survives(row, place, kind)
