"""Lakeward's own indexes, stopped at every call to the storage: the choice of a table's indexes, and builds. A row is
one of them; the loop is in tests/crash/harness.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeward.index.index import Indexed
from lakeward.index.index_type import IndexType
from lakeward.index.tee import ComparedCommit, Tee, cut_over, read_tee
from lakeward.protocol.index.choices import publish_choice, publish_compared
from lakeward.services.indexing.run.build_work import remove_checkpoints
from lakeward.storage.local import LocalStorage
from lakeward.storage.storage import Storage
from tests.crash.compacting import everything
from tests.crash.harness import Case, Extent, Place, Row, cases_of
from tests.faults import FaultKind
from tests.index.builds import build_folder
from tests.index.following import places, truth
from tests.our_reader import scan
from tests.processes import ScriptedProcesses
from tests.services.indexing.run import test_index_build

pytestmark = pytest.mark.crash

STORAGE = LocalStorage()
CLEAN = ComparedCommit("1", "11", keys=3, shadow_wrong=0, primary_wrong=0)


def begin(storage: Storage, base: str) -> None:
    """Choose the indexes, unless they are chosen."""
    before = read_tee(storage, base)
    if before.primary is None:
        publish_choice(storage, base, before, Tee(primary=IndexType.SIMPLE, shadow=IndexType.RECORD))


def compare(storage: Storage, base: str) -> None:
    """Compare what is not compared yet."""
    before = read_tee(storage, base)
    if before.through != CLEAN.completed:
        publish_compared(storage, base, before, [CLEAN])


def change_places(storage: Storage, base: str) -> None:
    """Cut over, unless they were."""
    before = read_tee(storage, base)
    if not before.is_cut_over:
        publish_choice(storage, base, before, cut_over(before, after_clean=1))


STEPS = {"begin": begin, "compare": compare, "cut-over": change_places}


def choosing(step: str, folder: Path) -> Case:
    """What holds is what was chosen last or what held before it, and the same call goes on from there."""
    folder.mkdir()
    for earlier in STEPS:
        if earlier == step:
            break
        STEPS[earlier](STORAGE, str(folder))
    before = read_tee(STORAGE, str(folder))

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        STEPS[step](storage, str(base))

    def check_now(base: Path, whole: Path) -> None:
        assert read_tee(STORAGE, str(base)) in (before, read_tee(STORAGE, str(whole)))

    def check_end(base: Path, whole: Path) -> None:
        assert read_tee(STORAGE, str(base)) == read_tee(STORAGE, str(whole)) != before

    return Case(table=folder, run=run, check_now=check_now, check_end=check_end)


def building_a_record_index(name: str, folder: Path) -> Case:
    """What was read before is not read again, the index is what the rows are, and nothing is left of the build. Keeps 2
    of services/indexing/run/index_build."""
    table = test_index_build.unbuilt(folder)
    files = set(everything(table))

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        test_index_build.build(base, storage)

    def again(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        if test_index_build.opened(base, STORAGE, scan(base)).indexed() != Indexed():
            remove_checkpoints(STORAGE, str(build_folder(base)))
            return
        made = {path.name for path in build_folder(base).glob("*.keys")} if build_folder(base).exists() else set()
        done = test_index_build.build(base, storage)
        assert (done.groups, done.entries, done.resumed) == (3, 3, len(made))
        assert len(test_index_build.slices_read(storage.calls, base)) == 3 - len(made)

    def check_now(base: Path, whole: Path) -> None:
        assert files <= set(everything(base))

    def check_end(base: Path, whole: Path) -> None:
        assert places(test_index_build.opened(base, STORAGE, scan(base)), test_index_build.KEYS) == truth(base)
        assert {path for path in set(everything(base)) - files if ".lakeward/index/record" not in path} == set()

    return Case(table=table, run=run, again=again, check_now=check_now, check_end=check_end)


ALL = Extent(check=tuple(FaultKind))

ROWS = (
    *(Row(make=choosing, table=step, disk=ALL) for step in STEPS),
    Row(make=building_a_record_index, table="three-groups", disk=ALL),
)


@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_an_index_survives_every_fault(row: Row, place: Place, kind: FaultKind, survives: Callable[..., None]) -> None:
    """Whatever call fails, dies, tears or loses its reply: running again ends it."""
    survives(row, place, kind)
