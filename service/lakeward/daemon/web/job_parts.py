"""What the seconds of a job went into, as the parts of a bar: its phases, with those in which it waited apart.

Touches: nothing.
Keeps:   the seconds of all parts together are those of the job; what no phase has is a part of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeward.protocol.progress import WAITING_PHASES, Phase

PHASE_WORDS: Mapping[str, tuple[str, str]] = {
    Phase.LOCK_WAIT: ("waited for the lock", "Another process had the table's lock."),
    Phase.YIELD: ("waited for writers", "What it would have published would have made writes fail."),
    Phase.LOCK_HOLD: ("held the lock", "Under the table's lock: writers of the table wait meanwhile."),
    Phase.BESIDE_WRITES: ("held the lock beside writes", "Under the table's lock while a write was under way."),
    Phase.SCAN: ("read the timeline", "It read what the table is by now."),
    Phase.PLAN: ("planned", "It chose what to do, and read the heads of logs for that."),
    Phase.SCHEDULE: ("wrote the plan", "The plan went to the timeline."),
    Phase.CLAIM: ("claimed the plan", "It made sure that no other process carries the plan out."),
    Phase.MERGE: ("merged", "It read file slices and wrote files, which no reader saw yet."),
    Phase.COMMIT: ("committed", "It checked that it still may publish, and published."),
}
"""The words for each phase, and what happens in it."""

OTHER = "other"


@dataclass(frozen=True, slots=True)
class JobPart:
    name: str
    """A class name of the stylesheet, and the phase where it is one."""
    word: str
    meaning: str
    seconds: float
    share: float
    """The part of the job's seconds, from 0 to 1."""
    left: float
    """The shares of the parts before it."""

    @property
    def is_waiting(self) -> bool:
        return self.name in WAITING_PHASES


def parts_of(seconds: float, phases: Mapping[str, float]) -> tuple[JobPart, ...]:
    """The parts in the order in which they happen; those without a second's hundredth are left out.

    Args:
        seconds: how long the job took.
        phases: seconds by phase, also such as only another release knows.
    """
    known = [name for name in Phase if name in phases]
    named = {name: phases[name] for name in (*known, *sorted(phases.keys() - set(known)))}
    rest = seconds - sum(named.values())
    total = max(seconds, sum(named.values()))
    parts: list[JobPart] = []
    left = 0.0
    for name, took in (*named.items(), (OTHER, rest)):
        if took < 0.005 or total <= 0:
            continue
        word, meaning = PHASE_WORDS.get(name, (name.replace("_", " "), ""))
        if name == OTHER:
            word, meaning = OTHER, "What is in no phase: starting, and what comes between."
        parts.append(JobPart(name, word, meaning, took, took / total, left))
        left += took / total
    return tuple(parts)
