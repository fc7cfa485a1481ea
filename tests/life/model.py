"""What must be true of a small table at every moment: a dict of rows, with time travel, beside the table itself.

Keeps:   1. readers of now find every row of every completed write, and no other;
         2. readers as of an instant find what they found when it was the newest one, for as long as retention promises
            it: from the floor that the last clean may have set, and of savepointed instants for ever;
         3. every file that a pending plan reads or a savepoint names is there, and no file of no instant counts as
            committed;
         4. what is completed stays as it is, byte for byte, until it is in the history; it leaves oldest first, so that
            the timeline has no hole;
         5. every file that a write or compaction names is there when it completes;
         6. the metadata table, where there is one, lists the files of what is committed and no others;
         7. after a restore readers find what they found when that commit had just completed;
         8. a clean that looks only at what was written since an earlier one leaves what a look at all would leave;
         9. a partition is deleted because it expired only if none of its rows was written lately.
"""

from __future__ import annotations

import copy
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

from lakeward.format.timeline.instant import format_instant_time
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.table.metadata.metadata_listing import compare_with_storage, load_listing
from tests.life.reader import GroupId, Readers, look
from tests.life.rows import present
from tests.life.small_table import BASE, EXPIRE_SECONDS, TIMELINE, SmallTable, Write
from tests.simulation.reader import BASE_FILE, WRITES, read_avro, read_timeline


class Broken(AssertionError):
    """The table is not what was promised."""


