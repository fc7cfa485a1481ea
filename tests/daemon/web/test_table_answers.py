from __future__ import annotations

from dataclasses import replace

from lakeward.daemon.scheduling.demand import Demand
from lakeward.daemon.scheduling.table_state import ServiceTrouble, TableState
from lakeward.daemon.web.table_answers import freed_of, reasons_against, settings_of, waits_of
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Choice, Reason
from tests.daemon.synthetic_status import MIB, NOW, busy_detail, decision, detail, groups, job, table


def test_what_waits_comes_job_first():
    """The job and for what, then what holds the table, then plans that are to be carried out, and services that are
    tried again; a table that only idles has none."""
    page = busy_detail()
    trouble = ServiceTrouble(JobKind.CLEAN, "The metadata table is behind.", 2, NOW + 60)
    page = replace(page, table=replace(page.table, outlook=replace(page.table.outlook, service_troubles=(trouble,))))

    waits = waits_of(page)

    assert [wait.what for wait in waits] == [
        "compaction",
        f"file group {page.groups[0].file_id}",
        "the table",
        "compaction of 12 operations",
        "clean",
    ]
    assert waits[0].for_what == "the table lock .hoodie/.locks/lock is held by spark-7" and waits[0].since == NOW - 12
    assert waits[2].for_what == "paused by anna: Backfill." and waits[2].until is None
    assert waits[4].until == NOW + 60
    assert waits_of(replace(page, table=table(), holds=(), plans=())) == ()


def test_a_table_in_the_queue_waits_for_what_the_scheduler_says():
    """A window, memory or other tables: the scheduler's sentence, and when it ends."""
    queued = table("t", TableState.QUEUED, "Its compaction waits for a window, which opens at 22:00.")
    (wait, *_) = waits_of(detail(queued, holds=(), plans=()))

    assert wait.for_what.endswith("opens at 22:00.") and wait.until == queued.outlook.next_action_at


def test_reasons_against_are_those_of_most_file_groups():
    """Reasons of groups with logs come first, then the most frequent; the example has the most bytes of logs."""
    few, many, idle = (Reason.OVER_BUDGET, Reason.BELOW_THRESHOLDS, Reason.NO_LOGS)
    found = []
    for number, (group, reason) in enumerate(zip(groups(12), [few, *[many] * 4, *[idle] * 7], strict=True)):
        size = 0 if reason is idle else number * MIB
        chosen = decision(Choice.NONE, reason, file_id=f"f{number}")
        found.append(replace(group, decision=chosen, backlog=replace(group.backlog, log_bytes=size + (reason is few))))

    common = reasons_against([*found, *groups(1)])

    assert [(each.reason, each.number) for each in common] == [(many, 4), (few, 1), (idle, 7)]
    assert common[0].greatest.file_id == "f4"


def test_what_a_clean_would_free_is_never_nothing_by_mistake():
    """What is due, what is not due, what is refused, and what is not known are four different answers."""
    page = detail(table())
    assert freed_of(page).sentence == "1.2 GiB in 14 files; the clean is due."
    assert "live" not in dict(freed_of(page).states) and freed_of(page).states[0][1] > 0

    def sentence(**outlook: object) -> str:
        return freed_of(detail(table("t", outlook=outlook))).sentence

    assert sentence(demand=None, planned_at=None) == "Not known: no plan was made yet."
    assert sentence(demand=Demand(0)) == "Lakeward does not clean this table."
    assert sentence(refused={JobKind.CLEAN: "It is of version 5."}).endswith("It is of version 5.")


def test_settings_in_force_are_those_that_act():
    """In shadow there is no objective, and nothing is said of writers where the configuration says nothing."""
    assert settings_of(detail(table()))["Objective"] == "1 h"
    assert settings_of(detail(table("t", TableState.SHADOW)))["Objective"] == "none"
    assert settings_of(detail(table()))["Writers"] == "share"


def test_the_newest_job_of_each_service_and_the_newest_month():
    """They follow from the rows that the page has below."""
    page = busy_detail()
    assert [each.id for each in page.last_jobs] == [f"e{number}" for number in range(6)]
    assert replace(page, ended=(job(), *page.ended)).last_jobs[0].id == "j1"
    month = page.newest_month
    assert month is not None and (month.month, month.jobs, month.failed) == ("2027-01", 442, 3)
    assert month.core_seconds == 21_345.6
    assert replace(page, months=()).newest_month is None
