"""The only place that creates or deletes timeline files (layout 2).

    (nothing) --request--> requested --begin--> inflight --complete--> completed
        ^                    |  ^                   |
        +----unschedule------+  +-------undo--------+

A file is created once, with all of its content, where there was none, and never changed. When a create ends in
anything but success, we look before we act: the file is there with our content (the reply was lost), or it is not.

Touches: the timeline folder.
Keeps:   1. a next state is created only where the one before it exists;
         2. no existing timeline file is ever written to;
         3. every method is called under the table lock.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from lakeward.errors import AlreadyExists, AttemptLost, BrokenFile, LakewardError, NotFound, OutcomeUnknown
from lakeward.format.instant import State, instant_file_name, parse_instant
from lakeward.storage.storage import RenamingStorage, Storage, join

LAYOUT = 2


class TimelineAction(Enum):
    """What something is called on the timeline while it is pending, and when it is completed."""

    @property
    def pending(self) -> str:
        return str(self.value[0])

    @property
    def completed(self) -> str:
        return str(self.value[1])


class ServiceAction(TimelineAction):
    """On the timeline of a table."""

    COMPACTION = ("compaction", "commit")
    LOG_COMPACTION = ("logcompaction", "deltacommit")


class MetadataAction(TimelineAction):
    """On the timeline of its metadata table: a delta commit at the instant of the table's own action, or a service."""

    DELTA_COMMIT = ("deltacommit", "deltacommit")
    COMPACTION = ("compaction", "commit")
    CLEAN = ("clean", "clean")


class TimelineFiles:
    """The files of one instant that Lakeward carries out."""

    def __init__(self, storage: Storage, timeline_folder: str, instant: str, action: TimelineAction) -> None:
        self._storage = storage
        self._folder = timeline_folder
        self._instant = instant
        self._action = action

    @property
    def requested(self) -> str:
        return self._path(self._action.pending, State.REQUESTED)

    @property
    def inflight(self) -> str:
        return self._path(self._action.pending, State.INFLIGHT)

    def completed(self, completion_time: str) -> str:
        return self._path(self._action.completed, State.COMPLETED, completion_time)

    def is_inflight(self) -> bool:
        return self._storage.stat(self.inflight) is not None

    def find_completed(self) -> str | None:
        """The completed file of the instant, whoever made it and whatever its completion time."""
        return find_completed(self._storage, self._folder, self._instant)

    def check_uncompleted(self) -> None:
        """Raise `AttemptLost` where the instant is completed: for who made sure that nobody can complete it now."""
        if (completed := self.find_completed()) is not None:
            raise AttemptLost(
                f"{completed} exists.",
                why="Another process published just before its attempt was taken over.",
                remedy="Nothing is wrong; run the command again.",
            )

    def request(self, plan: bytes) -> None:
        """Publish a plan."""
        _create(self._storage, self.requested, plan)

    def begin(self) -> None:
        """Say that an attempt at the plan is under way."""
        if self._storage.stat(self.requested) is None:
            raise _gone(self.requested)
        _create(self._storage, self.inflight, b"")
        # t0 we see the plan and are stopped; t1 our lock runs out, and another process takes the plan back; t2 we wake
        # up. An `.inflight` without its plan would be nobody's to undo.
        if self._storage.stat(self.requested) is None:
            self._storage.delete(self.inflight)
            raise _gone(self.requested)

    def complete(self, staged: str, completion_time: str, *, announce: Callable[[str], None] | None = None) -> str:
        """Publish the commit prepared in the file `staged`; this makes the new files exist for readers.

        The staged file lies in the attempt's folder. Whoever takes an attempt over renames that folder away first,
        so that this link fails however late it is made. Where nothing can be renamed, `announce` names the completed
        file before it is created, and makes what must be there before it: either it fails, or whoever comes later
        creates the file instead of undoing us.
        """
        if not self.is_inflight():
            raise _gone(self.inflight)
        target = self.completed(completion_time)
        try:
            content = self._storage.read(staged)
        except NotFound as error:
            raise _gone(staged) from error
        if isinstance(self._storage, RenamingStorage):
            try:
                self._storage.link(staged, target)
            except NotFound as error:
                raise _gone(staged) from error
            except (LakewardError, OSError) as error:
                _confirm(self._storage, target, content, error)
        else:
            assert announce is not None, "without renames nothing else keeps two attempts apart"
            announce(target.rpartition("/")[2])
            create_once(self._storage, target, content)
        if self._storage.read(target) != content:
            raise OutcomeUnknown(
                f"{target} does not read back as it was written.",
                why="The storage returned other bytes than it was given.",
                remedy="Look at the file before anything else touches the table; nothing was deleted.",
            )
        return target

    def finish(self, staged: str, name: str) -> None:
        """Create the completed file that an attempt announced, from what it prepared. Whoever else does so at the same
        time creates the same."""
        named = parse_instant(name, LAYOUT)
        if named is None or (named.time, named.state) != (self._instant, State.COMPLETED):
            raise BrokenFile(
                f"The heartbeat of {self._instant} announces {name!r}.",
                why="That is not the name of a completed file of this instant.",
                remedy="Find out who wrote that file in .hoodie/.heartbeat; nothing was created by that name.",
            )
        try:
            content = self._storage.read(staged)
        except NotFound as error:
            raise OutcomeUnknown(
                f"{name} was announced, and what was to be in it is gone: {staged}.",
                why="Another program removed the temporary files of a compaction that was about to be published.",
                remedy="When no process that carried it out can be left, delete the instant's file in "
                ".hoodie/.heartbeat; the compaction is then carried out again.",
            ) from error
        create_once(self._storage, join(self._folder, name), content)

    def undo(self) -> None:
        """Take back `begin`; the plan stays."""
        self._storage.delete(self.inflight)

    def unschedule(self) -> None:
        """Take back `request`. A compaction's plan opens file slices; whoever takes it back saw that none is needed.

        What was begun is undone first. Raises `AttemptLost` where it is begun again:

            t0 A sees the plan and is stopped; t1 its lock ends, and B undoes its attempt; t2 A wakes and begins.
        """
        if self.is_inflight():
            raise AttemptLost(
                f"{self.inflight} exists again.",
                why="Another process that had been stopped went on with an attempt that was taken back.",
                remedy="Run the command again: it takes back what is left.",
            )
        self._storage.delete(self.requested)

    def open_announced(self) -> None:
        """`request` and `begin` of what an attempt announced. Whoever else does so at the same time does the same."""
        for path in (self.requested, self.inflight):
            create_once(self._storage, path, b"")

    def _path(self, action: str, state: State, completion_time: str | None = None) -> str:
        return join(self._folder, instant_file_name(self._instant, action, state, LAYOUT, completion_time))


