"""Merged logs retire in the layout `default`, where the operator asks for it: all but the anchors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.base.errors import Refused
from lakeward.format.timeline.compaction_plan import read_compaction_plan, write_compaction_plan
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import Archiver
from lakeward.services.clean.plan.keeper import KeepReason
from lakeward.services.clean.run.clean_choice import CleanChoice
from lakeward.services.clean.run.undo import undo_clean
from lakeward.services.verification.metadata_check import SampleSize
from lakeward.services.verification.table_verification import verify_table
from lakeward.storage.local import LocalStorage
from lakeward.table.watching.incremental_view import IncrementalView
from tests.our_reader import scan
from tests.services.clean.run.retiring import RetiringTable, retiring_table, rules
from tests.services.clean.run.test_retirement import HOUR, as_of

ASKED = {"retires_by_anchors": True}
FORMS = {
    "inline": {"version": 9},
    "inline with metadata": {"version": 9, "has_metadata_table": True},
    "by commit time": {"version": 9, "by_event_time": False},
    "native": {"version": 10},
}


def merged(base: Path, **form: bool | int) -> RetiringTable:
    """A log compaction of what the first writes left, and three writes."""
    table = retiring_table(base, **({"has_metadata_table": False, "is_lsm_tree": False} | form))  # type: ignore[arg-type]
    log_compacted(table)
    write(table, 5, 6, 7)
    return table


def log_compacted(table: RetiringTable) -> str:
    return table.log_compact(foreign=not scan(table.base).config.version.has_hybrid_plans)


def write(table: RetiringTable, *numbers: int) -> None:
    for number in numbers:
        table.upsert(number)


def reasons(table: RetiringTable, *, retain: int = 2, asked: bool = True) -> dict[str, set[str]]:
    """What keeps each merged log, by the end of its instant."""
    options = rules(retain, retires_by_anchors=asked).options
    outcome = CleanChoice(LocalStorage(), str(table.base), options, clock=table.clock).outcome(scan(table.base))
    return {source.log.file_name: {str(each.reason) for each in source.keepers} for source in outcome.sources}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_all_but_the_anchor_retire(tmp_path: Path, form: str) -> None:
    """Keeps 10 of services/clean/plan/planner, Keeps 4 and 5 of table/retired_logs: of the logs that two log
    compactions merged one stays, and the output between them goes after the logs that it names. Readers read what they
    read before, also as of each commit that is retained, and the damage check finds nothing."""
    table = merged(tmp_path / "table", **FORMS[form])
    before = set(table.logs)
    ((compaction,),) = scan(table.base).log_compactions.values()
    gone = len(compaction.log_files) - 1
    assert table.clean(rules())[0].cleans == (), "nobody asked for it"
    (cleaned,) = table.clean(rules(**ASKED))[0].cleans
    assert cleaned.retires and cleaned.files == gone > 1 and len(before - set(table.logs)) == gone
    table.check()
    for instant, rows in table.past.items():
        if instant < cleaned.earliest_retained:
            with pytest.raises(Refused):
                as_of(table, instant)
        else:
            assert as_of(table, instant) == rows
    assert [found for found in reasons(table).values() if found] == [{"anchor"}]

    log_compacted(table)
    write(table, 8, 9, 10)
    assert list(reasons(table).values()).count(set()) == 3, reasons(table)
    (first,) = table.clean(rules(**ASKED))[0].cleans
    assert first.files == 3, "the older anchor and two of the newer logs"
    table.check()
    assert sorted(reasons(table).values(), key=len) == [set(), {"anchor"}]
    (second,) = table.clean(rules(**ASKED))[0].cleans
    assert second.files == 1, "the output that the later one took"
    table.check()
    assert table.clean(rules(**ASKED))[0].cleans == ()
    report = verify_table(
        LocalStorage(), str(table.base), size=SampleSize(10, 10, 0), merge_sample=1, clock=table.clock
    )
    assert report.problems == ()


def test_the_daemon_and_an_undo_see_the_same(tmp_path: Path) -> None:
    """What is watched is what a scan finds, before the logs are deleted as after, and when they came back."""
    table = merged(tmp_path / "table", **FORMS["inline"])
    view = IncrementalView(LocalStorage(), str(table.base), timezone="UTC", clock=table.clock)
    logs = set(table.logs)
    (cleaned,) = table.clean(rules(keep=HOUR, **ASKED))[0].cleans
    view.refresh()
    assert view.snapshot() == scan(table.base)
    assert set(table.logs) == logs and len(table.slice.log_names) == len(logs) - 2
    undo_clean(table.serviced(), cleaned.instant)
    view.refresh()
    assert view.snapshot() == scan(table.base)
    assert set(table.slice.log_names) == logs
    table.check()


def test_an_output_stays_while_its_logs_are_not_deleted(tmp_path: Path) -> None:
    """They stand in their places for an undo: once brought back they would be read beside the later output."""
    table = merged(tmp_path / "table", **FORMS["inline"])
    log_compacted(table)
    write(table, 8, 9, 10)
    (first,) = table.clean(rules(keep=HOUR, **ASKED))[0].cleans
    assert first.files == 5
    assert sorted(map(sorted, reasons(table).values())) == [["anchor"], ["names-logs"]]
    assert table.clean(rules(**ASKED))[0].cleans == ()
    table.clock.sleep(HOUR + 1)
    table.clean(rules(**ASKED))
    (second,) = table.clean(rules(**ASKED))[0].cleans
    assert second.files == 1
    table.check()


def test_no_log_retires_that_the_heads_speak_against(tmp_path: Path) -> None:
    """Keeps 6 of services/clean/run/clean_choice: by its plan the log compaction took a newer log, too, which would be
    the anchor. The output does not name that."""
    table = merged(tmp_path / "table", **FORMS["inline"])
    (plan,) = (table.base / ".hoodie" / "timeline").glob("*.logcompaction.requested")
    said = read_compaction_plan(plan.read_bytes(), file=plan.name)
    (operation,) = said.operations
    names = (*operation.log_files, *table.slice.log_names[-1:])
    said = replace(said, operations=(replace(operation, log_files=names),))
    plan.write_bytes(write_compaction_plan(said, native=False))
    found = reasons(table)
    assert {str(KeepReason.READS_OTHERWISE)} in found.values() and set() not in found.values()
    assert table.clean(rules(**ASKED))[0].cleans == ()
    table.check()


def test_change_capture_and_a_slice_without_base_file_keep_them(tmp_path: Path) -> None:
    """Each with a reason of its own, whatever is asked."""
    table = merged(tmp_path / "table", **FORMS["inline"])
    properties = table.base / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text + "hoodie.table.cdc.enabled=true\n")
    assert all(KeepReason.CAPTURES_CHANGES in found for found in reasons(table).values())
    properties.write_text(text)
    assert any(found == set() for found in reasons(table).values())
    assert all(KeepReason.NOT_ASKED_FOR in found for found in reasons(table, asked=False).values())


@pytest.mark.parametrize("form", ["inline", "native", "lsm_tree"])
def test_what_is_archived_is_known(tmp_path: Path, form: str) -> None:
    """Keeps 1 of table/live_logs: once the archiver took a log compaction, and all writes that it merged, the sources
    are superseded as before, for a scan as for what is watched, and retire as before."""
    table = merged(tmp_path / "table", **FORMS.get(form, {"is_lsm_tree": True}))
    view = IncrementalView(LocalStorage(), str(table.base), timezone="UTC", clock=table.clock)
    view.refresh()
    before = scan(table.base).live_logs(table.slice)
    assert len(before.superseded) >= 3
    write(table, 8)
    report = Archiver(table.serviced(), ArchiveOptions(3, 4, 1, 1)).archive()
    ((compaction,),) = scan(table.base).log_compactions.values()
    assert compaction.instant in {instant.time for instant in report.archived}, report
    view.refresh()
    assert view.snapshot() == scan(table.base)
    found = scan(table.base).live_logs(table.slice)
    assert found.superseded == before.superseded and found.live[:-1] == before.live
    table.check()
    (cleaned,) = table.clean(rules(**ASKED))[0].cleans
    assert cleaned.retires
    table.check()
    view.refresh()
    assert view.snapshot() == scan(table.base)
