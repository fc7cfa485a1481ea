"""What the completed rollbacks and restores of a timeline took off it.

Touches: storage, one read for each of them.
Keeps:   an empty completed file of a rollback, which some releases of Hudi left, says what its plan says.
"""

from __future__ import annotations

from contextlib import suppress

from lakeward.base.errors import NotFound
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.format.timeline.rollback_metadata import read_restored, read_rollback_plan, read_rolled_back
from lakeward.table.timeline.instant_content import InstantContents
from lakeward.table.timeline.timeline import Timeline


def rolled_back_by(
    contents: InstantContents, timeline: Timeline, *, since: str = "", skips_gone: bool = False
) -> dict[str, str]:
    """The rollback or restore that took each instant off. Raises `BrokenFile`, `NotFound`.

    Args:
        since: only those after this comparable time.
        skips_gone: one that was archived meanwhile says nothing, instead of `NotFound`.
    """
    found: dict[str, str] = {}
    for instant in timeline.completed:
        if instant.action in ("rollback", "restore") and comparable_time(instant.time) > since:
            with suppress(*([NotFound] if skips_gone else [])):
                found.update(dict.fromkeys(_taken_off(contents, instant), instant.time))
    return found


def _taken_off(contents: InstantContents, instant: Instant) -> tuple[str, ...]:
    content, path = contents.read(instant.file_name), contents.path(instant.file_name)
    if instant.action == "restore":
        return read_restored(content, file=path)
    if content:
        return read_rolled_back(content, file=path)
    requested = f"{instant.time}.rollback.{State.REQUESTED}"
    return (read_rollback_plan(contents.read(requested), file=contents.path(requested)),)
