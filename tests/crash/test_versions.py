"""Changes of a table's version and layout, stopped at every call to the storage. A row is one of them; the loop is in
tests/crash/harness.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from lakeward.format.file_name import parse_base_file
from tests.crash.compacting import everything
from tests.crash.harness import Case, Extent, Place, Row, cases_of
from tests.faults import FaultKind
from tests.golden_tables import copy_golden
from tests.our_reader import read_rows, scan
from tests.processes import ScriptedProcesses
from tests.services.together.versions.run import test_layout_step as layouts
from tests.services.together.versions.run import test_upgraded_slices as upgraded
from tests.services.together.versions.run import test_version_step
from tests.services.together.versions.run.layouts import Conversion
from tests.write.writing import values

pytestmark = pytest.mark.crash


def changing_the_version(target: str, folder: Path) -> Case:
    """The table is never ahead of its metadata table, and the next run ends it. Keeps 1 of
    services/together/versions/run/version_step."""
    table, new, old = copy_golden("v9_metadata", folder), target, str(19 - int(target))
    if target == "9":
        test_version_step.change(table)

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        test_version_step.change(base, int(target), storage, processes)

    def check_now(base: Path, whole: Path) -> None:
        if all((base / place).exists() for place in test_version_step.PLACES):
            assert test_version_step.versions(base) in ([old, old], [new, old], [new, new])

    def check_end(base: Path, whole: Path) -> None:
        assert test_version_step.versions(base) == [new, new]
        assert not list(base.rglob("*.backup"))

    def where(calls: Sequence[str]) -> range:
        first = next(n for n, call in enumerate(calls) if call.startswith("create") and "properties" in call)
        return range(first - 2, len(calls))

    return Case(table=table, run=run, check_now=check_now, check_end=check_end, where=where)


FORMS = {
    "native-on-inline": upgraded.native_on_inline,
    "both-merged": upgraded.both_merged,
    "captured": upgraded.captured,
}


def going_down(form: str, folder: Path) -> Case:
    """The rows are there after each fault, and the next run ends. Keeps 1 of
    services/together/versions/run/version_step."""
    made = upgraded.Upgraded(folder)
    FORMS[form](made)

    def run(base: Path, storage: Any, processes: ScriptedProcesses) -> None:
        table = copy.copy(made)
        table.base = base
        upgraded.change(table, 9, storage, processes, drop_changes=form == "captured")

    def check_now(base: Path, whole: Path) -> None:
        assert values(read_rows(base)) == made.model

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        table = copy.copy(made)
        table.base = base
        assert not table.native() and scan(base).config.version.number == 9

    return Case(table=made.base, run=run, check_now=check_now, check_end=check_end)


def to_lsm_tree(made: str, folder: Path) -> Case:
    """The rows are there after each fault, and the next run ends. Keeps 1 of
    services/together/versions/run/layout_step."""
    make, _ = layouts.CASES[made]
    table = make(folder)

    def at(base: Path) -> upgraded.Upgraded:
        found = copy.copy(table)
        found.base = base
        return found

    def run(base: Any, storage: Any, processes: ScriptedProcesses, **options: Any) -> None:
        Conversion(base, storage, processes, table.clock, **options).run()

    def check_now(base: Path, whole: Path) -> None:
        layouts.check_between(at(base))

    def check_end(base: Path, whole: Path) -> None:
        check_now(base, whole)
        snapshot = scan(base)
        assert snapshot.config.is_lsm_tree and not snapshot.timeline.pending
        assert not list(base.rglob("*.backup"))
        named = {file.path for group in snapshot.files for file in group.base_files}
        there = {path for path in everything(base) if parse_base_file(path.rpartition("/")[2])}
        assert {path for path in there if not path.startswith(".hoodie")} == named

    return Case(table=table.base, run=run, check_now=check_now, check_end=check_end, every=45)


ALL = Extent(check=tuple(FaultKind))
NIGHTLY = Extent(test=())
KILLS = Extent(test=(FaultKind.KILL,))

ROWS = (
    Row(make=changing_the_version, table="10", disk=ALL),
    Row(make=changing_the_version, table="9", disk=ALL),
    *(Row(make=going_down, table=form, disk=NIGHTLY) for form in FORMS),
    Row(make=to_lsm_tree, table="out-of-order", disk=KILLS, store=KILLS),
    Row(make=to_lsm_tree, table="copy-on-write", disk=Extent(test=(FaultKind.TORN,))),
    *(Row(make=to_lsm_tree, table=table, disk=NIGHTLY) for table in ("native", "inline")),
)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("row", "place", "kind"), cases_of(ROWS))
def test_a_version_change_survives_every_fault(
    row: Row, place: Place, kind: FaultKind, survives: Callable[..., None]
) -> None:
    """Whatever call fails, dies, tears or loses its reply: running again ends it."""
    survives(row, place, kind)
