"""Which instants leave the active timeline for the archive: timeline and a few facts in, instants and reasons out.

Nothing goes while there are at most MAX completed commits; then the oldest go until MIN are left, or until one of these
says that it and all after it stay. The earliest of them binds; all are reported, earliest first.

    min-commits          the newest MIN completed commits
    retention            the commits that the cleaner retains and two more; MAX grows by as many as MIN would
    pending              the last commit before the oldest instant that is not completed, of whatever action
    savepoint            the oldest savepointed commit, or one of which a savepoint is being made
    metadata-table       the first commit that completed after the metadata table's last compaction; all without one
    replaced-files       the oldest replace commit whose replaced file groups are not proved clean
    incomplete           the oldest instant whose plan is not on the timeline any more: the archive would lack it
    uncommitted-files    the last commit before the oldest file that no completed instant explains: once the timeline
                         begins after it, readers take it for committed
    clean                the commit from which the next incremental clean goes on
    compaction-trigger   delta commits that count towards the next compaction
    table-timeline       of a metadata table: the first commit that is not older than all of its table's active timeline

Hudi's own archiver stops for pending writes alone, not for a pending clean or rollback, nor for a savepoint that is
being made, and knows nothing of uncommitted files; in all of it it is followed with more caution.

Where an archiver died after it had published, the oldest instants are in the archive and still here (*leftovers*). They
go first, due or not, unless one of the limits that are no matter of numbers names them; they do not count as commits.

What goes is contiguous: with the commits go the completed cleans and rollbacks before the last of them. Restores,
indexings and savepoints stay for ever, as with Hudi.

Touches: nothing.
Keeps:   1. no commit goes while an older one stays;
         2. nothing at or after what a limit names goes;
         3. nothing goes that Hudi's archiver would leave.
Source:  TimelineArchiverV2, ArchivalUtils, CompactionUtils, ClusteringUtils (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile

from lakeward.format.timeline.instant import Instant, State, comparable_time, is_before
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.table.timeline.cleans import Clean
from lakeward.table.timeline.timeline import WRITE_ACTIONS, Timeline

_WITH_COMMITS = frozenset({"clean", "rollback"})
GOES = WRITE_ACTIONS | _WITH_COMMITS
"""The completed actions that are ever archived."""


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What the timeline's names do not say."""

    is_merge_on_read: bool
    cleans: Sequence[Clean] = ()
    has_metadata_table: bool = False
    metadata_compacted: str | None = None
    """The instant of the metadata table's last compaction."""
    replaced_left: Mapping[str, int] = field(default_factory=dict)
    """Files of replaced file groups that are still there, by the instant that replaced them."""
    uncommitted: Sequence[tuple[str, str]] = ()
    """Instant and path of files that no completed instant explains."""
    in_history: Collection[str] = ()
    """File names of completed instants that the archive has, too."""
    incomplete: Collection[str] = ()
    """File names of completed instants whose requested or inflight file should say what was planned, and is gone."""
    table_begins: str | None = None
    """For the timeline of a metadata table: the first commit, or pending instant, that its table keeps."""


class KeptFor(StrEnum):
    MIN_COMMITS = "min-commits"
    RETENTION = "retention"
    PENDING = "pending"
    SAVEPOINT = "savepoint"
    METADATA_TABLE = "metadata-table"
    REPLACED_FILES = "replaced-files"
    INCOMPLETE = "incomplete"
    UNCOMMITTED_FILES = "uncommitted-files"
    CLEAN = "clean"
    COMPACTION_TRIGGER = "compaction-trigger"
    TABLE_TIMELINE = "table-timeline"


_OF_NUMBERS = frozenset({KeptFor.MIN_COMMITS, KeptFor.RETENTION})


@dataclass(frozen=True, slots=True)
class Limit:
    """Why instants stay."""

    reason: KeptFor
    instant: str
    """The first commit that stays."""
    why: str
    """A sentence."""


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    commits: int
    """Completed commits on the active timeline, without leftovers."""
    options: ArchiveOptions
    archived: tuple[Instant, ...] = ()
    """Completed instants that go, by time: leftovers first."""
    leftovers: int = 0
    """How many of them the archive has already."""
    limits: tuple[Limit, ...] = ()
    """Earliest first; the first one binds."""
    metadata: ArchivePlan | str | None = None
    """The same of the metadata table's own timeline; why that stays as it is; None where nothing was asked of it, or
    there is no metadata table."""

    @property
    def is_due(self) -> bool:
        return self.commits > self.options.commits_max

    @property
    def blocked_by(self) -> Limit | None:
        """What keeps commits for which their number is no reason."""
        if not self.is_due or self.limits[0].reason is KeptFor.MIN_COMMITS:
            return None
        return self.limits[0]

    def limits_of(self, time: str) -> tuple[Limit, ...]:
        """What keeps an instant on the active timeline, what begins first in front."""
        return tuple(limit for limit in self.limits if not is_before(time, limit.instant))

    def takes(self, time: str) -> bool:
        """Whether an archiver would take that instant now."""
        return any(each.time == time for each in self.archived)

    def sentences_of(self, time: str) -> Iterator[str]:
        """What happens to an instant that is on the active timeline."""
        if self.takes(time):
            yield "The archiver takes it next."
        elif not self.is_due:
            most = self.options.commits_max
            yield f"It stays on the active timeline: {self.commits} completed commits are no more than {most}."
        for limit in self.limits_of(time):
            yield f"It stays on the active timeline ({limit.reason}): {limit.why}"


