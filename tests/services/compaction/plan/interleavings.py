"""Writes, a LOG, another LOG and a FULL over one file group, in every order that they can happen in.

A *story* says when each write was requested and when it completed, relative to the services. Telling it once with and
once without the LOGs gives two *shapes*: which records readers fold in which order. Keys do not touch each other in a
merge, so two shapes are equal for all tables if they are equal for all sequences of records of one key.

    shape      (nodes of the slice that the FULL merged, nodes of the slice behind it)
    node       the number of a write, or a LOG's output: its own nodes, folded to one record

How readers order logs is written down here once more, from Hudi's two passes over the blocks, and shares no code with
the planner's `slice_profile.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement, product

from lakeward.services.compaction.plan.log_runs import files_of_run, pending_writes, pick_prefix
from lakeward.services.compaction.plan.slice_profile import SliceProfile, profile_slice
from lakeward.table.file_group import LogFile
from lakeward.table.timeline.timeline_reader import LogCompaction
from tests.synthetic_table import completed, file_group, minute, pending, snapshot_of

Node = int | tuple["Node", ...]
Shape = tuple[tuple[Node, ...], tuple[Node, ...]]
Picker = Callable[[SliceProfile, str | None], tuple[LogFile, ...]]

# The time of a story, in minutes. A write is requested a few minutes after the start or after a LOG was planned, and
# completes a while after any of the services' moments; a FULL is requested in the middle between two of them.
LOG, LOG_DONE, LOG_AGAIN, LOG_AGAIN_DONE = 1000, 2000, 3000, 4000
FULL_WHILE_PENDING, FULL_WHILE_PENDING_AGAIN = LOG + 500, LOG_AGAIN + 500
FULL_BEFORE, FULL_BETWEEN, FULL_AFTER = LOG - 500, LOG_DONE + 500, LOG_AGAIN_DONE + 500
NEVER = 10_000
_REQUESTED_AFTER, _COMPLETED_AFTER = 20, 100


@dataclass(frozen=True)
class Write:
    requested: int
    completed: int


@dataclass(frozen=True)
class Story:
    writes: tuple[Write, ...]
    """Writes in the order of their instants."""
    full: int
    """When a FULL was requested; NEVER for none. Its own end does not matter, since slices follow its request."""


def stories(writes: int, *, full_at: Sequence[int]) -> Iterator[Story]:
    """Every story of so many writes. A write completes in one of the gaps between services, after its request."""
    for full in full_at:
        for starts in combinations_with_replacement((0, LOG, LOG_AGAIN), writes):
            requests = requests_after(starts)
            for finishes in product(*(ends_of(request, full) for request in requests)):
                # Two that complete in one gap complete in the order of their instants; any other order shows the same.
                yield story_of(requests, finishes, full)


def requests_after(starts: Sequence[int]) -> list[int]:
    return [start + _REQUESTED_AFTER + index for index, start in enumerate(starts)]


def ends_of(request: int, full: int) -> list[int]:
    """When a write may complete: between any two moments at which a service scans, after its request."""
    moments = {0, LOG, LOG_DONE, LOG_AGAIN, LOG_AGAIN_DONE, full} - {NEVER}
    return [moment + _COMPLETED_AFTER for moment in sorted(moments) if moment + _COMPLETED_AFTER > request]


def story_of(requests: Sequence[int], finishes: Sequence[int], full: int) -> Story:
    ends = [finish + index for index, finish in enumerate(finishes)]
    return Story(tuple(Write(*times) for times in zip(requests, ends, strict=True)), full)


def shapes(story: Story, pick: Picker) -> tuple[Shape, Shape]:
    """What readers fold in the end: without the LOGs, and with those that `pick` chose."""
    outputs: dict[int, tuple[int, ...]] = {}
    for planned in (LOG, LOG_AGAIN):
        # Under the lock we would drop one over which a FULL was scheduled meanwhile; Hudi would not, so it stays here.
        if sources := _plan_log(story, planned, outputs, pick):
            outputs[planned] = sources
    return _shape(story, {}), _shape(story, outputs)


def _plan_log(story: Story, at: int, outputs: dict[int, tuple[int, ...]], pick: Picker) -> tuple[int, ...]:
    """The instants whose blocks the LOG merges, in order, by the planner; empty for none. Stories that are alike up to
    that moment have one plan."""
    begun = tuple(
        (write.requested, write.completed if write.completed < at else None)
        for write in story.writes
        if write.requested < at
    )
    return _planned(at, story.full if story.full < at else 1, begun, tuple(outputs.items()), pick)


@cache
def _planned(
    at: int,
    base: int,
    begun: tuple[tuple[int, int | None], ...],
    earlier: tuple[tuple[int, tuple[int, ...]], ...],
    pick: Picker,
) -> tuple[int, ...]:
    """The plan made at a moment over a base, of writes that had begun, each with its end if it had one."""
    outputs = dict(earlier)
    visible = {requested for requested, ended in begun if ended is not None and base < ended}
    visible |= {output for output in outputs if base < _done(output) < at}
    group = file_group("p", "g", base=(minute(base), 100), logs=[(minute(time), 1) for time in visible])
    timeline = [
        instant
        for requested, ended in begun
        for instant in (
            completed(minute(requested), "deltacommit", minute(ended))
            if ended is not None
            else pending(minute(requested), "deltacommit")
        )
    ]
    compactions = [
        LogCompaction(minute(output), frozenset(_log_name(source) for source in _files_of(output, outputs)))
        for output in sorted(outputs)
    ]
    profile = profile_slice(group.slices[0], compactions)
    snapshot = snapshot_of([group], timeline)
    run = pick(profile, pending_writes(snapshot).first_into("p", "g"))
    files = {log.instant for log in files_of_run(profile, run)}
    assert files <= {minute(time) for time in visible}
    if len(run) < 2:
        return ()
    # A LOG's blocks name the instants of the blocks that count among its files.
    in_run = {time for time in visible if minute(time) in files}
    return tuple(_blocks_that_count(in_run, outputs))


def _files_of(output: int, outputs: dict[int, tuple[int, ...]]) -> set[int]:
    files = set(outputs[output])
    for source in outputs[output]:
        if source in outputs:
            files |= _files_of(source, outputs)
    return files


def _log_name(time: int) -> str:
    return f".g_{minute(time)}.log.1_0-0-0"


def _done(output: int) -> int:
    return {LOG: LOG_DONE, LOG_AGAIN: LOG_AGAIN_DONE}[output]


def _shape(story: Story, outputs: dict[int, tuple[int, ...]]) -> Shape:
    number = {write.requested: index for index, write in enumerate(story.writes)}
    ends = {write.requested: write.completed for write in story.writes} | {o: _done(o) for o in outputs}
    parts = []
    for times in (
        {t for t, end in ends.items() if end < story.full},
        {t for t, end in ends.items() if end > story.full},
    ):
        parts.append(tuple(_node(time, number, outputs) for time in _blocks_that_count(times, outputs)))
    return parts[0], parts[1]


def _node(time: int, number: dict[int, int], outputs: dict[int, tuple[int, ...]]) -> Node:
    if time not in outputs:
        return number[time]
    return tuple(_node(source, number, outputs) for source in outputs[time])


def _blocks_that_count(times: set[int], outputs: dict[int, tuple[int, ...]]) -> list[int]:
    """Hudi's second pass: from the newest instant to the oldest, an original is replaced by the output that stands for
    it, once, where the newest of its originals is. An output with no original among `times` never appears."""
    stands_for: dict[int, int] = {}
    newest_first: list[int] = []
    for time in sorted(times, reverse=True):
        if time in outputs:
            final = stands_for.get(time, time)
            stands_for.update(dict.fromkeys(outputs[time], final))
        elif (output := stands_for.get(time)) is None:
            newest_first.append(time)
        elif output not in newest_first:
            newest_first.append(output)
    return newest_first[::-1]


def follow_the_rule(profile: SliceProfile, first_pending: str | None) -> tuple[LogFile, ...]:
    return pick_prefix(profile, before=first_pending)


def ignore_pending_writes(profile: SliceProfile, first_pending: str | None) -> tuple[LogFile, ...]:
    """Wrong: the whole slice, whatever is pending."""
    return profile.live


def start_behind_the_oldest(profile: SliceProfile, first_pending: str | None) -> tuple[LogFile, ...]:
    """Wrong where a delete without ordering value is among the logs, by event time."""
    return pick_prefix(profile, before=first_pending)[1:]
