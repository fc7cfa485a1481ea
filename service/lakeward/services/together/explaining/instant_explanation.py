"""What an instant is, what happened to the files that it wrote, and what keeps it on the active timeline.

Touches: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from lakeward.base.quantities import format_count, format_size
from lakeward.format.timeline.instant import Instant, State, comparable_time
from lakeward.protocol.pending.rollback import RollbackDecision
from lakeward.services.archive.plan.archive_plan import ArchivePlan, Limit
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.services.together.explaining.file_sentences import format_age
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean


@dataclass(frozen=True, slots=True)
class InstantFacts:
    """What a snapshot does not say of an instant."""

    operation: str | None = None
    """What its commit says that it did: `UPSERT`, `COMPACT`."""
    merged_by: str | None = None
    """How a compaction of Lakeward merged its file groups, as its commit says."""
    files: Sequence[FileExplanation] = ()
    """The files that its commit names."""
    clean: Clean | None = None
    archived_at: str | None = None
    """The completion time that the archive says."""
    rolled_back_by: str | None = None
    rolls_back: Sequence[str] = ()
    """The instants that it rolled back, or is about to."""
    archiving: ArchivePlan | None = None
    """None where archiving is refused."""
    decision: RollbackDecision | None = None
    """What a rollback would do to it now, where it is a pending service."""


@dataclass(frozen=True, slots=True)
class InstantExplanation:
    time: str
    instants: tuple[Instant, ...]
    """What is on the active timeline at that time, each in its furthest state: a commit and its savepoint share one."""
    facts: InstantFacts
    planned_groups: int
    """The file groups of its pending plan."""
    is_archived: bool
    limits: tuple[Limit, ...]
    """What keeps it on the active timeline, what begins first in front."""
    goes_next: bool
    """Whether the archiver would take it now."""

    @property
    def verdicts(self) -> Mapping[FileState | Gone, tuple[int, int]]:
        """Number and bytes of its files by what happened to them."""
        files: Counter[FileState | Gone] = Counter()
        sizes: Counter[FileState | Gone] = Counter()
        for file in self.facts.files:
            files[file.verdict] += 1
            sizes[file.verdict] += file.size or 0
        return {verdict: (number, sizes[verdict]) for verdict, number in files.items()}

    @property
    def is_known(self) -> bool:
        return bool(self.instants) or self.facts.archived_at is not None or self.facts.rolled_back_by is not None


def explain_instant(time: str, snapshot: TableSnapshot, facts: InstantFacts) -> InstantExplanation:
    timeline = snapshot.timeline
    found = tuple(each for each in (*timeline.completed, *timeline.pending) if each.time == time)
    archiving = facts.archiving
    plan = snapshot.plans.get(time)
    return InstantExplanation(
        time=time,
        instants=found,
        facts=facts,
        planned_groups=0 if plan is None else len(plan.operations),
        is_archived=not found and facts.archived_at is not None,
        limits=() if archiving is None or not found else archiving.limits_of(time),
        goes_next=archiving is not None and archiving.takes(time),
    )


def instant_in_sentences(instant: InstantExplanation, snapshot: TableSnapshot, *, now: float) -> list[str]:
    return list(_sentences(instant, snapshot, now, snapshot.zone.zone))


def _sentences(instant: InstantExplanation, snapshot: TableSnapshot, now: float, zone: tzinfo | None) -> Iterator[str]:
    facts, age = instant.facts, format_age(instant.time, now, zone)
    for each in instant.instants:
        if each.state is State.COMPLETED:
            operation = f" ({facts.operation})" if facts.operation and each.action != "savepoint" else ""
            at = f", completed at {each.completion_time}" if each.completion_time else ", completed"
            yield f"{each.action} {each.time}{operation}: requested{age}{at}."
        else:
            yield f"{each.action} {each.time}: {each.state.name.lower()}{age}, not completed."
    if facts.archived_at is not None:
        yield f"{instant.time} is in the archive; it completed at {facts.archived_at}."
    elif not instant.instants and facts.rolled_back_by is None:
        yield f"{instant.time} is neither on the active timeline nor, as a commit, in the archive."
    if facts.rolled_back_by is not None:
        yield f"{facts.rolled_back_by} rolled {instant.time} back."
    if facts.rolls_back:
        yield f"It rolls {', '.join(facts.rolls_back)} back."
    if facts.clean is not None:
        yield facts.clean.sentence
    if instant.planned_groups:
        yield f"Its plan holds {instant.planned_groups:,} file groups: no clean takes what it reads."
    if facts.files:
        parts = (
            f"{number:,} {verdict}{f' of {format_size(size)}' if size else ''}"
            for verdict, (number, size) in sorted(instant.verdicts.items())
        )
        yield f"It wrote {format_count(len(facts.files), 'file')}: {', '.join(parts)}."
    if facts.merged_by is not None:
        yield f"Its file groups were merged by: {facts.merged_by}."
    if facts.decision is not None:
        yield facts.decision.sentence
    yield from _held(instant, snapshot)
    if facts.archiving is not None and instant.instants:
        yield from facts.archiving.sentences_of(instant.time)


def _held(instant: InstantExplanation, snapshot: TableSnapshot) -> Iterator[str]:
    """What it holds back."""
    pending = [each for each in instant.instants if each.state is not State.COMPLETED and each.action != "savepoint"]
    oldest = min((each.time for each in snapshot.timeline.pending), key=comparable_time, default=None)
    if pending and instant.time == oldest:
        yield "It is the oldest pending instant: by commits no clean goes beyond it, and no archiver does."
    if instant.time in snapshot.savepointed:
        yield f"A savepoint pins {len(snapshot.savepointed[instant.time]):,} files as of it, and holds the archiver."
