"""Which data files no instant will ever own: of every file that no reader sees, whether it may go, and why or why not.

    proved     a completed rollback names its instant; or its instant is on neither timeline
    and        nothing is there by which it could become a file of the table: a pending instant, a heartbeat, markers,
               a plan or savepoint that names it, an entry in the metadata table
    and old    unchanged since longer ago than the age limit, and recorded for as long, by an earlier look

The instant in the name is all that says where a file comes from. What does not say so stays, and is listed.

Touches: nothing.
Keeps:   1. a file whose origin is not proved is never removable;
         2. nor is one by which another process may still go on: pending, beating, marked, named, or listed;
         3. it takes two looks, the age limit apart, at the same file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakeward.format.file_name import parse_any_data_file
from lakeward.format.timeline.instant import State
from lakeward.table.stray_record import RecordedStray
from lakeward.table.timeline.timeline import Timeline


class OrphanProof(StrEnum):
    """What proves that no instant owns a file. Scripts match on these ids."""

    ROLLED_BACK = "rolled-back"
    """A completed rollback names its instant."""
    NO_INSTANT = "no-instant"
    """Its instant is neither on the active timeline nor in the archive, and is not older than the timeline."""


class OrphanKeeper(StrEnum):
    """What keeps a file. Scripts match on these ids."""

    PENDING = "pending"
    """Its instant is pending: a writer goes on with it, or a rollback takes it away."""
    COMPLETED = "completed"
    """Its instant is completed, and a reader may take it for its."""
    HISTORY_UNREADABLE = "history-unreadable"
    """Whether its instant is archived cannot be known."""
    ARCHIVED = "archived"
    """Its instant is archived, or older than the timeline."""
    HEARTBEAT = "heartbeat"
    """There is a heartbeat of its instant, beating or not."""
    MARKERS = "markers"
    """There are markers, or files of an attempt, of its instant."""
    NAMED = "named"
    """A pending plan or a savepoint names it."""
    LISTED = "listed"
    """The metadata table lists it."""
    YOUNG = "young"
    """It was changed too lately."""
    RECORDED_LATELY = "recorded-lately"
    """No look has recorded it that is as old as the age limit, or it was another file then."""


@dataclass(frozen=True, slots=True)
class StrayFile:
    """A data file of an instant that no reader sees."""

    path: str
    """The path below the table."""
    size: int
    modified: float


@dataclass(frozen=True, slots=True)
class OrphanFacts:
    now: float
    age_seconds: float
    """The age limit."""
    rolled_back: Mapping[str, str] = field(default_factory=dict)
    """The completed rollback, or restore, of an instant."""
    archived: Collection[str] = ()
    """Instants that the archive has."""
    history_problem: str | None = None
    beating: Collection[str] = ()
    """Instants with a heartbeat file, on the table or on its metadata table."""
    marked: Collection[str] = ()
    """Instants with a folder of markers or of an attempt."""
    named: Collection[str] = ()
    """Paths that pending plans and savepoints name."""
    listed: Collection[str] = ()
    """Paths that the metadata table lists."""
    recorded: Mapping[str, RecordedStray] = field(default_factory=dict)
    """What earlier looks recorded, by path."""


@dataclass(frozen=True, slots=True)
class OrphanDecision:
    file: StrayFile
    instant: str
    proof: OrphanProof | None
    by: str | None = None
    """The rollback that names its instant."""
    keepers: tuple[OrphanKeeper, ...] = ()
    recorded_since: float | None = None

    @property
    def is_removable(self) -> bool:
        return self.proof is not None and not self.keepers

    @property
    def is_recordable(self) -> bool:
        """Whether nothing but time keeps it."""
        return self.proof is not None and set(self.keepers) <= {OrphanKeeper.YOUNG, OrphanKeeper.RECORDED_LATELY}


def decide_orphans(files: Collection[StrayFile], timeline: Timeline, facts: OrphanFacts) -> tuple[OrphanDecision, ...]:
    """A decision for each file, by path."""
    return tuple(_decide(file, timeline, facts) for file in sorted(files, key=lambda file: file.path))


def _decide(file: StrayFile, timeline: Timeline, facts: OrphanFacts) -> OrphanDecision:
    parsed = parse_any_data_file(file.path.rpartition("/")[2], native=True)
    assert parsed is not None, "only data files are looked at"
    instant = parsed.instant
    keepers = []
    proof = by = None
    on_timeline = [each for each in timeline.instants if each.time == instant]
    if any(each.state is State.COMPLETED and each.action not in ("rollback", "clean") for each in on_timeline):
        keepers.append(OrphanKeeper.COMPLETED)
    elif on_timeline:
        keepers.append(OrphanKeeper.PENDING)
    elif instant in facts.rolled_back:
        proof, by = OrphanProof.ROLLED_BACK, facts.rolled_back[instant]
    elif timeline.is_before_start(instant) or instant in facts.archived or timeline.first_write is None:
        keepers.append(OrphanKeeper.ARCHIVED)
    elif facts.history_problem is not None:
        keepers.append(OrphanKeeper.HISTORY_UNREADABLE)
    else:
        proof = OrphanProof.NO_INSTANT
    recorded = facts.recorded.get(file.path)
    is_recorded = recorded is not None and recorded.size == file.size
    since = recorded.since if recorded is not None and is_recorded else None
    held = {
        OrphanKeeper.HEARTBEAT: instant in facts.beating,
        OrphanKeeper.MARKERS: instant in facts.marked,
        OrphanKeeper.NAMED: file.path in facts.named,
        OrphanKeeper.LISTED: file.path in facts.listed,
        OrphanKeeper.YOUNG: facts.now - file.modified < facts.age_seconds,
        OrphanKeeper.RECORDED_LATELY: since is None or facts.now - since < facts.age_seconds,
    }
    keepers += [keeper for keeper, holds in held.items() if holds]
    return OrphanDecision(file, instant, proof, by, tuple(keepers), since)
