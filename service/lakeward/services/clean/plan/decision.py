"""What a clean decides of one file slice: it is dead, or it stays, with every reason and until when at the earliest;
and of a log of a slice that stays, for which the output of a log compaction stands: it retires, or waits.

A clean takes slices or lets logs retire, never both. Slices that are dead go first: their files are deleted before the
clean is completed, and logs that retire after it, so that no query ever opens a file that is gone.

A clean also says to Hudi's archiver what it may forget: replacecommits before the earliest instant of the last clean,
or, where that names none, before the clean itself. Files of a group whose replacecommit is forgotten are read again,
beside those that replaced them. So no plan is made that leaves such files behind; a savepoint holds the archiver by
itself.

Touches: nothing.
Keeps:   1. a slice is dead exactly when nothing keeps it;
         2. a plan leaves no file of a replaced group whose replacecommit Hudi may archive after it;
         3. a plan lets logs retire only where it takes no slice, and no slice is dead.
Source:  ClusteringUtils.getEarliestInstantToRetainForClustering (Hudi 1.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakeward.base.errors import Refused, TryLater
from lakeward.format.timeline.clean_plan import CleanPlan, Retained
from lakeward.format.timeline.instant import Instant, comparable_time
from lakeward.services.clean.plan.keeper import DeadReason, Keeper
from lakeward.services.clean.plan.policy import CleanPolicy
from lakeward.table.file_group import FileSlice, FrozenGroup, LogFile


@dataclass(frozen=True, slots=True)
class ConsumerHold:
    """How far an incremental consumer holds cleaning back."""

    consumer: str
    watermark: str | None
    """None where it is not known, so that everything stays."""
    why: str
    """Why it is not known."""
    commits: int
    """So many commits earlier than the policy's earliest instant lies the one that it needs; 0: it holds nothing back
    by commits and hours."""
    seconds_behind: float | None
    """From its watermark to the newest completion; None where either is not known."""


@dataclass(frozen=True, slots=True)
class SliceDecision:
    slice: FileSlice
    keepers: tuple[Keeper, ...] = ()
    """Everything that keeps it; none for a dead slice."""
    dead_by: tuple[DeadReason, ...] = ()
    """What makes it dead, whole; none for one that stays."""

    def __post_init__(self) -> None:
        assert bool(self.keepers) != bool(self.dead_by), "a slice is dead or stays"

    @property
    def is_dead(self) -> bool:
        return bool(self.dead_by)

    @property
    def file_names(self) -> tuple[str, ...]:
        return tuple(file.file_name for file in self.slice.files)

    @property
    def bytes(self) -> int:
        return self.slice.bytes


@dataclass(frozen=True, slots=True)
class SourceDecision:
    """A log of a slice that readers read, which a log compaction merged."""

    slice: FileSlice
    log: LogFile
    merged_by: str
    """The log compaction whose output stands for it."""
    keepers: tuple[Keeper, ...] = ()
    """Everything for which it waits; none for one that retires."""

    @property
    def retires(self) -> bool:
        return not self.keepers

    @property
    def file_names(self) -> tuple[str, ...]:
        return (self.log.file_name,)

    @property
    def bytes(self) -> int:
        return self.log.size


SAVEPOINTED_TIMESTAMPS = "savepointed_timestamps"
"""A key of a clean plan's extra metadata: by it Hudi's next clean sees that a savepoint has gone since, and looks at
everything again."""

LEFT_NOTHING = "left_nothing"
"""Another one: nothing stays that was superseded before the plan's earliest instant, but for what savepoints keep. Only
our plans have it, and our next clean looks only at what was written to since (`services/clean/plan/incremental.py`)."""


@dataclass(frozen=True, slots=True)
class CleanOutcome:
    policy: CleanPolicy
    earliest: Instant | None
    """Everything can still be read as of it, and after it. None by versions, where there are too few commits, and where
    readers need everything."""
    last_completed: str
    """The newest completed commit; empty without any."""
    decisions: tuple[SliceDecision, ...]
    """One for each slice with files, by partition, file group and age, newest first."""
    sources: tuple[SourceDecision, ...] = ()
    """One for each log that a log compaction merged and that stays beside its output, by partition, file group and
    age."""
    frozen: tuple[FrozenGroup, ...] = ()
    """File groups whose slices cannot be known: nothing of them is touched."""
    savepoints: tuple[str, ...] = ()
    pending_cleans: tuple[str, ...] = ()
    """Cleans that were begun and not completed; they are ended before this one."""
    is_whole: bool = True
    """False where only some partitions or file groups were looked at."""
    replaced_left: tuple[str, ...] = ()
    """Instants that replaced file groups of which files stay, for another reason than a savepoint."""
    leaves_nothing: bool = False
    """Every slice goes that was superseded before the earliest instant, but for what savepoints keep; and no log waits
    that was merged before it, but for these."""
    is_left_for_readers: bool = False
    """Readers alone keep these files, so they may go after a while."""
    consumers: tuple[ConsumerHold, ...] = ()
    reader_window: float = 0.0
    """Seconds for which a query may run."""
    commits: int = 0
    """Completed commits on the active timeline."""
    oldest_pending: str | None = None
    """The oldest write, or plan that moves rows, that did not complete."""

    @property
    def dead(self) -> Iterator[SliceDecision]:
        return (decision for decision in self.decisions if decision.is_dead)

    @property
    def kept(self) -> Iterator[SliceDecision]:
        return (decision for decision in self.decisions if not decision.is_dead)

    def keepers_of(self, path: str, slice_: SliceDecision) -> tuple[Keeper, ...]:
        """What keeps a file of the slice; of a log that was merged, what it waits for itself."""
        source = next((each for each in self.sources if each.log.path == path), None)
        return slice_.keepers if source is None else source.keepers or slice_.keepers

    @property
    def retiring(self) -> Iterator[SourceDecision]:
        return (source for source in self.sources if source.retires)

    @property
    def _named(self) -> Instant | None:
        """The earliest instant that the plan names."""
        return self.earliest if self.is_whole else None

    @property
    def hindrance(self) -> str | None:
        """Why no plan may be made of it; None where one may, and where nothing is dead."""
        named = self._named
        forgotten = [
            time for time in self.replaced_left if named is None or comparable_time(time) < comparable_time(named.time)
        ]
        if not forgotten or not (any(self.dead) or any(self.retiring)):
            return None
        return (
            f"Files of file groups that {min(forgotten, key=comparable_time)} replaced would stay, and Hudi may "
            "archive that instant after this clean; then they would be read again."
        )

    def plan(self, extra_metadata: dict[str, str]) -> CleanPlan:
        """The plan of a clean that deletes what is dead or, where nothing is, lets logs retire. Raises `Refused`;
        `TryLater` where readers will be done.

        Hudi's next clean looks only at partitions written to since the earliest instant of this one, so a clean that
        did not look everywhere names none: Hudi then looks at all.
        """
        if (why := self.hindrance) is not None:
            if self.is_left_for_readers:
                raise TryLater(
                    "No clean is planned yet.",
                    why=why,
                    remedy="Run the command again when no reader needs them, which `lakeward clean --dry-run` shows.",
                )
            raise Refused(
                "No clean is planned.",
                why=why,
                remedy="Have the pending plan carried out, or clean all partitions; "
                "`lakeward clean --dry-run` and `lakeward inspect` show what there is.",
            )
        dead = _names(self.dead)
        retired = {} if dead else _names(self.retiring)
        earliest = self._named
        savepoints = {SAVEPOINTED_TIMESTAMPS: ",".join(self.savepoints)} if self.savepoints else {}
        leaves_nothing = self.leaves_nothing and earliest is not None and not (dead and any(self.retiring))
        nothing = {LEFT_NOTHING: "true"} if leaves_nothing else {}
        return CleanPlan(
            earliest_retained=None
            if earliest is None
            else Retained(earliest.time, earliest.comparable_action, "COMPLETED"),
            last_completed=self.last_completed,
            files=dead,
            policy=self.policy.hudi_name,
            extra_metadata={**extra_metadata, **savepoints, **nothing},
            retired=retired,
        )


def _names(decisions: Iterable[SliceDecision | SourceDecision]) -> dict[str, tuple[str, ...]]:
    """Names of files by partition path."""
    names: dict[str, list[str]] = {}
    for decision in decisions:
        names.setdefault(decision.slice.partition_path, []).extend(decision.file_names)
    return {partition: tuple(of) for partition, of in names.items()}
