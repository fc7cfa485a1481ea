"""The state of a watched table, and what keeps jobs from it.

The head of `daemon/scheduling/scheduler.py` draws the way between the states.

Touches: nothing.
Keeps:   the values of enumerations stand in the store and in metrics, so they never change their meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lakeward.protocol.job_kind import JobKind
from lakeward.table.file_system_view import GroupId


class TableState(StrEnum):
    """States of a table; the head of `daemon/scheduling/scheduler.py` draws the way between these."""

    DISABLED = "disabled"
    WAITING = "waiting"
    RECOVERING = "recovering"
    IDLE = "idle"
    POLLING = "polling"
    PLANNING = "planning"
    QUEUED = "queued"
    RUNNING = "running"
    BACKING_OFF = "backing-off"
    PARKED = "parked"
    PAUSED = "paused"
    SHADOW = "shadow"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ParkedGroup:
    file_group: GroupId
    reason: str
    until: float


@dataclass(frozen=True, slots=True)
class Hold:
    """What keeps jobs from a table."""

    state: TableState
    reason: str
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ServiceTrouble:
    """What prevented a service whose troubles are its own; the table goes on."""

    service: JobKind
    text: str
    """In a sentence; empty where it found nothing to do."""
    failures: int
    """In a row."""
    retry_at: float
