"""Which commits an index of Lakeward can settle, has to forget, or can take in no more: rules of every such index.

An index keeps what each commit said apart until the timeline has decided whether it counts for ever.

    rolled back     is forgotten
    archived        settles: no rollback and no restore reaches it any more
    a late one      that completed before one that is settled: which of two is the later is not kept of those
    all at once     is taken in by an index alone that has nothing yet

Touches: nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeward.base.errors import Refused
from lakeward.format.timeline.instant import comparable_time, is_before
from lakeward.index.index import Indexed
from lakeward.table.timeline.timeline import Timeline


def undone_commits(unsettled: Collection[str], counted: Collection[str], timeline: Timeline) -> list[str]:
    """Find those of these commits that were rolled back: they began before the timeline was read, and are nowhere."""
    # t10 the timeline is read; t20 a commit begins and completes, t30 another process takes it in; at t40 we
    # find it nowhere. Forgotten, it would be missing from the index once a later one is taken in.
    latest = timeline.latest_time
    return [
        instant
        for instant in unsettled
        if instant not in counted
        and latest is not None
        and is_before(instant, latest)
        and timeline.find(instant) is None
    ]


def settled_first(counted: Mapping[str, str], timeline: Timeline, *, through: str) -> list[str]:
    """The commits that can be settled, in that order: from the one that became visible first on, as long as they were
    archived and completed up to `through`. No rollback and no restore reaches them any more; nor does any undo a
    rollback or a restore, so that those need not be archived."""
    first = []
    for instant in sorted(counted, key=lambda each: (comparable_time(counted[each]), each)):
        if timeline.find_write(instant) is not None or comparable_time(counted[instant]) > comparable_time(through):
            break
        first.append(instant)
    return first


def check_not_late(instant: str, completed: str | None, settled_through: str | None) -> None:
    """Raises `Refused` for a commit that completed before one that is settled."""
    if completed is None or settled_through is None:
        return
    if comparable_time(completed) <= comparable_time(settled_through):
        raise Refused(
            f"The index cannot take in the commit {instant} any more.",
            why=f"It completed at {completed}, and commits up to {settled_through} are settled: which of two is the "
            "later one is not kept of them.",
            remedy="Build the index again.",
        )


def check_not_built(indexed: Indexed) -> None:
    """Raises `Refused` for an index that has a commit."""
    if indexed != Indexed():
        raise Refused(
            "The index is built already.",
            why=f"It has what completed on the table until {indexed.through}.",
            remedy="Bring it up to date (`lakeward index update`), rebuild it (`rebuild`), or drop it first.",
        )
