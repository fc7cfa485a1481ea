"""What an instant is, what happened to the files that it wrote, and what keeps it on the active timeline.

Touches: nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakeward.base.quantities import format_count, format_size
from lakeward.format.timeline.instant import Instant, State, comparable_time, format_age
from lakeward.protocol.pending.rollback import RollbackDecision
from lakeward.services.archive.plan.archive_plan import ArchivePlan, Limit
from lakeward.services.clean.plan.storage_states import FileState
from lakeward.services.together.explaining.file_explanation import FileExplanation, Gone
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean


@dataclass(frozen=True, slots=True)
class InstantExplanation:
    time: str
    snapshot: TableSnapshot
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

    @property
    def instants(self) -> tuple[Instant, ...]:
        """What is on the active timeline at that time, each in its furthest state: a commit and its savepoint share
        one."""
        timeline = self.snapshot.timeline
        return tuple(each for each in (*timeline.completed, *timeline.pending) if each.time == self.time)

    @property
    def planned_groups(self) -> int:
        """The file groups of its pending plan."""
        plan = self.snapshot.plans.get(self.time)
        return 0 if plan is None else len(plan.operations)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """What keeps it on the active timeline, what begins first in front."""
        return () if self.archiving is None or not self.instants else self.archiving.limits_of(self.time)

    @property
    def verdicts(self) -> Mapping[FileState | Gone, tuple[int, int]]:
        """Number and bytes of its files by what happened to them."""
        files: Counter[FileState | Gone] = Counter()
        sizes: Counter[FileState | Gone] = Counter()
        for file in self.files:
            files[file.verdict] += 1
            sizes[file.verdict] += file.size or 0
        return {verdict: (number, sizes[verdict]) for verdict, number in files.items()}

    @property
    def is_known(self) -> bool:
        return bool(self.instants) or self.archived_at is not None or self.rolled_back_by is not None


def instant_in_sentences(instant: InstantExplanation, *, now: float) -> Iterator[str]:
    age = format_age(instant.time, now, instant.snapshot.zone.zone)
    for each in instant.instants:
        if each.state is State.COMPLETED:
            operation = f" ({instant.operation})" if instant.operation and each.action != "savepoint" else ""
            at = f", completed at {each.completion_time}" if each.completion_time else ", completed"
            yield f"{each.action} {each.time}{operation}: requested{age}{at}."
        else:
            yield f"{each.action} {each.time}: {each.state.name.lower()}{age}, not completed."
    if instant.archived_at is not None:
        yield f"{instant.time} is in the archive; it completed at {instant.archived_at}."
    elif not instant.instants and instant.rolled_back_by is None:
        yield f"{instant.time} is neither on the active timeline nor, as a commit, in the archive."
    if instant.rolled_back_by is not None:
        yield f"{instant.rolled_back_by} rolled {instant.time} back."
    if instant.rolls_back:
        yield f"It rolls {', '.join(instant.rolls_back)} back."
    if instant.clean is not None:
        yield instant.clean.sentence
    if instant.planned_groups:
        yield f"Its plan holds {instant.planned_groups:,} file groups: no clean takes what it reads."
    if instant.files:
        parts = (
            f"{number:,} {verdict}{f' of {format_size(size)}' if size else ''}"
            for verdict, (number, size) in sorted(instant.verdicts.items())
        )
        yield f"It wrote {format_count(len(instant.files), 'file')}: {', '.join(parts)}."
    if instant.merged_by is not None:
        yield f"Its file groups were merged by: {instant.merged_by}."
    if instant.decision is not None:
        yield instant.decision.sentence
    yield from _held(instant)
    if instant.archiving is not None and instant.instants:
        yield from instant.archiving.sentences_of(instant.time)


def _held(instant: InstantExplanation) -> Iterator[str]:
    """What it holds back."""
    snapshot = instant.snapshot
    pending = [each for each in instant.instants if each.state is not State.COMPLETED and each.action != "savepoint"]
    oldest = min((each.time for each in snapshot.timeline.pending), key=comparable_time, default=None)
    if pending and instant.time == oldest:
        yield "It is the oldest pending instant: by commits no clean goes beyond it, and no archiver does."
    if instant.time in snapshot.savepointed:
        yield f"A savepoint pins {len(snapshot.savepointed[instant.time]):,} files as of it, and holds the archiver."
