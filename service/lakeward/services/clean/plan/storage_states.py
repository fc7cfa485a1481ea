"""What a table's storage is held by: each of its data files in exactly one state.

    live           readers of the table as it is now read it, logs that are superseded included
    pinned         of an older or replaced slice that a savepoint pins
    retained       of a slice that the policy, a pending plan or a reader keeps, or that no clean looked at
    dead           of a slice that nothing keeps: the next clean takes it
    frozen         of a file group whose slices cannot be told apart, or that has damaged files
    uncommitted    of an instant on the timeline that is not completed: under way, or failed and not rolled back
    orphan         of no instant that is known
    quarantined    set aside by a clean, and not gone yet

They are looked for in the order live, quarantined, pinned, dead, retained: what a savepoint pins is pinned also while
the policy keeps it.

Touches: nothing.
Keeps:   1. each file of the listing has one state, and the sums over the states are the listing's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakeward.base.paths import parent
from lakeward.format.file_name import parse_any_data_file
from lakeward.services.clean.plan.decision import CleanOutcome, SliceDecision
from lakeward.table.file_group import FileSlice, FrozenGroup
from lakeward.table.past_slices import past_slices, pinned_slices
from lakeward.table.quarantine import Quarantine
from lakeward.table.snapshot import TableSnapshot


class FileState(StrEnum):
    """Scripts match on these ids, and metrics have them as labels."""

    LIVE = "live"
    PINNED = "pinned"
    RETAINED = "retained"
    DEAD = "dead"
    FROZEN = "frozen"
    UNCOMMITTED = "uncommitted"
    ORPHAN = "orphan"
    QUARANTINED = "quarantined"

    @property
    def sentence(self) -> str:
        """Who reads such a file, and until when it stays; empty where that depends on the file."""
        return _SENTENCES.get(self, "")


_SENTENCES = {
    FileState.LIVE: "It stays until its slice is superseded by a newer one, or its file group replaced, and then for "
    "as long as cleans retain that.",
    FileState.UNCOMMITTED: "No reader sees it: its write is under way, or it failed and was not rolled back yet. "
    "`lakeward rollback TABLE --dry-run` says which.",
    FileState.ORPHAN: "No reader sees it, and no instant of the timeline explains it: a write that was rolled back or "
    "an attempt of a task left it. No clean deletes it; `lakeward quarantine orphans TABLE --dry-run` says whether it "
    "may go.",
}


NO_QUARANTINE = Quarantine()


@dataclass(frozen=True, slots=True)
class StateTotal:
    files: int = 0
    bytes: int = 0


StorageStates = Mapping[FileState, StateTotal]
"""All states, in their order."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size: int
    state: FileState
    slice: FileSlice | None = None
    """None for a file that is in no slice."""
    decision: SliceDecision | None = None
    """What the clean decided of its slice, where it looked at it."""


def states_of_files(
    snapshot: TableSnapshot, outcome: CleanOutcome, quarantine: Quarantine = NO_QUARANTINE
) -> Iterator[StoredFile]:
    """Every data file, in no order.

    Args:
        snapshot: a scan of the whole table.
        outcome: a clean's decisions on the same snapshot.
        quarantine: its files count once, whether they were moved away or stand where they were.
    """
    aside = {file.path: file.size for run in quarantine.runs if run.undone_by is None for file in run.files}
    decisions = {(*each.slice.group_id, each.slice.base_instant): each for each in outcome.decisions}
    pinned = {(*slice_.group_id, slice_.base_instant) for slice_, _ in pinned_slices(snapshot)}
    placed: set[str] = set()
    for slice_, is_live in _slices(snapshot):
        key = (*slice_.group_id, slice_.base_instant)
        decision = decisions.get(key)
        if is_live:
            state = FileState.LIVE
        elif key in pinned:
            state = FileState.PINNED
        else:
            state = FileState.DEAD if decision is not None and decision.is_dead else FileState.RETAINED
        for file in slice_.files:
            placed.add(file.path)
            is_aside = not is_live and file.path in aside
            yield StoredFile(file.path, file.size, FileState.QUARANTINED if is_aside else state, slice_, decision)
    unplaced = _Unplaced(snapshot)
    for partition in snapshot.files:
        for path, size in partition.sizes:
            if path not in placed:
                placed.add(path)
                state = FileState.QUARANTINED if path in aside else unplaced.state(path)
                yield StoredFile(path, size, state)
    for path, size in aside.items():
        if path not in placed:
            yield StoredFile(path, size, FileState.QUARANTINED)


def storage_states(
    snapshot: TableSnapshot, outcome: CleanOutcome, quarantine: Quarantine = NO_QUARANTINE
) -> StorageStates:
    """Files and bytes in each state; the arguments of `states_of_files`."""
    files = dict.fromkeys(FileState, 0)
    sizes = dict.fromkeys(FileState, 0)
    for file in states_of_files(snapshot, outcome, quarantine):
        files[file.state] += 1
        sizes[file.state] += file.size
    return {state: StateTotal(files[state], sizes[state]) for state in FileState}


def _slices(snapshot: TableSnapshot) -> Iterator[tuple[FileSlice, bool]]:
    """Every slice, and whether readers of the table as it is now read it."""
    for group in snapshot.file_groups:
        for slice_ in group.read_slices:
            yield slice_, True
    for slice_ in past_slices(snapshot):
        yield slice_, False


class _Unplaced:
    """Files that are in no slice."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._timeline = snapshot.timeline
        gone = (group for group in snapshot.replaced_groups if isinstance(group, FrozenGroup))
        self._frozen = {(group.partition_path, group.file_id) for group in (*snapshot.frozen, *gone)}
        self._uncommitted = frozenset(snapshot.uncommitted_files)

    def state(self, path: str) -> FileState:
        name = parse_any_data_file(path.rpartition("/")[2], native=True)
        assert name is not None, "it was sorted by its name"
        if (parent(path), name.file_id) in self._frozen and path not in self._uncommitted:
            return FileState.FROZEN
        return FileState.ORPHAN if self._timeline.find_write(name.instant) is None else FileState.UNCOMMITTED