def plan_archive(timeline: Timeline, facts: ArchiveFacts, options: ArchiveOptions) -> ArchivePlan:
    assert 1 <= options.commits_min <= options.commits_max, "checked where they are given"
    leftovers = _leftovers(timeline, facts, options)
    names = {(each.time, each.comparable_action) for each in leftovers}
    rest = replace(timeline, instants=tuple(i for i in timeline.instants if (i.time, i.comparable_action) not in names))
    commits = rest.completed_writes
    if len(commits) <= options.commits_max:
        return ArchivePlan(len(commits), options, leftovers, len(leftovers))
    limits = sorted(_limits(rest, facts, options), key=lambda limit: comparable_time(limit.instant))
    gone = [commit for commit in commits if is_before(commit.time, limits[0].instant)]
    with_them = [
        instant
        for instant in rest.completed
        if gone and instant.action in _WITH_COMMITS and is_before(instant.time, gone[-1].time)
    ]
    archived = sorted((*gone, *with_them), key=lambda instant: comparable_time(instant.time))
    return ArchivePlan(len(commits), options, (*leftovers, *archived), len(leftovers), tuple(limits))


def table_begins(timeline: Timeline, archived: Collection[str] = ()) -> str | None:
    """From when on instants of the metadata table stay for its table: its first commit, or an older pending instant.

    Args:
        timeline: of the table.
        archived: times of its instants that are going.
    """
    commits = [each.time for each in timeline.completed_writes if each.time not in archived]
    times = [*commits[:1], *(each.time for each in timeline.pending)]
    return min(times, key=comparable_time, default=None)


def _leftovers(timeline: Timeline, facts: ArchiveFacts, options: ArchiveOptions) -> tuple[Instant, ...]:
    """The oldest instants, as far as the archive has them all."""
    candidates = [instant for instant in timeline.completed if instant.action in GOES]
    found = list(takewhile(lambda instant: instant.file_name in facts.in_history, candidates))
    if not found or not timeline.completed_writes:
        return ()
    limits = [each for each in _limits(timeline, facts, options) if each.reason not in _OF_NUMBERS]
    return tuple(each for each in found if all(is_before(each.time, limit.instant) for limit in limits))


def _limits(timeline: Timeline, facts: ArchiveFacts, options: ArchiveOptions) -> Iterator[Limit]:
    commits, fewest = timeline.completed_writes, options.commits_min
    yield Limit(KeptFor.MIN_COMMITS, commits[-min(fewest, len(commits))].time, f"The newest {fewest} stay at least.")
    if (needed := _needed_by_cleaner(timeline, options)) > fewest:
        most = options.commits_max + needed - fewest
        since = commits[0] if len(commits) <= most else commits[-needed]
        why = f"The cleaner needs the newest {needed} commits, so the oldest go from more than {most} on."
        yield Limit(KeptFor.RETENTION, since.time, why)
    pending = [instant for instant in timeline.pending if instant.action != "savepoint"]
    if pending:
        oldest = min(pending, key=lambda instant: comparable_time(instant.time))
        since_pending = _last_before(commits, oldest.time)
        yield Limit(KeptFor.PENDING, since_pending, f"{oldest.action} {oldest.time} is {oldest.state.name.lower()}.")
    if timeline.savepoints:
        first = min(timeline.savepoints, key=comparable_time)
        made = {i.time for i in timeline.instants if i.action == "savepoint" and i.state is State.COMPLETED}
        there_is = "There is a savepoint of" if first in made else "Not completed yet is the savepoint of"
        yield Limit(KeptFor.SAVEPOINT, first, f"{there_is} {first}.")
    if facts.has_metadata_table:
        yield from _for_metadata_table(commits, facts.metadata_compacted)
    yield from _for_replaced_files(timeline, facts)
    incomplete = _first(timeline.completed, lambda each: each.file_name in facts.incomplete)
    if incomplete is not None:
        why = f"What {incomplete.action} {incomplete.time} planned is not on the timeline any more."
        yield Limit(KeptFor.INCOMPLETE, incomplete.time, why)
    if facts.uncommitted:
        instant, path = min(facts.uncommitted, key=lambda file: comparable_time(file[0]))
        if any(is_before(instant, commit.time) for commit in commits):
            why = f"{path} is of no completed instant, and would count as committed."
            yield Limit(KeptFor.UNCOMMITTED_FILES, _last_before(commits, instant), why)
    cleaned_to = max((clean.earliest_retained for clean in facts.cleans if clean.is_completed), default="")
    if cleaned_to and (goes_on := _first(commits, lambda commit: not is_before(commit.time, cleaned_to))) is not None:
        yield Limit(KeptFor.CLEAN, goes_on.time, f"The next clean goes on from {cleaned_to}.")
    if facts.is_merge_on_read:
        yield from _for_compaction_trigger(timeline, options.delta_commits)
    begins = facts.table_begins
    if begins is not None and (kept := _first(commits, lambda commit: not is_before(commit.time, begins))) is not None:
        yield Limit(KeptFor.TABLE_TIMELINE, kept.time, f"The table's own timeline begins at {begins}.")


