"""Which of a table's services may run on it as it is: each is refused by itself, and the others go on.

Touches: nothing.
Keeps:   1. what stops one service stops no other one of the table, and the reason of each is reported;
         2. of a kind of table that leaves Lakeward no work nothing is reported, unless its services are named; nor of a
            service that no operator asked for, where the table cannot have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.config.settings import TableSettings
from lakeward.protocol.job_kind import JobKind
from lakeward.protocol.refusals.eligibility import Refusal, TableService, find_all_refusals, why_no_work
from lakeward.services.services import NAMED, load_services
from lakeward.table.snapshot import TableSnapshot

_ASKS: Mapping[JobKind, TableService] = {
    service.kind: service.permission for service in load_services() if service.kind in NAMED
}
_OF_MERGES = frozenset(service.kind for service in load_services() if service.is_of_merges)


@dataclass(frozen=True, slots=True)
class PermittedServices:
    """What prevents the services of one table."""

    found: tuple[Refusal, ...]
    """All of it, also what stops other services than these."""
    no_work: str
    """Why there is nothing to compact on such a table; empty where there may be."""
    stopped: Mapping[JobKind, tuple[Refusal, ...]]
    """The services of the table that may not run, each with why."""
    texts: Mapping[JobKind, str]
    """What an operator should know of these, each with why and the remedy, in sentences."""
    is_refused: bool
    """None of its services may run, though there may be work."""

    def may(self, service: TableService) -> bool:
        return not any(service in refusal.services for refusal in self.found)


def permitted_services_of(
    settings: TableSettings, snapshot: TableSnapshot, *, beside_writers: bool
) -> PermittedServices:
    """Asks the rows of `protocol/refusals/eligibility` once, for all services of the table.

    Args:
        beside_writers: no operator said that the writers are stopped.
    """
    found = find_all_refusals(snapshot, beside_writers=beside_writers)
    no_work = "" if settings.names_services else why_no_work(snapshot, found) or ""
    services = [kind for kind in _ASKS if kind in settings.services]
    stopped: dict[JobKind, tuple[Refusal, ...]] = {
        kind: against
        for kind in services
        if (against := tuple(refusal for refusal in found if _ASKS[kind] in refusal.services))
    }
    asked_for = {each.kind for each in load_services() if each.kind in stopped and each.is_asked_for(settings)}
    texts: dict[JobKind, str] = {
        kind: _sentence(against)
        for kind, against in stopped.items()
        if _is_reported(kind, against, no_work, asked_for=settings.names_services or kind in asked_for)
    }
    is_refused = not no_work and bool(stopped) and len(stopped) == len(services)
    return PermittedServices(found, no_work, stopped, texts, is_refused)


def _is_reported(kind: JobKind, against: tuple[Refusal, ...], no_work: str, *, asked_for: bool) -> bool:
    if not asked_for and not any(refusal.is_fault for refusal in against):
        return False
    return not no_work or not (kind in _OF_MERGES or any(refusal.no_work for refusal in against))


def _sentence(against: tuple[Refusal, ...]) -> str:
    """The most basic one; `lakeward inspect` has them all."""
    first, more = against[0], f" And {len(against) - 1} more." if len(against) > 1 else ""
    return f"{first.subject}: {first.why} {first.remedy}{more}"
