"""The only place that creates or deletes timeline files.

    (nothing) --request--> requested --begin--> inflight --complete--> completed
        ^                    |  ^                   |
        +----unschedule------+  +-----roll_back-----+

    archived: requested, inflight and then completed are deleted; the history has the instant
    (`services/archive/run/history.py`) undone by a restore: completed --unpublish--> pending --forget--> (nothing)

    a savepoint: (nothing) --begin--> inflight --complete--> completed --delete--> (nothing)

A file is created once, with all of its content, where there was none, and never changed (`protocol/creation.py`).
Which process may complete an instant, and how, is decided by `protocol/attempts/fencing.py`.

Of a table of layout 1 that is a compaction alone, whose completed file carries no completion time: `.inflight` and
`.requested` have the same names in both layouts, and all of them are parsed as those of layout 2.

Touches: the timeline folder; the caller holds the table lock.
Keeps:   1. a next state is created only where the one before it exists;
         2. no existing timeline file is ever written to.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from lakeward.base.errors import AttemptLost, BrokenFile, LakewardError, NotFound, OutcomeUnknown
from lakeward.base.paths import join
from lakeward.format.timeline.instant import Instant, State, instant_file_name, parse_instant
from lakeward.protocol.creation import confirm, create, create_once
from lakeward.storage.storage import FileStatus, RenamingStorage, Storage

LAYOUT = 2

END_BY_HAND = (
    "When no process that carried it out can be left, delete the instant's file in .hoodie/.heartbeat; the next run "
    "then carries its plan out again, or rolls back the write."
)
"""The remedy where an intent was stated and can no more be carried out."""


class TimelineAction(Enum):
    """What something is called on the timeline while it is pending, and when it is completed."""

    @property
    def pending(self) -> str:
        return str(self.value[0])

    @property
    def completed(self) -> str:
        return str(self.value[1])

    @property
    def stays_begun(self) -> bool:
        """Whether `.inflight` stays when an attempt is rolled back: what a clean has deleted does not come back, so the
        next attempt, Hudi's or Lakeward's, goes on with it."""
        return self.pending == "clean"


class ServiceAction(TimelineAction):
    """Actions on the timeline of a table."""

    COMPACTION = ("compaction", "commit")
    LOG_COMPACTION = ("logcompaction", "deltacommit")
    CLEAN = ("clean", "clean")
    INDEXING = ("indexing", "indexing")


class WriteAction(TimelineAction):
    """Writes of rows, and moves of them, other engines' or our own: their pending files go when they are rolled
    back."""

    COMMIT = ("commit", "commit")
    DELTA_COMMIT = ("deltacommit", "deltacommit")
    REPLACE_COMMIT = ("replacecommit", "replacecommit")
    CLUSTERING = ("clustering", "replacecommit")


class UndoAction(TimelineAction):
    """Actions on the timeline of a table that end others."""

    ROLLBACK = ("rollback", "rollback")
    RESTORE = ("restore", "restore")


class MetadataAction(TimelineAction):
    """Actions on the timeline of its metadata table: a delta commit at the instant of the table's own action, or a
    service."""

    DELTA_COMMIT = ("deltacommit", "deltacommit")
    COMPACTION = ("compaction", "commit")
    CLEAN = ("clean", "clean")


class TimelineFiles:
    """The files of one instant that Lakeward carries out."""

    def __init__(
        self, storage: Storage, timeline_folder: str, instant: str, action: TimelineAction, *, layout: int = LAYOUT
    ) -> None:
        self._storage = storage
        self._folder = timeline_folder
        self._instant = instant
        self._action = action
        self._layout = layout
        self.requested, self.inflight = (
            join(timeline_folder, instant_file_name(instant, action.pending, state, layout, None))
            for state in (State.REQUESTED, State.INFLIGHT)
        )

    def completed(self, completion_time: str) -> str:
        time = completion_time if self._layout >= LAYOUT else None
        name = instant_file_name(self._instant, self._action.completed, State.COMPLETED, self._layout, time)
        return join(self._folder, name)

    def is_inflight(self) -> bool:
        return self._storage.stat(self.inflight) is not None

    def find_completed(self) -> str | None:
        """The completed file of the instant, whichever engine made it and whatever its completion time."""
        for status in self._storage.list(self._folder):
            found = parse_instant(status.name, LAYOUT)
            if found is not None and found.time == self._instant and found.state is State.COMPLETED:
                return status.path
        return None

    def check_uncompleted(self) -> None:
        """Raise `AttemptLost` where the instant is completed: asked once no attempt can complete it any more."""
        if (completed := self.find_completed()) is not None:
            raise AttemptLost(
                f"{completed} exists.",
                why="Another process published just before its attempt was taken over.",
                remedy="Nothing is wrong; run the command again.",
            )

    def request(self, plan: bytes) -> None:
        """Publish a plan."""
        create(self._storage, self.requested, plan)

    def begin(self, profile: bytes = b"") -> None:
        """Say that an attempt at the plan is under way; a write says what it is about to touch."""
        if self._storage.stat(self.requested) is None:
            raise gone(self.requested)
        create(self._storage, self.inflight, profile)
        # t0 we see the plan and are stopped; t1 our lock runs out, and another process unschedules the plan; t2 we wake
        # up. An `.inflight` without its plan would be left for good.
        if self._storage.stat(self.requested) is None:
            self._storage.delete(self.inflight)
            raise gone(self.requested)

    def link(self, storage: RenamingStorage, staged: str, completion_time: str) -> str:
        """Publish the commit that lies in the file `staged`; this makes the new files exist for readers.

        The staged file lies in the attempt's folder. A process that takes an attempt over renames that folder away
        first, so that this link fails however late it is made.
        """
        target, content = self.completed(completion_time), self.read_staged(staged)
        try:
            storage.link(staged, target)
        except NotFound as error:
            raise gone(staged) from error
        except (LakewardError, OSError) as error:
            confirm(storage, target, content, error)
        self._check_read_back(target, content)
        return target

    def read_staged(self, staged: str) -> bytes:
        """What will be in the completed file of an attempt that is still under way."""
        if not self.is_inflight():
            raise gone(self.inflight)
        try:
            return self._storage.read(staged)
        except NotFound as error:
            raise gone(staged) from error

    def finish(self, staged: str, name: str) -> None:
        """Create the completed file that a commit intent names, from what its attempt staged. Every process that does
        so creates the same."""
        named = parse_instant(name, LAYOUT)
        if named is None or (named.time, named.state) != (self._instant, State.COMPLETED):
            raise BrokenFile(
                f"The heartbeat of {self._instant} names {name!r} as its commit.",
                why="That is not the name of a completed file of this instant.",
                remedy="Find out who wrote that file in .hoodie/.heartbeat; nothing was created by that name.",
            )
        try:
            content = self._storage.read(staged)
        except NotFound as error:
            raise OutcomeUnknown(
                f"{name} is in a commit intent, and what was to be in it is gone: {staged}.",
                why="Another program removed the temporary files of an attempt that was about to be published.",
                remedy=END_BY_HAND,
            ) from error
        target = join(self._folder, name)
        create_once(self._storage, target, content)
        self._check_read_back(target, content)

    def roll_back(self) -> None:
        """Revert `begin`; the plan stays."""
        self._storage.delete(self.inflight)

    def unschedule(self) -> None:
        """Revert `request`. A compaction's plan opens file slices; the caller saw that none is needed.

        What was begun is rolled back first. Raises `AttemptLost` where it is begun again:

            t0 A sees the plan and is stopped; t1 its lock ends, and B rolls its attempt back; t2 A wakes and begins.
        """
        if self.is_inflight():
            raise AttemptLost(
                f"{self.inflight} exists again.",
                why="Another process that had been stopped went on with an attempt that was rolled back.",
                remedy="Run the command again: it rolls back what is left.",
            )
        self._storage.delete(self.requested)

    def open_again(self) -> None:
        """`request` and `begin` where a commit intent names the completed file: each process does the same."""
        for path in (self.requested, self.inflight):
            create_once(self._storage, path, b"")

    def _check_read_back(self, completed: str, content: bytes) -> None:
        if self._storage.read(completed) != content:
            raise OutcomeUnknown(
                f"{completed} does not read back as it was written.",
                why="The storage returned other bytes than it was given.",
                remedy="Look at the file before anything else touches the table; nothing was deleted.",
            )


class SavepointFiles:
    """The files of the savepoint of one commit, whose time it shares. Nothing is requested: it is begun and completed.

    Hudi counts a savepoint from its completed file on, so this one is created last and goes first.
    """

    def __init__(self, storage: Storage, timeline_folder: str, instant: str) -> None:
        self._storage = storage
        self._folder = timeline_folder
        self._instant = instant

    @property
    def inflight(self) -> str:
        return self._path(State.INFLIGHT)

    def begin(self) -> None:
        """Say that it is being made; another process may have said so before it died."""
        create_once(self._storage, self.inflight, b"")

    def complete(self, completion_time: str, content: bytes) -> None:
        create(self._storage, self._path(State.COMPLETED, completion_time), content)

    def delete(self) -> None:
        """What it kept can be cleaned from now on."""
        for status in self._storage.list(self._folder):
            found = parse_instant(status.name, LAYOUT)
            if found is None or found.state is not State.COMPLETED:
                continue
            if (found.time, found.action) == (self._instant, "savepoint"):
                self._storage.delete(status.path)
        self._storage.delete(self.inflight)

    def _path(self, state: State, completion_time: str | None = None) -> str:
        return join(self._folder, instant_file_name(self._instant, "savepoint", state, LAYOUT, completion_time))


class UndoneFiles:
    """The files of one instant that a restore takes off the timeline, whichever engine made them, and however far it
    got. A savepoint or a rollback that shares its time is another instant."""

    def __init__(self, storage: Storage, timeline_folder: str, instant: str, actions: Collection[str]) -> None:
        """
        Args:
            actions: those that it may be, by what they complete as.
        """
        self._storage = storage
        self._found: dict[State, list[FileStatus]] = {state: [] for state in State}
        self.pending_actions: set[str] = set()
        """What it is called on the timeline while it is pending."""
        for status in storage.list(timeline_folder):
            found = parse_instant(status.name, LAYOUT)
            if found is None or found.time != instant or found.comparable_action not in actions:
                continue
            self._found[found.state].append(status)
            if found.state is not State.COMPLETED:
                self.pending_actions.add(found.action)

    def unpublish(self) -> None:
        """Revert its completion: no reader sees it any more."""
        self._delete(State.COMPLETED)

    def forget(self) -> None:
        """Take off what says that it is pending: the plan last, without which nothing begins."""
        self._delete(State.INFLIGHT)
        self._delete(State.REQUESTED)

    def _delete(self, state: State) -> None:
        for status in self._found[state]:
            self._storage.delete(status.path)


def gone(path: str) -> AttemptLost:
    return AttemptLost(
        f"{path} is no longer there.",
        why="Another process took this attempt over, or rolled it back.",
        remedy="Run the command again: it finishes what is left, if anything is.",
    )


def delete_archived(storage: Storage, timeline_folder: str, states: Collection[Instant]) -> None:
    """Take an instant that is in the archive off the timeline: first what it was while it was pending, and last its
    completed file, so that it never looks pending again. The caller goes from the oldest instant on.

    Of a clean that was completed twice the later file goes before all: the archive has the first one's row, by which
    what is left of the instant is known after a crash.

    Args:
        states: the instant's files, in any order.
    """
    first, *later = sorted(
        (each for each in states if each.state is State.COMPLETED), key=lambda each: each.completion_time or ""
    )
    pending = (each for each in states if each.state is not State.COMPLETED)
    for each in (*later, *pending, first):
        storage.delete(join(timeline_folder, each.file_name))