def _for_metadata_table(commits: Sequence[Instant], compacted: str | None) -> Iterator[Limit]:
    if compacted is None:
        yield Limit(KeptFor.METADATA_TABLE, commits[0].time, "The metadata table was never compacted.")
        return
    since = _first(commits, lambda commit: is_before(compacted, commit.completion_time or commit.time))
    if since is not None:
        yield Limit(KeptFor.METADATA_TABLE, since.time, f"The metadata table was compacted last at {compacted}.")


def _for_replaced_files(timeline: Timeline, facts: ArchiveFacts) -> Iterator[Limit]:
    """Hudi's rule uses the last clean; the files that are still there go beyond it."""
    replaces = [i for i in timeline.completed if i.action == "replacecommit"]
    if not replaces:
        return
    done = [clean for clean in facts.cleans if clean.is_completed]
    border = (done[-1].earliest_retained or done[-1].instant) if done else ""
    unproved = _first(replaces, lambda each: each.time in facts.replaced_left or not is_before(each.time, border))
    if unproved is None:
        return
    files = facts.replaced_left.get(unproved.time, 0)
    left = f"{files} of the files that it replaced are still there" if files else "no clean went beyond it yet"
    yield Limit(KeptFor.REPLACED_FILES, unproved.time, f"Of replacecommit {unproved.time}: {left}.")


def _for_compaction_trigger(timeline: Timeline, delta_commits: int) -> Iterator[Limit]:
    instants = [i for i in (*timeline.completed, *timeline.pending) if i.action == "deltacommit"]
    deltas = sorted(instants, key=lambda instant: comparable_time(instant.time))
    compactions = [i for i in timeline.completed if i.action == "commit"]
    if compactions:
        last = compactions[-1]
        deltas = [i for i in deltas if not i.completion_time or is_before(last.time, i.completion_time)]
    elif deltas:
        last = deltas[0]
    else:
        return
    if len(deltas) < delta_commits:
        since, why = last, f"There are {len(deltas)} delta commits since; {delta_commits} trigger a compaction."
    else:
        since, why = (
            deltas[len(deltas) - delta_commits],
            f"The last {delta_commits} delta commits trigger a compaction.",
        )
    yield Limit(KeptFor.COMPACTION_TRIGGER, since.time, why)


def _needed_by_cleaner(timeline: Timeline, options: ArchiveOptions) -> int:
    """How many commits stay at least because the cleaner retains what they wrote; 0 where it retains all."""
    commits, retained = timeline.completed_writes, options.commits_cleaned
    if len(commits) <= retained:
        return 0
    earliest: Instant | None = commits[-retained] if retained else commits[-1]
    pending = [i.time for i in timeline.pending if i.comparable_action in WRITE_ACTIONS]
    if pending and earliest is not None:
        oldest = min(pending, key=comparable_time)
        if is_before(oldest, earliest.time):
            before = [commit for commit in commits if is_before(commit.time, oldest)]
            earliest = before[-1] if before else None
    if earliest is None:
        return 0
    since = earliest.time
    return sum(is_before(since, commit.time) for commit in commits) + 2


def _last_before(commits: Sequence[Instant], time: str) -> str:
    """The last commit before `time`; the time itself where there is none."""
    before = [commit.time for commit in commits if is_before(commit.time, time)]
    return before[-1] if before else time


def _first(instants: Sequence[Instant], is_it: Callable[[Instant], bool]) -> Instant | None:
    return next((instant for instant in instants if is_it(instant)), None)