def find_completed(storage: Storage, timeline_folder: str, instant: str) -> str | None:
    """The completed file of `instant`, of whatever action."""
    for status in storage.list(timeline_folder):
        found = parse_instant(status.name, LAYOUT)
        if found is not None and found.time == instant and found.state is State.COMPLETED:
            return status.path
    return None


def create_once(storage: Storage, path: str, content: bytes) -> None:
    """Create the file, or see that it is there with this content, whoever created it."""
    try:
        storage.create(path, content)
    except (LakewardError, OSError) as error:
        _confirm(storage, path, content, error)


def _create(storage: Storage, path: str, content: bytes) -> None:
    try:
        storage.create(path, content)
    except AlreadyExists:
        raise
    except (LakewardError, OSError) as error:
        _confirm(storage, path, content, error)


def _confirm(storage: Storage, path: str, content: bytes, error: Exception) -> None:
    """A create failed: return if it arrived all the same, raise what is true otherwise."""
    try:
        found = storage.read(path)
    except NotFound:
        raise error from None
    except (LakewardError, OSError) as second:
        raise OutcomeUnknown(
            f"Nobody can say whether {path} was created.",
            why=f"The create failed ({error}) and so did the look afterwards ({second}).",
            remedy="Run the command again when the storage answers; it looks first. Nothing was deleted.",
        ) from error
    if found != content:
        raise error


def _gone(path: str) -> AttemptLost:
    return AttemptLost(
        f"{path} is no longer there.",
        why="Another process took this attempt over, or rolled it back.",
        remedy="Run the command again: it finishes what is left, if anything is.",
    )