@dataclass
class Life:
    table: SmallTable = field(default_factory=SmallTable)
    rows: dict[int, int] = field(default_factory=dict)
    """The number of the last write by key, with a minus where it deleted the row."""
    past: dict[str, dict[int, int]] = field(default_factory=dict)
    """Rows as of each completed write or compaction."""
    then: dict[str, dict[int, int]] = field(default_factory=dict)
    """All rows, deleted ones with them, when a write or compaction had just completed."""
    floor: str = ""
    """The oldest instant that is promised."""
    saved: set[str] = field(default_factory=set)
    """Instants with a savepoint that was promised when it was made."""
    completed: dict[str, bytes] = field(default_factory=dict)
    """Completed files of the timeline by path."""
    forgotten: set[str] = field(default_factory=set)
    """Paths of those that may go: of deleted savepoints."""
    before_clean: tuple[str, dict[str, dict[int, int]]] = ("", {})
    """What was promised before the last clean, the floor and what readers found from there on."""
    undoable: str = ""
    """The last clean, where what it took away is kept and all of the rest is as it was."""
    broken: str = ""
    """What was found while a service was at work, whose code may catch errors."""
    last_number: int = 0
    instants: dict[int, str] = field(default_factory=dict)
    """The instant of each write that completed, by its number."""
    changed_below: set[str] = field(default_factory=set)
    """Savepointed instants before which a write began that completed after the savepoint was made: what it wrote shows
    as of then for as long as cleans leave it, and the savepoint does not name it."""
    opened: set[tuple[GroupId, str]] = field(default_factory=set)
    """Slices that pending compactions have opened, each with its plan."""

    def __post_init__(self) -> None:
        self.table.storage.watch = self._changed

    def copy(self) -> Life:
        """Another one that goes on from here."""
        looked_on = self.table.processes.stillness  # it has a lock, and nothing that it remembers counts
        return copy.deepcopy(self, {id(looked_on): looked_on})

    # What writers do

    def write(self, keys: Iterable[int], *, deletes: bool = False) -> Write:
        write = self.begin(keys, deletes=deletes)
        self.complete(write)
        return write

    def begin(self, keys: Iterable[int], *, deletes: bool = False, replaces: str | None = None) -> Write:
        self.last_number += 1
        return self.table.begin(self.last_number, set(keys), deletes=deletes, replaces=replaces)

    def complete(self, write: Write) -> None:
        self.expect(write)
        self.table.complete(write)
        self.learn(late=write.instant)

    def expect(self, write: Write) -> None:
        """It is about to complete."""
        self.instants[write.number] = write.instant
        if write.replaces is not None:
            kept = {key: number for key, number in self.rows.items() if self.table.partition_of(key) != write.replaces}
            self.rows = kept
        for key, number in write.rows.items():
            self.rows[key] = max(number, self.rows.get(key, 0), key=abs)

    def overwrite(self, partition: str) -> None:
        """All rows of a partition, in new file groups."""
        keys = [key for key in range(self.table.keys) if self.table.partition_of(key) == partition]
        self.complete(self.begin(keys[::2], replaces=partition))

    # What services may do

    def will_clean(self, policy: CleanPolicy, window: float = 0.0) -> None:
        """A clean begins now, and may be ended by any later one.

        Args:
            window: seconds for which a query may run: one that began then read what was the newest instant.
        """
        instants = read_timeline(self.table.storage, BASE)
        completed = look(self.table.storage, BASE, self.table.partitions).completed
        commits = sorted(completed)
        if not commits:
            return
        pending = sorted(
            time
            for time in instants.pending.keys() - instants.completed.keys()
            if {action for action, _ in instants.pending[time]} & {*WRITES, "compaction", "logcompaction"}
        )
        earliest: str | None
        match policy.kind:
            case CleanPolicyKind.VERSIONS:
                earliest = commits[-1]
            case CleanPolicyKind.HOURS:
                since = format_instant_time(round(self.table.clock.now() * 1000) - policy.milliseconds, UTC)
                earliest = next((commit for commit in commits if commit >= since), commits[-1])
            case CleanPolicyKind.COMMITS:
                earliest = commits[-policy.retain] if len(commits) > policy.retain else None
                if earliest is not None and pending and pending[0] < earliest:
                    earliest = max((commit for commit in commits if commit < pending[0]), default=None)
        if window and earliest is not None:
            since = format_instant_time(round((self.table.clock.now() - window) * 1000), UTC)
            earliest = min(earliest, max((time for time, at in completed.items() if at < since), default=""))
        self.before_clean, self.undoable = (self.floor, dict(self.past)), ""
        self.floor = max(self.floor, earliest or "")
        self._forget()

    def undone(self) -> None:
        """The last clean was undone, and what was promised before it is promised again."""
        self.floor, past = self.before_clean
        self.past = {**past, **self.past}
        self.undoable = ""

    def will_restore(self, instant: str) -> None:
        """It is known that the table will be taken back to this commit."""
        self.table.storage.watch = lambda change, path: None  # until then readers find something in between
        self.rows = dict(self.then[instant])

    def restored(self) -> None:
        """What came later is gone, also from what readers find as of earlier instants."""
        self.table.storage.watch = self._changed
        there = self._look().completed
        self.then = {time: rows for time, rows in self.then.items() if time in there}
        self.past = {time: rows for time, rows in self.past.items() if time in there}
        on_timeline = {f"{TIMELINE}/{name}" for name in self.table.storage.names(TIMELINE)}
        self.forgotten |= {path for path in self.completed if path not in on_timeline}
        self.undoable = ""
        # A savepoint may be older than what the cleans since have left; now it is the newest commit.
        self.floor = min(self.floor, max(there))
        self.learn(late="")

    def note_savepoints(self) -> None:
        """Savepoints that are there are promised from now on, also where a process died right after it made one."""
        instants = read_timeline(self.table.storage, BASE)
        self.saved |= {
            time for time, each in instants.completed.items() if any(action == "savepoint" for _, action, _ in each)
        }

    def unsave(self, instant: str) -> None:
        """Its savepoint is about to be deleted."""
        self.saved.discard(instant)
        self.forgotten |= {
            path for path in self.completed if path.startswith(f"{TIMELINE}/{instant}_") and ".savepoint" in path
        }
        if instant < self.floor:
            self.past.pop(instant, None)

    @property
    def retained(self) -> list[str]:
        """Instants that can be read, and that a savepoint may be made of: archived ones cannot."""
        return sorted(time for time in self._look().completed if time >= self.floor)

    # What is true

    def learn(self, late: str = "~") -> None:
        """Remember what readers find as of instants that have completed since.

        Args:
            late: an instant that completed just now, after others that were requested later: what these show may have
                changed.
        """
        readers = self._look()
        opened_now = {(group, plan) for group, plans in readers.opened.items() for plan in plans}
        if any(plan not in readers.groups[group].bases for group, plan in self.opened - opened_now):
            # Its plan was completed without the group, which was replaced, or is gone: late logs that came after the
            # plan belong to the slice before it again, where readers as of then find them.
            late = ""
        self.opened = opened_now
        if late:
            self.changed_below |= {time for time in self.saved if time >= late}
        if any(time >= late for time in self.before_clean[1]):
            self.undoable = ""
        # A late write's log belongs to a slice that a plan has opened since, and readers as of it do not find it.
        opened = [plan for plans in readers.opened.values() for plan in plans]
        newest = max([*readers.completed, *opened], default="")
        for time in sorted(readers.completed):
            self.then.setdefault(time, dict(self.rows))
            if time not in self.past or time >= late:
                self.past[time] = present(self.rows) if time == newest else readers.rows(time)
        self._forget()

    def _forget(self) -> None:
        kept = self.saved - self.changed_below
        self.past = {time: rows for time, rows in self.past.items() if time >= self.floor or time in kept}

    def check(self) -> None:
        if self.broken:
            raise Broken(self.broken)
        readers = self._look()
        self._check_now(readers)
        for time, rows in sorted(self.past.items()):
            if (found := readers.rows(time)) != rows:
                raise Broken(f"as of {time} readers found {rows} and find {found}; retained from {self.floor}")
        for path in self._needed():
            if self.table.storage.stat(path) is None:
                raise Broken(f"{path} is needed, and gone")
        if self.table.metadata.is_there:
            self._check_metadata_table()

    def check_cleaned(self, policy: CleanPolicy) -> None:
        """A clean by this policy has just ended."""
        if left := self.table.dead(policy):
            raise Broken(f"a clean by {policy} left {left}, which a look at all lets go")

    def _check_metadata_table(self) -> None:
        storage, snapshot = self.table.storage, self.table.snapshot()
        if any(each.action in ("clean", "rollback") for each in snapshot.timeline.pending):
            return  # files go before that is said
        listing = load_listing(storage, BASE, snapshot.config, snapshot.timeline, clock=self.table.clock)
        found = compare_with_storage(storage, BASE, listing, self.table.partitions, snapshot.timeline)
        if found:
            raise Broken("; ".join(f"in the metadata table {each}" for each in found))

    def _look(self) -> Readers:
        return look(self.table.storage, BASE, self.table.partitions)

    def _check_now(self, readers: Readers) -> None:
        if readers.problems:
            raise Broken("; ".join(readers.problems))
        if (found := readers.rows()) != present(self.rows):
            raise Broken(f"readers should find {present(self.rows)}, and find {found}")
        gone = readers.archived.keys() - readers.completed.keys()
        if gone and readers.completed and max(gone) > min(readers.completed):
            raise Broken(f"{max(gone)} has left the timeline, and {min(readers.completed)} has not")
        on_timeline = {f"{TIMELINE}/{name}" for name in self.table.storage.names(TIMELINE)}
        for path, data in self.completed.items():
            if path in on_timeline:
                if self.table.storage.read(path) != data:
                    raise Broken(f"{path} was changed")
            elif path not in self.forgotten and not self._is_archived(path, readers):
                raise Broken(f"{path} is gone, and not in the history")
        instants = read_timeline(self.table.storage, BASE)
        for each in instants.completed.values():
            for _, action, path in each:
                if path not in self.completed:
                    self.completed[path] = self.table.storage.read(path)
                    self._check_named(action, path)

    def _check_named(self, action: str, path: str) -> None:
        """It has just completed."""
        stats = read_avro(self.completed[path])["partitionToWriteStats"] if action in WRITES else {}
        for stat in (stat for each in stats.values() for stat in each):
            if self.table.storage.stat(f"{BASE}/{stat['path']}") is None:
                raise Broken(f"{path} is completed, and {stat['path']}, which it names, is not there")

    def _is_archived(self, path: str, readers: Readers) -> bool:
        time, _, completed = posixpath.basename(path).partition(".")[0].partition("_")
        if path.rpartition(".")[2] in WRITES:
            return readers.archived.get(time) == completed
        return not readers.completed or time < min(readers.completed)  # cleans and rollbacks go with the commits

    def _needed(self) -> Iterable[str]:
        """Files that are read later, whatever readers do."""
        storage, readers = self.table.storage, self._look()
        counting = {**readers.completed, **readers.archived}
        instants = read_timeline(storage, BASE)
        for time, states in instants.pending.items():
            for action in ("compaction", "logcompaction"):
                if (action, "requested") in states and time not in instants.completed:
                    for operation in read_avro(storage.read(f"{TIMELINE}/{time}.{action}.requested"))["operations"]:
                        names = [operation["dataFilePath"], *operation["deltaFilePaths"]]
                        yield from (f"{BASE}/{operation['partitionPath']}/{name}" for name in names if name)
        for each in instants.completed.values():
            for _, action, path in each:
                if action == "savepoint":
                    for partition, of in read_avro(storage.read(path))["partitionMetadata"].items():
                        yield from (
                            f"{BASE}/{partition}/{name}"
                            for name in of["savepointDataFile"]
                            # Logs of later commits are among them, which a restore takes away.
                            if _instant_of(name) in counting
                        )

    def _note_expired(self, commit: Mapping[str, Any]) -> None:
        """It has just completed, and may have deleted partitions."""
        if commit.get("operationType") != "DELETE_PARTITION":
            return
        young = format_instant_time(round((self.table.clock.now() - EXPIRE_SECONDS) * 1000), UTC)
        expired = commit["partitionToReplaceFileIds"]
        gone = {key for key in self.rows if self.table.partition_of(key) in expired}
        if late := {key: self.rows[key] for key in gone if self.instants[abs(self.rows[key])] > young}:
            self.broken = f"partitions of {late} expired, whose rows were written after {young}"
        self.rows = {key: number for key, number in self.rows.items() if key not in gone}

    def _changed(self, change: str, path: str) -> None:
        """Called by the storage after each change."""
        is_data = not path.startswith(f"{BASE}/.hoodie/") and change == "delete"
        is_timeline = posixpath.dirname(path) == TIMELINE and not posixpath.basename(path).startswith(".")
        if self.broken or change == "touch" or not (is_data or is_timeline):
            return
        if change == "create" and path.endswith(".replacecommit"):
            self._note_expired(read_avro(self.table.storage.read(path)))
        try:
            self._check_now(self._look())
        except Broken as error:
            self.broken = f"after {change} {path}: {error}"


def _instant_of(name: str) -> str:
    match = BASE_FILE.fullmatch(name)
    return match[3] if match is not None else name.split("_")[1].partition(".")[0]
