"""What a table is first of all: the kinds by which pages, API and command line count tables, and their words.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class TableKind(StrEnum):
    """What a table is first of all, the worst first. Stable names: they stand in links and in the API."""

    UNREADABLE = "unreadable"
    PARKED = "parked"
    REFUSED = "refused"
    """All of it, or one of its services."""
    LATE = "late"
    """Its objective is missed."""
    CONCERNED = "concerned"
    """Something else needs attention."""
    HELD = "held"
    """Paused, in shadow, or tried again later."""
    WAITING = "waiting"
    """Its job waits for others."""
    WORKING = "working"
    """It is planned for, queued, or has a job."""
    CALM = "calm"
    ELSEWHERE = "elsewhere"
    """Another daemon services it, or none does."""


KIND_WORDS: Mapping[TableKind, str] = {
    TableKind.UNREADABLE: "cannot be read",
    TableKind.PARKED: "parked",
    TableKind.REFUSED: "refused",
    TableKind.LATE: "objective missed",
    TableKind.CONCERNED: "other concerns",
    TableKind.HELD: "held",
    TableKind.WAITING: "waiting",
    TableKind.WORKING: "at work",
    TableKind.CALM: "calm",
    TableKind.ELSEWHERE: "not serviced here",
}
