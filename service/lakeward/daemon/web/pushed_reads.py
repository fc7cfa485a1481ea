"""Reads that engines report, so that the planner learns how often tables are read.

    POST /-/reads    {"requester": "bi", "application": "dashboard-7", "table": "orders",
                      "partitions": ["day=2026-11-21"], "time": "2026-11-21T06:00:00Z"}

`partitions` is left out for a read of the whole table, and `time` for now. What is reported again within the same ten
minutes is the same read. Reads of Lakeward itself are left out, and those of the names in `planner.not_readers`: of
writers and of other services.

Touches: the store.
Keeps:   1. a report is counted as a whole or refused with what is wrong with it; its size is bounded;
         2. what no reader asked for does not count.
See:     docs/services/reads.md, docs/decisions/0175-read-rates.md
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from lakeward.base.clock import Clock
from lakeward.base.errors import NotFound, UsageError
from lakeward.services.compaction.plan.learned_reads import READ_AGE_SECONDS_MAX, WHOLE_TABLE, is_reader

REPORT_BYTES_MAX = 64 * 1024
PARTITIONS_MAX = 1000
"""Partitions of one report."""
NAME_LENGTH_MAX = 200
EARLY_SECONDS_MAX = 600.0
"""How far the clock of an engine may be ahead."""

_KEYS = {"requester", "application", "table", "partitions", "time"}
_LIKE = 'Send {"requester": "bi", "application": "dashboard-7", "table": "orders", "partitions": ["day=2026-11-21"]}.'


class RecordReads(Protocol):
    def __call__(
        self, table: str, partitions: tuple[str, ...], *, requester: str, application: str, at: float
    ) -> int: ...


@dataclass(frozen=True, slots=True)
class ReadReport:
    table: str
    requester: str
    application: str
    partitions: tuple[str, ...]
    at: float


class PushedReads:
    def __init__(
        self,
        *,
        base_path_of: Callable[[str], str | None],
        not_readers: Callable[[str, str], tuple[str, ...]],
        record: RecordReads,
        clock: Clock,
    ) -> None:
        """
        Args:
            base_path_of: of a table by its name, None for one that is not known.
            not_readers: of a table by its name and base path: patterns of names whose reads do not count.
            record: how many of the reads were new.
        """
        self._base_path_of, self._not_readers, self._record, self._clock = base_path_of, not_readers, record, clock

    def take(self, body: bytes) -> int:
        """The number of reads that were counted. Raises `UsageError`, `NotFound`, and what the store raises."""
        report = parse_report(body, now=self._clock.now())
        base_path = self._base_path_of(report.table)
        if base_path is None:
            raise NotFound(f"No table is watched under the name {report.table!r}.")
        if not is_reader(report.requester, report.application, self._not_readers(report.table, base_path)):
            return 0
        return self._record(
            report.table,
            report.partitions,
            requester=report.requester,
            application=report.application,
            at=report.at,
        )


def parse_report(body: bytes, *, now: float) -> ReadReport:
    """Raises `UsageError`."""
    try:
        found = json.loads(body)
    except ValueError as error:
        raise UsageError("The report is no JSON.", why=str(error), remedy=_LIKE) from error
    if not isinstance(found, dict):
        raise UsageError("The report is no JSON object.", remedy=_LIKE)
    if unknown := sorted(set(found) - _KEYS):
        raise UsageError(f"The report has {unknown[0]!r}, which is no key of it.", remedy=_LIKE)
    return ReadReport(
        table=_name(found, "table", length_max=4096),
        requester=_name(found, "requester"),
        application=_name(found, "application"),
        partitions=_partitions(found.get("partitions")),
        at=_time(found.get("time"), now),
    )


def _name(found: Mapping[str, Any], key: str, *, length_max: int = NAME_LENGTH_MAX) -> str:
    name = found.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= length_max:
        raise UsageError(
            f"{key} must be a text of 1 to {length_max} characters.",
            why="Without it, reads of writers and services would look like those of readers." if key != "table" else "",
            remedy=_LIKE,
        )
    return name


def _partitions(found: object) -> tuple[str, ...]:
    if found is None:
        return (WHOLE_TABLE,)
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found) or not found:
        raise UsageError("partitions must be a list of paths; leave it out for all of them.", remedy=_LIKE)
    if len(found) > PARTITIONS_MAX:
        raise UsageError(
            f"partitions has {len(found)} paths, more than {PARTITIONS_MAX}.",
            remedy="Leave it out: the read counts for all of them.",
        )
    return tuple(sorted(set(found)))


def _time(found: object, now: float) -> float:
    if found is None:
        return now
    try:
        moment = datetime.fromisoformat(found) if isinstance(found, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError("time must be an ISO 8601 time with its zone, such as 2026-11-21T06:00:00Z.", remedy=_LIKE)
    at = moment.timestamp()
    if not now - READ_AGE_SECONDS_MAX <= at <= now + EARLY_SECONDS_MAX:
        raise UsageError(
            "time must be within the last day.",
            why="A read counts once, which is known for two days.",
            remedy="Report reads when they happen.",
        )
    return at
