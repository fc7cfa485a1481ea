"""What must be true of a simulated table at every moment, looked at after each change that can matter.

Keeps:   1. every committed write id is visible, and nothing else is;
         2. an instant is completed at most once, after it was requested and begun, at a time after both;
         3. a pending plan holds no group that another one holds;
         4. a process of Lakeward deletes no file of another process, and no file that a completed commit of Lakeward
            names
            goes, but by a plan of a clean; and what a writer left that is dead, by a rollback;
         5. no process ends the heartbeat of a living process that is fresh, whatever clocks are set to; and none on
            its own host for the time that the host slept;
         6. every timeline name fits the grammar; at rest nothing of Lakeward is left over;
         7. no write fails for what a service of Lakeward published, under default settings;
         8. a clean of Lakeward plans only what no reader as of the retained commits needs, and no pending plan; a
            rollback
            of Lakeward only what a dead writer left;
         9. a completed instant leaves the timeline only once it is in the history, the oldest ones first;
        10. a clustering of Lakeward leaves each row in one file group; a deletion of expired partitions takes only rows
            that are old enough, and no others are gone.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict

from lakeward.format.timeline.clean_plan import read_clean_plan
from lakeward.protocol.attempts.folder_fencing import ENDED
from lakeward.protocol.attempts.heartbeat import EXPIRY_SECONDS, INTERVAL_SECONDS
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK, RELEASED, SPARK_LOCK
from tests.simulation.memory_storage import MemoryStorage
from tests.simulation.reader import (
    BASE_FILE,
    LOG_FILE,
    TIMELINE_FILE,
    planned_files,
    planned_groups,
    read_archived,
    read_avro,
    read_table,
    read_timeline,
    replaced_by,
    replaced_groups,
)
from tests.simulation.world import World

WRITER = "writer"
INSTANT = re.compile(r"\d{17}")
WAKING_SECONDS = 60.0


class TableWatch:
    """Watches one table."""

    def __init__(self, world: World, storage: MemoryStorage, base_path: str, partitions: tuple[str, ...]) -> None:
        self.world = world
        self.storage = storage
        self.base_path = base_path
        self.partitions = partitions
        self.committed: set[int] = set()
        """Write ids that readers must see."""
        self.cleaned: set[str] = set()
        """Paths that a clean may delete."""
        self.written: dict[int, float] = {}
        """When the write of each id was requested."""
        self.groups: list[tuple[str, str]] = []
        """File groups that a committed write made, and that none replaced."""
        self.retained: int | None = None
        """How many commits cleans of Lakeward retain; None: none is done."""
        self.keep: float | None = None
        """How many seconds rows stay at least; None: for ever."""
        self._visible: dict[tuple[str, str], frozenset[int]] = {}
        """What was visible in each group when that was looked at last."""
        self.dead_writes: set[str] = set()
        """Instants of all writers that died."""
        self.unscheduled: set[str] = set()
        """Foreign plans that an operator had removed."""
        self.has_late_plan = False
        self.shadow = False
        """No operator said how the writers lock, so nothing of Lakeward may be written."""
        self._published_late: set[str] = set()
        self._timeline = f"{base_path}/.hoodie/timeline"
        self._owner: dict[str, str] = {}
        self._beats: dict[str, tuple[float, float]] = {}
        """When, and how long its host had slept by then."""
        self._referenced: set[str] = set()
        self._aside: dict[str, str] = {}
        """Heartbeats that are being looked at under another name, by it."""

    def changed(self, change: str, path: str) -> None:
        """Called by the storage after each change below the base path."""
        if change == "touch":
            self._beat(path)
            return
        name = posixpath.basename(path)
        by = self.world.acting.name if self.world.acting is not None else WRITER
        if self.shadow and by.startswith("daemon"):
            self.world.broken(f"{self.base_path} is only watched, and {by} did {change} {path}")
        if ENDED in name and path.startswith(f"{self.base_path}/.hoodie/.heartbeat/"):
            self._heartbeat_aside(change, path, by)
            return
        if change == "create":
            self._owner[path] = by
            self._beat(path)
        elif path not in self._aside.values():
            self._check_delete(path, by)
        folder = posixpath.dirname(path)
        if folder == self._timeline:
            if change == "create" and not name.startswith("."):
                self._check_instant(name, by)
            self.check()
        elif not folder.startswith(f"{self.base_path}/.hoodie") and change == "delete":
            self.check()

    def _beat(self, path: str) -> None:
        acting = self.world.acting
        self._beats[path] = self.world.time, 0.0 if acting is None else acting.suspended

    def caused_conflict(self, write: str, instant: str, *, is_log: bool) -> None:
        """A writer found that its commit conflicts with what a service of Lakeward published."""
        # One that was stopped behind its fence publishes when its lock is another's by now. And which of two files
        # came first, where a write and a plan began at the same time, depends on a clock that may have been set back.
        if instant not in self._published_late and (is_log or not self.world.clocks_are_set):
            self.world.broken(f"{self.base_path}: write {write} fails for {instant}")

    def check(self) -> None:
        """Look at the table as a reader does."""
        try:
            view = read_table(self.storage, self.base_path, self.partitions)
        except Exception as error:
            self.world.broken(f"{self.base_path} cannot be read: {error!r}")
            return
        if lost := self.committed - view.visible:
            self.world.broken(f"{self.base_path}: writes {sorted(lost)} are committed and not visible")
        if ghosts := view.visible - self.committed:
            self.world.broken(f"{self.base_path}: writes {sorted(ghosts)} are visible and not committed")
        for problem in view.problems:
            self.world.broken(problem)
        self._visible = view.ids
        instants = read_timeline(self.storage, self.base_path)
        for time, each in instants.completed.items():
            if len(each) > 1:
                self.world.broken(f"{self.base_path}: {time} is completed more than once: {each}")
        for path in self._referenced - self.cleaned:
            if self.storage.stat(path) is None:
                self.world.broken(f"{path} is named by a commit and gone")
        on_timeline = [time for time in instants.completed if instants.completion_time(time) is not None]
        gone = instants.archived.keys() - on_timeline
        if gone and on_timeline and max(gone) > min(on_timeline):
            self.world.broken(f"{self.base_path}: {max(gone)} has left the timeline, and {min(on_timeline)} has not")

    def check_at_rest(self) -> None:
        """Nothing is pending, nothing is left over."""
        self.check()
        if self.has_late_plan:
            return
        instants = read_timeline(self.storage, self.base_path)
        for time, states in instants.pending.items():
            if time not in instants.completed:
                self.world.broken(f"{self.base_path}: {time} is pending at rest: {sorted(states)}")
        for name in instants.unknown:
            self.world.broken(f"{self.base_path}: {name} is left on the timeline")
        for path in self.storage.walk(f"{self.base_path}/.hoodie"):
            below = path.removeprefix(f"{self.base_path}/")
            # An attempt that was overtaken while it slept may make its markers again, and then finds that it is lost.
            own = self._owner.get(path, WRITER).startswith("daemon") and ".marker." not in below
            if RELEASED in below:
                continue  # moved away by a process that died over it; tidied up a day later
            if own and below.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/", SPARK_LOCK, FLINK_LOCK)):
                self.world.broken(f"{path} is left over")
        self._check_files_have_commits()

    def _check_files_have_commits(self) -> None:
        instants = read_timeline(self.storage, self.base_path)
        for partition in self.partitions:
            for status in self.storage.list(posixpath.join(self.base_path, partition)):
                match = BASE_FILE.fullmatch(status.name) or LOG_FILE.fullmatch(status.name)
                if match is None or not self._owner.get(status.path, WRITER).startswith("daemon"):
                    continue
                instant = match.groups()[-1] if status.name.endswith(".parquet") else match.group(2)
                if instants.completion_time(instant) is None:
                    self.world.broken(f"{status.path} was left by an instant that never completed")

    def _check_instant(self, name: str, by: str) -> None:
        match = TIMELINE_FILE.fullmatch(name)
        if match is None:
            if not name.endswith(".lakeward-tmp"):
                self.world.broken(f"{self.base_path}: {by} made {name}, which is no timeline file")
            return
        time, completed, action, state = match.groups()
        instants = read_timeline(self.storage, self.base_path)
        if completed is None:
            never_requested = state == "inflight" and (action, "requested") not in instants.pending.get(time, ())
            # One that was stopped while it began, and whose plan was unscheduled meanwhile, removes it at once.
            if never_requested and not self._just_woke():
                self.world.broken(f"{self.base_path}: {name} was begun by {by} and never requested")
            if state == "requested" and by.startswith("daemon"):
                others = {*instants.pending, *instants.completed} - {time}
                if others and max(others) >= time and not self._is_late_plan():
                    self.world.broken(f"{self.base_path}: {by} requested {time} after {max(others)}")
            if state == "requested" and action in ("compaction", "logcompaction"):
                self._check_plans()
            if state == "requested" and by.startswith("daemon"):
                self._check_plan_of_lakeward(name, action)
            return
        if completed <= time:
            self.world.broken(f"{self.base_path}: {name} completed before it was requested")
        pending = instants.pending.get(time, set())
        if pending and not any(each == "inflight" for _, each in pending):
            self.world.broken(f"{self.base_path}: {by} completed {name}, which was not begun")
        if by.startswith("daemon"):
            if self._just_woke():
                self._published_late.add(time)
            self._check_completed_by_us(name, instants.pending_actions(time))

    def _check_plan_of_lakeward(self, name: str, action: str) -> None:
        path = f"{self._timeline}/{name}"
        if action == "clean":
            plan = read_clean_plan(self.storage.read(path), file=path, root=self.base_path)
            for partition, names in plan.files.items():
                self._check_dead(name, partition, names)
        if action == "rollback":
            failed = read_avro(self.storage.read(path))["instantToRollback"]["commitTime"]
            # Whether a replacement of Lakeward may be rolled back its heartbeat says, which is looked at when it ends.
            requested = f"{self._timeline}/{failed}.replacecommit.requested"
            if failed not in self.dead_writes and not self._owner.get(requested, WRITER).startswith("daemon"):
                self.world.broken(f"{self.base_path}: {name} is of {failed}, whose writer lives")

    def _check_dead(self, name: str, partition: str, file_names: tuple[str, ...]) -> None:
        """Readers as of any retained commit find a newer base file, and so does who carries a pending plan out."""
        assert self.retained is not None
        instants = read_timeline(self.storage, self.base_path)
        commits = sorted(time for time in instants.completed if instants.completion_time(time) is not None)
        oldest = commits[-self.retained] if len(commits) >= self.retained else ""
        replaced = replaced_groups(self.storage, instants)
        bases = read_table(self.storage, self.base_path, (partition,)).completed_bases
        planned = planned_files(self.storage, self.base_path, instants)
        for each in file_names:
            if match := BASE_FILE.fullmatch(each):
                file_id, since = match[1], match[3]
            else:
                log = LOG_FILE.fullmatch(each)
                assert log is not None, each
                file_id, since = log[1], instants.completion_time(log[2]) or "~"
            newer = [*bases.get((partition, file_id), ())]
            if group_replaced := replaced.get((partition, file_id)):
                newer.append(group_replaced)
            if not any(since < base <= oldest for base in newer):
                self.world.broken(f"{self.base_path}: {name} takes {each}, which readers as of {oldest} need")
            if each in planned:
                self.world.broken(f"{self.base_path}: {name} takes {each}, which a pending plan needs")
            self.cleaned.add(posixpath.join(self.base_path, partition, each))

    def _check_completed_by_us(self, name: str, actions: set[str]) -> None:
        if self.retained is not None and actions & {"clean", "rollback"}:
            return
        commit = self.storage.read(f"{self._timeline}/{name}")
        if self.retained is not None and "replacecommit" in actions:
            self._check_replaced(name, commit)
        elif not actions & {"compaction", "logcompaction"}:
            self.world.broken(f"{self.base_path}: {name} completes no plan of a compaction")
        for each in read_avro(commit)["partitionToWriteStats"].values():
            for stat in each:
                self._referenced.add(posixpath.join(self.base_path, stat["path"]))

    def _check_replaced(self, name: str, commit: bytes) -> None:
        """A clustering, of which the next look shows that it lost nothing, or a deletion of expired partitions."""
        replaced, stats = replaced_by(commit), read_avro(commit)["partitionToWriteStats"]
        self.groups[:] = [group for group in self.groups if group not in replaced]
        self.groups += [(partition, stat["fileId"]) for partition, each in sorted(stats.items()) for stat in each]
        if read_avro(commit)["operationType"] != "DELETE_PARTITION":
            return
        assert self.keep is not None
        gone = frozenset[int]().union(*(self._visible.get(group, frozenset()) for group in replaced))
        young = [id_ for id_ in gone if self.world.time - self.written[id_] < self.keep]
        if young and not self.world.clocks_are_set:
            self.world.broken(f"{self.base_path}: {name} deletes writes {sorted(young)}, which are too young")
        self.committed -= gone

    def _check_plans(self) -> None:
        instants = read_timeline(self.storage, self.base_path)
        held = defaultdict(list, planned_groups(self.storage, self.base_path, instants, "compaction"))
        for group, times in held.items():
            if len(times) > 1 and not self._is_late_plan():
                self.world.broken(f"{self.base_path}: {group} is in the pending plans of {times}")

    def _is_late_plan(self) -> bool:
        """Known, and nothing on storage can prevent it: a process is stopped behind its fence, its lock runs out, and
        it wakes up to write its plan. Groups in two plans are excluded until one of them is unscheduled."""
        self.has_late_plan |= self._just_woke()
        return self.has_late_plan

    def _just_woke(self) -> bool:
        return self.world.acting is not None and self.world.time - self.world.acting.woke_at < 1.0

    def _check_delete(self, path: str, by: str) -> None:
        owner = self._owner.pop(path, WRITER)
        if not by.startswith("daemon"):
            return
        below = path.removeprefix(f"{self.base_path}/")
        if path in self.cleaned and self.retained is not None:
            return
        if path in self._referenced:
            self.world.broken(f"{by} deleted {path}, which a commit names")
        if self.retained is not None and posixpath.dirname(path) == self._timeline:
            if posixpath.basename(path)[:17] in read_archived(self.storage, self.base_path):
                return
            if "_" in posixpath.basename(path):
                self.world.broken(f"{by} deleted {path}, which is not in the history")
        if "/.heartbeat/" in path and by != owner:
            self._check_end_of_heartbeat(path, owner, by)
        if owner.startswith("daemon"):
            return
        if posixpath.basename(path).partition(".")[0] in self.unscheduled:
            return
        if any(time in self.dead_writes for time in INSTANT.findall(below)):
            return
        # A folder of an attempt is renamed as a whole, so the world did not see who made the files under its new name.
        if not below.startswith((SPARK_LOCK, FLINK_LOCK)) and "/dead-attempt-" not in below:
            self.world.broken(f"{by} deleted {path}, which {owner} made")

    def _heartbeat_aside(self, change: str, path: str, by: str) -> None:
        """A heartbeat ends when it is deleted under the name to which it was renamed; it may be put back instead."""
        if change == "create":
            folder, _, name = path.rpartition("/")
            self._aside[path] = f"{folder}/{name[1:].partition('.')[0]}"
            return
        heartbeat = self._aside.pop(path)
        if self.storage.stat(heartbeat) is None:
            self._check_delete(heartbeat, by)

    def _check_end_of_heartbeat(self, path: str, owner: str, by: str) -> None:
        if posixpath.basename(path) in read_timeline(self.storage, self.base_path).completed:
            return  # its work is done, and removing it failed
        process = next((each for each in self.world.processes.values() if each.name == owner), None)
        if process is None or process.dead or self.world.time - process.woke_at < WAKING_SECONDS:
            return  # one that wakes up may beat between the look at its old beat and the end
        beat_at, suspended = self._beats.get(path, (0.0, 0.0))
        age = self.world.time - beat_at
        if self.world.acting is not None and self.world.acting.host == process.host:
            age -= process.suspended - suspended
        # By a clock that was set one that does not beat is old at once, and is looked at for longer than an interval.
        if age < (INTERVAL_SECONDS if self.world.clocks_are_set else EXPIRY_SECONDS - 1.0):
            self.world.broken(f"{by} ended {path}, by which {owner} said {age:.0f} s ago that it is alive")
