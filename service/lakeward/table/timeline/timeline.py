"""The active timeline: which instants there are, how far each got, and which of them cannot be trusted.

An instant is a group of files that share a time and an action (compaction ends as commit, log compaction as
deltacommit, clustering as replacecommit). The furthest state of a group is its state.

Touches: storage, one listing; no timeline file is opened.
Keeps:   1. every file that looks like an instant is either understood or named in `unknown`;
         2. an empty completed file, or two completed files of one instant, is broken, never ignored;
         3. but a clean that two engines completed is one clean: its first completed file counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from lakeward.format.timeline.instant import Instant, State, comparable_time, is_before, parse_instant
from lakeward.storage.storage import FileStatus, Storage
from lakeward.table.table_config import TableConfig, timeline_folder

WRITE_ACTIONS = frozenset({"commit", "deltacommit", "replacecommit"})
"""Completed actions that put rows into the table or move them."""

# Written whole before anything else happens; empty, they say that their writer died over them. The requested
# files of commit, deltacommit and (for insert_overwrite in some releases) replacecommit are empty by design.
_ACTIONS_WITH_PLAN = frozenset(
    {"compaction", "logcompaction", "clustering", "clean", "rollback", "restore", "indexing"}
)

_LOOKS_LIKE_INSTANT = re.compile(r"\d+(_\d+)?\.[A-Za-z]+(\.(requested|inflight))?")
"""Hudi's temporary names carry a uuid after the final name and so do not look like this."""

_STATE_ORDER = {State.REQUESTED: 0, State.INFLIGHT: 1, State.COMPLETED: 2}


@dataclass(frozen=True, slots=True)
class BrokenInstant:
    instant: Instant
    file: str
    """Path of the file below the base path."""
    why: str

    @property
    def is_completed(self) -> bool:
        return self.instant.state is State.COMPLETED


