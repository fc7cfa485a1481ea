"""What the head of a table's page answers, in few lines each: what waits, why groups are left, what a clean would free.

`docs/inside/page-questions.md` has the questions, each with the element that answers it.

Touches: nothing.
Keeps:   1. each answer is of the values that the sections below it show in full;
         2. what is not known is said to be so, and is never shown as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeward.base.quantities import format_count, format_duration, format_size
from lakeward.config.settings import Writers
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import GroupStatus, TablePage
from lakeward.daemon.web.signs import label_service
from lakeward.protocol.job_kind import JobKind
from lakeward.services.compaction.plan.decision import Choice, Decision


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing that does not go on, and for what."""

    what: str
    for_what: str
    since: float | None = None
    until: float | None = None
    """When that ends by itself."""


def waits_of(page: TablePage) -> tuple[Waiting, ...]:
    """Jobs that wait first, then what holds the table, then plans that wait to be carried out."""
    return tuple(_waits(page))


def _waits(page: TablePage) -> Iterator[Waiting]:
    table, outlook = page.table, page.table.outlook
    for job in table.running:
        progress = table.progress.get(job.id)
        if progress is not None and progress.wait is not None:
            yield Waiting(label_service(job.service), progress.wait.what, since=progress.wait.since)
    if table.state is TableState.QUEUED:
        yield Waiting(outlook.next_action, outlook.reason, until=outlook.next_action_at)
    for hold in page.holds:
        which = "the table" if hold.file_group is None else f"file group {hold.file_group[1]}"
        by = f" by {hold.by}" if hold.by else ""
        kind = f"{hold.kind.replace('-', ' ')}{by}: {hold.reason}"
        yield Waiting(which, kind, since=hold.since or None, until=hold.until)
    for plan in page.plans:
        whose = f"planned by {plan.planned_by}"
        what = f"{plan.action} of {format_count(plan.operations, 'operation')}"
        yield Waiting(what, f"is to be carried out, {whose}", since=plan.requested_at or None)
    for trouble in outlook.service_troubles:
        text = trouble.text or "It found nothing to do."
        yield Waiting(label_service(trouble.service), f"another try: {text}", until=trouble.retry_at)


@dataclass(frozen=True, slots=True)
class CommonReason:
    """Why many file groups are left as they are."""

    reason: str
    number: int
    greatest: Decision
    """The decision about the file group with the most bytes of logs."""


def reasons_against(groups: Sequence[GroupStatus]) -> tuple[CommonReason, ...]:
    """Why file groups are not compacted, the most frequent reason first; logs that wait come before none."""
    found: dict[str, list[GroupStatus]] = {}
    for group in groups:
        if group.decision is not None and group.decision.choice is Choice.NONE:
            found.setdefault(group.decision.reason.value, []).append(group)
    common = []
    for reason, of_reason in found.items():
        greatest = max(of_reason, key=lambda group: group.backlog.log_bytes)
        assert greatest.decision is not None, "only decided ones were taken"
        common.append((greatest.backlog.log_bytes > 0, len(of_reason), reason, greatest.decision))
    common.sort(key=lambda each: (not each[0], -each[1], each[2]))
    return tuple(CommonReason(reason, number, decision) for _, number, reason, decision in common)


@dataclass(frozen=True, slots=True)
class Freed:
    """What cleaning would free."""

    sentence: str
    states: tuple[tuple[str, int], ...]
    """Bytes that are no live data, by what holds them, the most first."""


def freed_of(page: TablePage) -> Freed:
    table = page.table
    demand = table.demands.get(JobKind.CLEAN)
    if JobKind.CLEAN in table.outlook.refused:
        sentence = f"Nothing: cleaning is refused. {table.outlook.refused[JobKind.CLEAN]}"
    elif demand is None:
        planned = table.outlook.planned_at is not None
        sentence = "Lakeward does not clean this table." if planned else "Not known: no plan was made yet."
    elif demand.files:
        due = "is due" if demand.is_due else "is not due yet"
        sentence = f"{format_size(demand.bytes)} in {format_count(demand.files, 'file')}; the clean {due}."
    else:
        sentence = f"Nothing by now. {demand.why}".strip()
    held = {} if table.storage is None else {k: v for k, v in table.storage.bytes.items() if v and k != "live"}
    return Freed(sentence, tuple(sorted(held.items(), key=lambda each: -each[1])))


def settings_of(page: TablePage) -> Mapping[str, str]:
    """The settings that decide most, by label."""
    served = page.table.served
    settings = served.settings
    objective = page.table.objective
    found = {
        "Polled": f"every {format_duration(settings.interval)}",
        "Objective": "none" if objective is None else format_duration(objective),
        "Windows": ", ".join(settings.windows) or "always open",
        "Compaction": settings.type.value + (", by cost" if served.is_by_cost else ""),
        "Services": ", ".join(settings.services),
        "Writers": (served.locks.writers or Writers.SHARE).value if served.is_serviced else "nothing is said: shadow",
        "Memory": format_size(settings.memory),
    }
    return found
