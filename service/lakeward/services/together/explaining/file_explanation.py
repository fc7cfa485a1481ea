"""Why a file of the table is still there and until when, or what happened to it: one path in, a value with reasons out.

What there is has one of the states of `services/clean/plan/storage_states.py`. What is not there any more was,
as far as the timeline shows,

    cleaned        named by a clean among what it deleted
    rolled-back    of an instant that a rollback or restore took off the timeline
    missing        of a commit that names it: nothing on the timeline says who deleted it
    unknown        none of these, or the storage has it and the listing of the table has not

Touches: nothing.
Keeps:   1. a path has one verdict, and what is there never one that says that it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.base.paths import join
from lakeward.format.file_name import AnyLogName, parse_any_data_file, parse_any_log
from lakeward.format.timeline.instant import Instant
from lakeward.services.clean.plan.decision import CleanOutcome, SliceDecision
from lakeward.services.clean.plan.keeper import DeadReason, Keeper
from lakeward.services.clean.plan.storage_states import NO_QUARANTINE, FileState, StoredFile, states_of_files
from lakeward.services.savepoint.savepoint_plan import Pinned
from lakeward.table.file_group import FileGroup, FileSlice, FrozenGroup, SlicePlace
from lakeward.table.live_logs import live_logs
from lakeward.table.quarantine import Quarantine
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean


class Gone(StrEnum):
    """What happened to a file that is not there. Scripts match on these ids."""

    CLEANED = "cleaned"
    ROLLED_BACK = "rolled-back"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a snapshot does not say."""

    cleans: Sequence[Clean] = ()
    planned_deletions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Paths of the files that each pending clean is going to delete, by its instant."""
    quarantine: Quarantine = NO_QUARANTINE
    pinned: Sequence[Pinned] = ()
    rolled_back: Mapping[str, str] = field(default_factory=dict)
    """Maps instants that were rolled back to the rollback or restore that did it."""
    committed: Collection[str] = ()
    """Paths of the files that the file's own commit names."""
    unlisted_size: int | None = None
    """Bytes of the file, where the storage has it and the listing of the table has not."""

    @property
    def paths(self) -> Iterator[str]:
        """The files that they name."""
        for clean in self.cleans:
            yield from (join(partition, name) for partition, names in clean.deleted.items() for name in names)
        for run in self.quarantine.runs:
            yield from (file.path for file in run.files)
        yield from self.committed


@dataclass(frozen=True, slots=True)
class FileExplanation:
    path: str
    """The path below the table; a name alone where no partition is known."""
    verdict: FileState | Gone
    size: int | None
    """Bytes; None for what is not there, or was not looked for since no folder is known."""
    file_id: str
    instant: str
    """The instant in its name: of the write, in layout 1 of its slice's base file."""
    written_by: Instant | None
    """That instant, if it is on the active timeline."""
    is_archived: bool
    """True where that instant is older than the active timeline."""
    place: SlicePlace | None = None
    """None for a file that is in no slice."""
    replaced_by: str | None = None
    """The instant that replaced its file group."""
    merged_by: str | None = None
    """The log compaction whose output readers read in its place."""
    keepers: tuple[Keeper, ...] = ()
    dead_by: tuple[DeadReason, ...] = ()
    hindrance: str | None = None
    """Why no clean would be planned, where it is dead."""
    frozen: FrozenGroup | None = None
    pinned: tuple[Pinned, ...] = ()
    """The savepoints that keep it."""
    plans: tuple[str, ...] = ()
    """Pending plans that name it."""
    cleaned_by: str | None = None
    cleaning_by: str | None = None
    """The pending clean that is going to delete it."""
    quarantine_run: str | None = None
    quarantined_until: float | None = None
    """Seconds since the epoch."""
    rolled_back_by: str | None = None
    is_committed: bool = False
    """Its own commit names it."""

    @property
    def log_name(self) -> AnyLogName | None:
        """None where it is a base file."""
        return parse_any_log(self.path.rpartition("/")[2], native=True)

    @property
    def is_change_log(self) -> bool:
        return self.log_name is not None and self.log_name.is_cdc


