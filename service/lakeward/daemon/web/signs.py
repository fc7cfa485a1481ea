"""How states, ends of jobs, choices and grades are shown on pages: a word with a shape and a tone; and durations.

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base import quantities
from lakeward.daemon.scheduling.table_state import TableState
from lakeward.daemon.status import JobEnd, TablePage
from lakeward.services.compaction.plan.decision import Choice
from lakeward.services.together.doctor.diagnosis import Grade


class Tone(StrEnum):
    """How much a thing wants attention. The values are class names of the stylesheet."""

    BAD = "bad"
    WARN = "warn"
    BUSY = "busy"
    GOOD = "good"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class StateSign:
    """A word with a shape and a tone."""

    word: str
    shape: str
    """Name of a macro in `signs.html`."""
    tone: Tone


STATE_SIGNS: Mapping[TableState, StateSign] = {
    TableState.IDLE: StateSign("idle", "ring", Tone.GOOD),
    TableState.POLLING: StateSign("polling", "ring_dot", Tone.GOOD),
    TableState.PLANNING: StateSign("planning", "ring_dot", Tone.BUSY),
    TableState.QUEUED: StateSign("queued", "half", Tone.BUSY),
    TableState.RUNNING: StateSign("running", "disc", Tone.BUSY),
    TableState.RECOVERING: StateSign("recovering", "disc", Tone.BUSY),
    TableState.BACKING_OFF: StateSign("backing off", "triangle", Tone.WARN),
    TableState.PARKED: StateSign("parked", "square", Tone.BAD),
    TableState.REFUSED: StateSign("refused", "cross", Tone.BAD),
    TableState.PAUSED: StateSign("paused", "bars", Tone.WARN),
    TableState.SHADOW: StateSign("shadow", "diamond", Tone.WARN),
    TableState.WAITING: StateSign("elsewhere", "dashes", Tone.QUIET),
    TableState.DISABLED: StateSign("disabled", "minus", Tone.QUIET),
}

END_SIGNS: Mapping[str, StateSign] = {
    JobEnd.COMMITTED: StateSign("committed", "tick", Tone.GOOD),
    JobEnd.NOTHING: StateSign("nothing to do", "minus", Tone.QUIET),
    JobEnd.TEMPORARY: StateSign("will be tried again", "triangle", Tone.WARN),
    JobEnd.REFUSED: StateSign("refused", "cross", Tone.BAD),
    JobEnd.FAILED: StateSign("failed", "cross", Tone.BAD),
    JobEnd.VERIFICATION: StateSign("wrong result", "cross", Tone.BAD),
    JobEnd.CANCELLED: StateSign("cancelled", "minus", Tone.QUIET),
    JobEnd.LOST: StateSign("taken over", "minus", Tone.QUIET),
}

CHOICE_SIGNS: Mapping[Choice, StateSign] = {
    Choice.FULL: StateSign("FULL", "square", Tone.BUSY),
    Choice.LOG: StateSign("LOG", "half", Tone.BUSY),
    Choice.NONE: StateSign("NONE", "ring", Tone.QUIET),
}

GRADE_SIGNS: Mapping[str, StateSign] = {
    Grade.DANGER: StateSign("danger", "cross", Tone.BAD),
    Grade.WARNING: StateSign("warning", "triangle", Tone.WARN),
    Grade.ADVICE: StateSign("advice", "diamond", Tone.QUIET),
}

ALL_WELL = StateSign("nothing needs attention", "tick", Tone.GOOD)


def doctor_sign(page: TablePage) -> StateSign:
    """How the table was when it was seen last; what was not seen, or could not be since, is never good."""
    examination = page.examination
    assert examination is not None and examination.document is not None, "only what was seen has a sign"
    document = examination.document
    if (worst := document["worst"]) is not None:
        return GRADE_SIGNS[worst]
    if examination.problem is not None or not document["healthy"]:
        return StateSign("not all seen", "triangle", Tone.WARN)
    return StateSign("nothing found", "tick", Tone.GOOD)


NO_BREAK = "\u00a0"


def format_duration(seconds: float) -> str:
    """The same as everywhere, and never broken at a line's end."""
    return quantities.format_duration(seconds).replace(" ", NO_BREAK)


def label_service(service: str) -> str:
    return service.replace("-", " ")