@dataclass(frozen=True, slots=True)
class Timeline:
    instants: tuple[Instant, ...]
    """One per timeline file, by time and then by state."""
    broken: tuple[BrokenInstant, ...] = ()
    unknown: tuple[str, ...] = ()
    """Names that have the form of an instant and an action that we do not know."""
    modified: Mapping[str, float] = field(default_factory=dict)
    """Modification time of each timeline file, by name."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Bytes of each timeline file, by name."""
    _furthest: Mapping[tuple[str, str], Instant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        furthest: dict[tuple[str, str], Instant] = {}
        for instant in sorted(self.instants, key=lambda i: (comparable_time(i.time), _STATE_ORDER[i.state])):
            known = furthest.get((instant.time, instant.comparable_action))
            if known is None or known.state is not State.COMPLETED or _completion(instant) < _completion(known):
                furthest[instant.time, instant.comparable_action] = instant
        object.__setattr__(self, "_furthest", furthest)

    @property
    def completed(self) -> tuple[Instant, ...]:
        """Completed instants of all actions, by time."""
        return tuple(i for i in self._furthest.values() if i.state is State.COMPLETED)

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Instants without a completed file, in the furthest state they reached, by time."""
        return tuple(i for i in self._furthest.values() if i.state is not State.COMPLETED)

    @property
    def completed_writes(self) -> tuple[Instant, ...]:
        return tuple(i for i in self.completed if i.comparable_action in WRITE_ACTIONS)

    def commits_since(self, instant: str) -> int:
        """The completed commits that were requested after `instant`; all for an empty one."""
        since = comparable_time(instant) if instant else ""
        return sum(comparable_time(each.time) > since for each in self.completed_writes)

    def find(self, time: str) -> Instant | None:
        """The instant at `time` in its furthest state; a write where a savepoint or a rollback shares the time."""
        found = [i for (t, _), i in self._furthest.items() if t == time]
        found.sort(key=lambda i: i.comparable_action not in WRITE_ACTIONS)
        return found[0] if found else None

    def find_write(self, time: str) -> Instant | None:
        for action in WRITE_ACTIONS:
            if (instant := self._furthest.get((time, action))) is not None:
                return instant
        return None

    def completion_time(self, time: str) -> str | None:
        """When the write at `time` became visible; None while it is pending, or where the name does not say."""
        instant = self.find_write(time)
        return instant.completion_time if instant is not None and instant.state is State.COMPLETED else None

    def visible_at(self, time: str) -> str:
        """When the write at `time` became visible; its own time where that was archived, or is not known."""
        return self.completion_time(time) or time

    @property
    def savepoints(self) -> frozenset[str]:
        return frozenset(time for time, action in self._furthest if action == "savepoint")

    @property
    def first_write(self) -> str | None:
        """The write with which the active timeline starts for Hudi's readers: writes before it were archived, and count
        as completed.

        One that a savepoint keeps counts. Hudi means to pass over these, but the timeline that its readers ask has no
        savepoints on it (1.2.0, AbstractTableFileSystemView.refreshTimeline): what it archives behind one is not read.
        """
        return _first_write(self._furthest.values())

    @property
    def first_visible_write(self) -> str | None:
        """The same over what Hudi's readers look at: completed writes and pending compactions."""
        return _first_write(i for i in self._furthest.values() if is_visible_write(i))

    @property
    def first_active_write(self) -> str | None:
        """The write from which on nothing was archived. Before it a savepoint may keep some, with holes between them
        (hoodie.archive.beyond.savepoint)."""
        savepoints = self.savepoints
        return _first_write(i for i in self._furthest.values() if i.time not in savepoints)

    @property
    def latest_time(self) -> str | None:
        """The greatest requested or completion time; a new instant must be greater."""
        times = [i.time for i in self.instants] + [i.completion_time for i in self.instants if i.completion_time]
        return max(times, key=comparable_time, default=None)

    def is_archived(self, time: str) -> bool:
        """True when a write at `time` may have been archived: it is not on the timeline, but before what was not."""
        start = self.first_active_write
        return start is not None and comparable_time(time) < comparable_time(start) and self.find_write(time) is None

    def is_before_start(self, time: str) -> bool:
        """True when `time` lies before the active timeline, so that a write at it counts as completed."""
        start = self.first_write
        return start is not None and comparable_time(time) < comparable_time(start)

    def without(self, writes: Collection[str]) -> Timeline:
        """The timeline as if these writes, and plans of them, had never been; savepoints and rollbacks stay."""
        left = (i for i in self.instants if i.time not in writes or i.comparable_action not in WRITE_ACTIONS)
        return replace(self, instants=tuple(left))

    def until(self, completed: str) -> Timeline:
        """The timeline as if what completed at this time or later were pending, or had not begun."""
        left = (i for i in self.instants if i.completion_time is None or is_before(i.completion_time, completed))
        return replace(self, instants=tuple(left))

    def with_broken(self, broken: Iterable[BrokenInstant]) -> Timeline:
        return replace(self, broken=(*self.broken, *broken))


def _first_write(instants: Iterable[Instant]) -> str | None:
    return min((i.time for i in instants if i.comparable_action in WRITE_ACTIONS), key=comparable_time, default=None)


def _completion(instant: Instant) -> str:
    """Sorts the completed files of one instant; in layout 1 there is one."""
    return comparable_time(instant.completion_time or instant.time)


def is_visible_write(instant: Instant) -> bool:
    """True for what can be the base instant of a slice that readers see."""
    if instant.comparable_action not in WRITE_ACTIONS:
        return False
    return instant.state is State.COMPLETED or instant.action == "compaction"


def load_timeline(storage: Storage, base_path: str, config: TableConfig) -> Timeline:
    return read_timeline(storage.list(timeline_folder(base_path, config)), base_path, config.layout)


def read_timeline(files: Iterable[FileStatus], base_path: str, layout: int) -> Timeline:
    """The timeline that a listing of its folder shows."""
    instants: list[Instant] = []
    broken: list[BrokenInstant] = []
    unknown: list[str] = []
    modified: dict[str, float] = {}
    sizes: dict[str, int] = {}
    completed: dict[tuple[str, str], Instant] = {}
    for status in files:
        if status.is_folder:
            continue
        instant = parse_instant(status.name, layout)
        if instant is None:
            if _LOOKS_LIKE_INSTANT.fullmatch(status.name):
                unknown.append(status.name)
            continue
        instants.append(instant)
        modified[status.name] = status.modified
        sizes[status.name] = status.size
        path = status.path.removeprefix(base_path).lstrip("/")
        if instant.state is State.COMPLETED:
            if status.size == 0:
                broken.append(BrokenInstant(instant, path, "The file is empty."))
            first = completed.setdefault((instant.time, instant.comparable_action), instant)
            if first is not instant and instant.action != "clean":
                broken.append(BrokenInstant(instant, path, f"The instant was completed already by {first.file_name}."))
        elif instant.state is State.REQUESTED and instant.action in _ACTIONS_WITH_PLAN and status.size == 0:
            broken.append(BrokenInstant(instant, path, "The file is empty."))
    instants.sort(key=lambda i: (comparable_time(i.time), _STATE_ORDER[i.state], i.file_name))
    return Timeline(tuple(instants), tuple(broken), tuple(unknown), modified, sizes)