class FileExplainer:
    """Explains files of one snapshot."""

    def __init__(self, snapshot: TableSnapshot, outcome: CleanOutcome, facts: FileFacts) -> None:
        """
        Args:
            outcome: a clean's over the whole table, as it would be planned now.
        """
        self._snapshot = snapshot
        self._outcome = outcome
        self._facts = facts
        self._stored = {file.path: file for file in states_of_files(snapshot, outcome, facts.quarantine)}
        groups = (*snapshot.file_groups, *snapshot.replaced_groups)
        self._groups = {(each.partition_path, each.file_id): each for each in groups if isinstance(each, FileGroup)}

    def explain(self, path: str, *, committed: bool | None = None) -> FileExplanation:
        """
        Args:
            path: below the table.
            committed: whether its own commit names it; None: as the facts say.
        """
        facts, timeline = self._facts, self._snapshot.timeline
        partition, _, name = path.rpartition("/")
        parsed = parse_any_data_file(name, native=True)
        assert parsed is not None, "it is looked at where a path comes from outside"
        group_id = (partition, parsed.file_id)
        stored = self._stored.get(path)
        cleaned_by = next((each.instant for each in reversed(facts.cleans) if _deleted(each, partition, name)), None)
        rolled_back_by = facts.rolled_back.get(parsed.instant)
        is_committed = path in facts.committed if committed is None else committed
        if stored is not None:
            verdict: FileState | Gone = stored.state
        elif facts.unlisted_size is not None:
            verdict = Gone.UNKNOWN
        elif cleaned_by is not None:
            verdict = Gone.CLEANED
        elif is_committed:
            verdict = Gone.MISSING
        else:
            verdict = Gone.UNKNOWN if rolled_back_by is None else Gone.ROLLED_BACK
        is_aside = verdict is FileState.QUARANTINED
        runs = (run for run in facts.quarantine.runs if any(file.path == path for file in run.files))
        run = next(runs, None) if is_aside else None
        decision = None if stored is None or is_aside else stored.decision
        return FileExplanation(
            path=path,
            verdict=verdict,
            size=facts.unlisted_size if stored is None else stored.size,
            file_id=parsed.file_id,
            instant=parsed.instant,
            written_by=timeline.find_write(parsed.instant),
            is_archived=timeline.is_archived(parsed.instant),
            place=None if stored is None or stored.slice is None else self._groups[group_id].place_of(stored.slice),
            replaced_by=self._snapshot.replaced.get(group_id),
            merged_by=self._merged_by(stored, name),
            keepers=self._keepers(path, decision),
            dead_by=() if decision is None else decision.dead_by,
            hindrance=self._outcome.hindrance if verdict is FileState.DEAD else None,
            frozen=self._snapshot.frozen_group(group_id) if verdict is FileState.FROZEN else None,
            pinned=() if stored is None or stored.slice is None else tuple(self._pinned(stored.slice)),
            plans=tuple(sorted(self._snapshot.plans_naming(group_id, name))),
            cleaned_by=cleaned_by if stored is None or is_aside else None,
            cleaning_by=next((clean for clean, paths in facts.planned_deletions.items() if path in paths), None),
            quarantine_run=None if run is None else run.run,
            quarantined_until=None if run is None else run.keep_until,
            rolled_back_by=rolled_back_by if verdict is Gone.ROLLED_BACK else None,
            is_committed=is_committed,
        )

    def _merged_by(self, stored: StoredFile | None, name: str) -> str | None:
        """The log compaction whose output readers read in place of a log."""
        if stored is None or stored.slice is None:
            return None
        logs = live_logs(stored.slice, self._snapshot.log_compactions.get(stored.slice.group_id, ()))
        return logs.merged_by(name)

    def _keepers(self, path: str, decision: SliceDecision | None) -> tuple[Keeper, ...]:
        """What keeps the slice; of a log that was merged, what it waits for itself."""
        source = next((each for each in self._outcome.sources if each.log.path == path), None)
        if decision is None or source is None:
            return () if decision is None else decision.keepers
        return source.keepers or decision.keepers

    def _pinned(self, slice_: FileSlice) -> Iterator[Pinned]:
        names = {file.file_name for file in slice_.files}
        for each in self._facts.pinned:
            if not names.isdisjoint(each.savepoint.files.get(slice_.partition_path, ())):
                yield each


def _deleted(clean: Clean, partition: str, name: str) -> bool:
    return clean.is_completed and name in clean.deleted.get(partition, ())
