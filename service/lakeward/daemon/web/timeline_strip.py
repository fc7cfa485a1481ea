"""A table's newest instants as marks on lanes, one for each action: whose they are and how far they came.

Touches: nothing.
Keeps:   each instant is on one lane, from the oldest at the left to the newest at the right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeward.daemon.status import InstantMark

WIDTH, LANE = 1000, 16


@dataclass(frozen=True, slots=True)
class StripMark:
    x: float
    instant: InstantMark


@dataclass(frozen=True, slots=True)
class StripLane:
    action: str
    number: int
    own: int
    """How many of them are Lakeward's."""
    marks: tuple[StripMark, ...]


@dataclass(frozen=True, slots=True)
class Strip:
    lanes: tuple[StripLane, ...]
    first_at: float
    last_at: float
    width: int = WIDTH
    lane_height: int = LANE


def strip_of(instants: Sequence[InstantMark], now: float) -> Strip | None:
    """None without an instant. The action with the most instants is at the top."""
    if not instants:
        return None
    first_at, last_at = min(each.at for each in instants), max(now, *(each.at for each in instants))
    span = max(1.0, last_at - first_at)
    by_action: dict[str, list[InstantMark]] = {}
    for each in instants:
        by_action.setdefault(each.action, []).append(each)
    lanes = [
        StripLane(
            action,
            len(of_action),
            sum(each.is_own for each in of_action),
            tuple(StripMark(round(WIDTH * (each.at - first_at) / span, 1), each) for each in of_action),
        )
        for action, of_action in sorted(by_action.items(), key=lambda each: (-len(each[1]), each[0]))
    ]
    return Strip(tuple(lanes), first_at, last_at)
