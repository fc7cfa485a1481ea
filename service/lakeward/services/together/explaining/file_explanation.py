"""Why a file of the table is still there and until when, or what happened to it: one path in, a value with reasons out.

What there is has one of the states of `services/clean/plan/storage_states.py`. What is not there any more was,
as far as the timeline shows,

    cleaned        named by a clean among what it deleted
    rolled-back    of an instant that a rollback or restore took off the timeline
    missing        of a commit that names it: nothing on the timeline says who deleted it
    unknown        none of these, or the storage has it and the listing of the table has not

Touches: nothing.
Keeps:   1. a path has one verdict, and what is there never one that says that it is gone;
         2. every verdict has its sentence, with when that ends or how to end it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum

from lakeward.base.quantities import format_size
from lakeward.format.file_name import AnyLogName, parse_any_data_file, parse_any_log
from lakeward.format.timeline.instant import Instant, State, format_age
from lakeward.services.clean.plan.decision import CleanOutcome
from lakeward.services.clean.plan.keeper import DeadReason, Keeper, KeepReason
from lakeward.services.clean.plan.storage_states import NO_QUARANTINE, FileState, states_of_files
from lakeward.services.savepoint.savepoint_plan import Pinned
from lakeward.table.file_group import FileGroup, FrozenGroup, SlicePlace
from lakeward.table.quarantine import Quarantine, QuarantinedRun, set_aside_sentence
from lakeward.table.snapshot import TableSnapshot
from lakeward.table.timeline.cleans import Clean

_NAMED_MAX = 3


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
    made_from: Collection[str] = ()
    """The file groups of its partition that the commit which wrote it replaced, where that is a clustering."""
    went_to: Collection[str] = ()
    """The file groups of its partition that got its rows, where a clustering replaced its own."""
    unlisted_size: int | None = None
    """Bytes of the file, where the storage has it and the listing of the table has not."""

    @property
    def paths(self) -> Iterator[str]:
        """The files that they name."""
        for clean in self.cleans:
            yield from clean.paths
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
    made_from: tuple[str, ...] = ()
    """The file groups whose rows it got from a clustering."""
    went_to: tuple[str, ...] = ()
    """The file groups that got its rows from the clustering `replaced_by`."""
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
    quarantined: QuarantinedRun | None = None
    """The run that set it aside."""
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
    """Explains files of one snapshot, by the outcome of a clean of the whole table as it would be planned now."""

    def __init__(self, snapshot: TableSnapshot, outcome: CleanOutcome, facts: FileFacts) -> None:
        self._snapshot = snapshot
        self._outcome = outcome
        self._facts = facts
        self._stored = {file.path: file for file in states_of_files(snapshot, outcome, facts.quarantine)}
        done = (clean for clean in facts.cleans if clean.is_completed)
        self._cleaned = {path: clean.instant for clean in done for path in clean.paths}
        groups = (*snapshot.file_groups, *snapshot.replaced_groups)
        self._groups = {(each.partition_path, each.file_id): each for each in groups if isinstance(each, FileGroup)}

    def explain(self, path: str, *, committed: bool | None = None) -> FileExplanation:
        """
        Args:
            path: below the table.
            committed: whether its own commit names it; None: as the facts say.
        """
        facts, snapshot = self._facts, self._snapshot
        partition, _, name = path.rpartition("/")
        parsed = parse_any_data_file(name, native=True)
        assert parsed is not None, "it is looked at where a path comes from outside"
        group_id = (partition, parsed.file_id)
        stored = self._stored.get(path)
        cleaned_by = self._cleaned.get(path)
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
            verdict = Gone.ROLLED_BACK if parsed.instant in facts.rolled_back else Gone.UNKNOWN
        is_aside = verdict is FileState.QUARANTINED
        slice_ = None if stored is None else stored.slice
        decision = None if stored is None or is_aside else stored.decision
        return FileExplanation(
            path=path,
            verdict=verdict,
            size=facts.unlisted_size if stored is None else stored.size,
            file_id=parsed.file_id,
            instant=parsed.instant,
            written_by=snapshot.timeline.find_write(parsed.instant),
            is_archived=snapshot.timeline.is_archived(parsed.instant),
            place=None if slice_ is None else self._groups[group_id].place_of(slice_),
            replaced_by=snapshot.replaced.get(group_id),
            made_from=tuple(sorted(facts.made_from)),
            went_to=tuple(sorted(facts.went_to)) if group_id in snapshot.replaced else (),
            merged_by=None if slice_ is None else snapshot.live_logs(slice_).merged_by(name),
            keepers=() if decision is None else self._outcome.keepers_of(path, decision),
            dead_by=() if decision is None else decision.dead_by,
            hindrance=self._outcome.hindrance if verdict is FileState.DEAD else None,
            frozen=snapshot.frozen_group(group_id) if verdict is FileState.FROZEN else None,
            pinned=() if slice_ is None else tuple(each for each in facts.pinned if each.pins(slice_)),
            plans=tuple(sorted(snapshot.plans_naming(group_id, name))),
            cleaned_by=cleaned_by if stored is None or is_aside else None,
            cleaning_by=next((clean for clean, paths in facts.planned_deletions.items() if path in paths), None),
            quarantined=facts.quarantine.run_of(path) if is_aside else None,
            rolled_back_by=facts.rolled_back.get(parsed.instant) if verdict is Gone.ROLLED_BACK else None,
            is_committed=is_committed,
        )


def explain_in_sentences(file: FileExplanation, *, now: float, zone: tzinfo | None) -> list[str]:
    """
    Args:
        now: seconds since the epoch, for ages.
        zone: of the table's instants, None where it is not known.
    """
    size = "" if file.size is None else f", {format_size(file.size)}"
    return [f"{file.path}{size}: {file.verdict}.", _origin(file, now, zone), *_verdict(file, now), *_dangers(file)]


def _origin(file: FileExplanation, now: float, zone: tzinfo | None) -> str:
    """What wrote it, and its place."""
    age = format_age(file.instant, now, zone)
    if file.written_by is not None and file.written_by.state is State.COMPLETED:
        by = f"written by {file.written_by.action} {file.instant}{age}"
        if file.made_from:
            by += f", a clustering that gave it rows of {_groups(file.made_from)}"
    elif file.written_by is not None:
        by = f"of {file.written_by.action} {file.instant}{age}, which is {file.written_by.state.name.lower()}"
    elif file.is_archived:
        by = f"of {file.instant}{age}, which is older than the active timeline and counts as completed"
    else:
        by = f"of {file.instant}{age}, which is not on the timeline"
    kind = "base file" if file.log_name is None else "log of changes" if file.log_name.is_cdc else "log"
    is_ = "was" if isinstance(file.verdict, Gone) and file.size is None else "is"
    if file.place is None:
        return f"It {is_} a {kind} of file group {file.file_id}, {by}."
    place = f"It is in {file.place.text}, that of {file.place.base_instant}."
    return f"It is a {kind} of file group {file.file_id}, {by}. {place}"


def _groups(file_ids: Sequence[str]) -> str:
    """The first of these file groups by name."""
    named = ", ".join(file_ids[:_NAMED_MAX])
    more = f" and {len(file_ids) - _NAMED_MAX:,} more" if len(file_ids) > _NAMED_MAX else ""
    return f"{'file group' if len(file_ids) == 1 else 'file groups'} {named}{more}"


def _verdict(file: FileExplanation, now: float) -> Iterator[str]:
    match file.verdict:
        case FileState.LIVE:
            if file.merged_by is not None:
                yield (
                    f"Log compaction {file.merged_by} superseded it: readers merge its output instead. It stays as "
                    "long as its slice, since slices go whole."
                )
            elif file.is_change_log:
                yield "Readers of rows pass over it; it is for queries that read the changes of compactions."
            else:
                yield "Readers of the table as it is now read it."
            yield FileState.LIVE.sentence
        case FileState.PINNED | FileState.RETAINED | FileState.DEAD:
            why = f"its slice was superseded by that of {file.place.superseded_by if file.place else None}"
            if file.replaced_by is not None:
                why = f"{file.replaced_by} replaced its file group"
                if file.went_to:
                    why = f"clustering {file.replaced_by} gave its rows to {_groups(file.went_to)}"
            yield f"No reader of the table as it is now reads it: {why}."
        case FileState.QUARANTINED if (run := file.quarantined) is not None:
            yield set_aside_sentence(run.run, run.keep_until)
        case FileState.FROZEN:
            why = "" if file.frozen is None else f": {file.frozen.why}"
            yield f"No service touches its file group, whose slices are unknown{why}. `lakeward verify` says more."
        case FileState.UNCOMMITTED | FileState.ORPHAN as state:
            yield FileState(state).sentence
        case Gone.CLEANED:
            yield f"It is not there any more: clean {file.cleaned_by} deleted it."
        case Gone.ROLLED_BACK:
            yield f"It is not there: {file.rolled_back_by} rolled its write back."
        case Gone.MISSING:
            lost = "`lakeward verify` says what is lost; restore it where readers need it."
            if file.is_change_log:
                lost = "No row is lost; queries that read the changes of compactions miss it."
            yield f"It is not there, its commit names it, and nothing on the timeline says who deleted it. {lost}"
        case Gone.UNKNOWN if file.size is not None:
            although = ", although its commit names it" if file.is_committed else ""
            yield (
                f"It is there, and the listing of the table's partitions has it not{although}: its readers do not see "
                "it, and no service touches it. `lakeward verify` says whether the table is right."
            )
        case Gone.UNKNOWN if "/" not in file.path:
            yield (
                "No partition of the table has a file of this name, and no clean, commit or rollback on the active "
                "timeline names it. Elsewhere it was not looked for: pass its path to have it looked for there."
            )
        case Gone.UNKNOWN:
            yield (
                "It is not there, and no clean, commit or rollback on the active timeline names it: it was deleted by "
                "one that is archived, or there was never such a file."
            )
    pinned = {each.savepoint.instant: each.sentence(now) for each in file.pinned}
    for keeper in file.keepers:
        if keeper.reason is KeepReason.SAVEPOINT:
            yield pinned.get(keeper.instant or "", keeper.sentence)
        elif keeper.reason is not KeepReason.NEWEST:
            yield keeper.sentence
    if file.dead_by and file.verdict is FileState.DEAD:
        yield f"Nothing keeps it ({', '.join(file.dead_by)}): the next clean deletes it."
        if file.hindrance is not None:
            yield f"But no clean can be planned just now. {file.hindrance}"
    if file.verdict is FileState.RETAINED and not file.keepers:
        yield "No clean looks at it: it is left out of cleaning."


def _dangers(file: FileExplanation) -> Iterator[str]:
    """What is going to be done to it."""
    for plan in file.plans:
        then = "passed over" if file.is_change_log else "merged"
        yield f"The pending plan of {plan} names it: it is {then} when that is carried out."
    if file.cleaning_by is not None:
        yield f"Clean {file.cleaning_by} is pending and names it: it is deleted when that is carried out."
