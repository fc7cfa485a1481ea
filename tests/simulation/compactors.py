"""The small kind of history: two processes compact one table beside writers, and everything goes wrong.

a while of everything      writers write, processes plan, merge, publish, roll back, unschedule, pause, die
then peace                 faults stop, writers finish, one process brings the table to rest
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from lakeward.base.errors import (
    AttemptLost,
    Conflict,
    LakewardError,
    LockHeld,
    LockLost,
    NotFound,
    OutcomeUnknown,
    Refused,
    TryLater,
)
from lakeward.protocol.lock.file_system_lock import FLINK_LOCK, SPARK_LOCK, FileSystemLockOptions
from lakeward.protocol.options import CompactionOptions
from lakeward.protocol.serviced_table import ServicedTable
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.compaction.plan.decision import PlanOutcome
from lakeward.services.compaction.plan.planner import Planner, planner_of
from lakeward.services.compaction.plan.selection import GroupFilter
from lakeward.services.compaction.run.compactor import Compactor
from tests.faults import Killed
from tests.simulation.dispatcher import SimulatedDispatcher, merge_ids
from tests.simulation.history import History
from tests.simulation.process_storage import Fault, Faults, ProcessStorage
from tests.simulation.world import Process, SimulatedClock, SimulatedProcesses
from tests.simulation.writer import create_table

SETTINGS = {
    "planner.small_base_size": "1",
    "planner.log_ratio": "0.3",
    "hoodie.compaction.logfile.num.threshold": "2",
    "hoodie.compaction.logfile.size.threshold": "1",
}
EXPECTED = (LockHeld, LockLost, TryLater, AttemptLost, OutcomeUnknown, Conflict, NotFound)
"""What may end a run of a healthy table while others work on it and storage fails."""

BUSY_SECONDS = (40.0, 80.0, 200.0)
LONG_SECONDS = 1000.0

TAKEOVERS = 0.25
"""How many runs are about one process taking over from another that is not dead."""
SETS_CLOCKS = 0.4
"""In how many runs clocks are set, and hosts sleep."""
PEACE_SECONDS = 3600.0


class Compactors(History):
    """The table, the processes at work on it, and what goes wrong."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        world, random = self.world, self.world.random
        self.errors: Counter[str] = Counter()
        self.plans = 0
        self._processes: dict[int, SimulatedProcesses] = {}
        expire = random.choice([None, None, 300.0])
        world.switching = random.choice([0.0, 0.02, 0.1, 0.3])
        kinds = [kind for kind in Fault if random.random() < 0.6]
        self.faults = Faults(random.choice([0.0, 0.001, 0.003, 0.006]), tuple(kinds), (10.0, 30.0))
        self.seconds = random.choice(BUSY_SECONDS)
        self.is_about_takeovers = random.random() < TAKEOVERS
        if self.is_about_takeovers:
            # Paused past lock and heartbeat, mostly while publishing: the other one takes over, and wakes it up.
            expire = 300.0
            self.faults = Faults(0.003, (Fault.PAUSE,), (310.0, 1500.0), only_under_lock=True)
            self.seconds = LONG_SECONDS
        self.table = create_table(
            world, self.storage, "/t", partitions=random.randint(1, 2), lock_expire_seconds=expire
        )
        self.tables = [self.table]
        self.storage.watch = self.table.watch.changed
        self.dispatch_fails = random.choice([0.0, 0.0, 0.1])
        self.longest = random.choice([1.0, 10.0, 130.0])
        self.lock = FileSystemLockOptions(
            random.choice([(SPARK_LOCK,), (SPARK_LOCK, FLINK_LOCK)]), random.choice([0.0, 60.0]), expire
        )
        kind = random.choice(list(CompactionType))
        self.planner: Planner = planner_of(kind, GroupFilter(), {} if kind is CompactionType.FULL else SETTINGS)
        self.hosts = random.choice([("one", "one"), ("one", "two")])
        self.sets_clocks = random.random() < SETS_CLOCKS
        world.say(
            "*** world",
            f"expire={expire} switching={world.switching} faults={self.faults} longest={self.longest} "
            f"lock={self.lock} kind={kind} hosts={self.hosts}",
        )

    def live(self) -> None:
        for number in range(2):
            self.spawn_writer(number, self.table, busy=(5.0, 90.0) if self.is_about_takeovers else (1.0, 20.0))
        for number, host in enumerate(self.hosts):
            self.spawn(f"daemon-{number}", host, self._compact_for_ever, after=number * 5.0)
        if self.sets_clocks:
            self.spawn_clocks(self.hosts)
        self.world.run(seconds=self.seconds)

    def come_to_rest(self) -> None:
        world = self.world
        world.run(seconds=max(0.0, world.asleep_until - world.time))
        self.peace = True
        self.faults.kinds = ()
        self._run_to_the_end()
        if world.actors:
            world.broken(f"{[actor.name for actor in world.actors]} do not end")
        self.spawn_last_writer(9)
        self._run_to_the_end()
        done: list[bool] = []

        def compact_all(last: Process) -> None:
            world.sleep(last, 130.0)  # heartbeats of the other host's dead run out
            everything = planner_of(CompactionType.FULL, GroupFilter(), {})
            storage = ProcessStorage(world, last, self.storage, Faults())
            try:
                self._compactor(last, storage, everything).compact()
            except Conflict:
                if not self.table.watch.has_late_plan:
                    raise
                done.append(True)
                return
            report = self._compactor(last, storage, everything).compact()
            if report.plans or report.outcome.operations:
                world.broken(f"still work after peace: {report}")
            done.append(True)

        self.spawn("daemon-9", self.hosts[0], compact_all)
        self._run_to_the_end()
        if not done:
            world.broken("the last process did not finish")
        self.table.watch.check_at_rest()

    def _run_to_the_end(self) -> None:
        self.world.run(seconds=PEACE_SECONDS, until=lambda: not self.world.actors)

    def _compact_for_ever(self, first: Process) -> None:
        world, process = self.world, first
        while not self.peace:
            try:
                storage = ProcessStorage(world, process, self.storage, self.faults)
                while not self.peace:
                    world.sleep(process, world.random.uniform(1.0, 30.0))
                    self._compact_once(process, storage)
            except Killed:
                if world.ended:
                    raise
                process = self.restart(first.name.partition("#")[0], first.host, within=200.0)
        # Locks of its dead processes, which no other host may judge, are freed by their own host.
        storage = ProcessStorage(world, process, self.storage, Faults())
        while not self._compact_once(process, storage):
            world.sleep(process, 10.0)

    def _compact_once(self, process: Process, storage: ProcessStorage) -> bool:
        world = self.world
        try:
            choice = world.random.random()
            compactor = self._compactor(process, storage, self.planner if choice < 0.7 else choose_nothing)
            if choice < 0.8:
                report = compactor.compact()
                self.plans += len(report.plans)
                return True
            recovery = compactor.recover()
            if recovery.pending and choice > 0.9:
                instant, foreign = recovery.pending[0].work.instant, choice > 0.95
                self.table.watch.unscheduled |= {instant} if foreign else set()
                world.say(process, f"{compactor.unschedule(instant, foreign=foreign)}")
            return True
        except (LakewardError, OSError) as error:
            self.errors[type(error).__name__] += 1
            world.say(process, f"{type(error).__name__}: {error}")
            for note in getattr(error, "__notes__", ()):
                world.say(process, note)
            # A plan that was unscheduled between the listing of the timeline and its reading looks broken, once.
            is_torn_look = isinstance(error, Refused) and "broken-pending-plan" in error.what
            if not isinstance(error, (*EXPECTED, OSError)) and not is_torn_look:
                world.broken(f"{process.name} ended with {error!r}")
            return False

    def _compactor(self, process: Process, storage: ProcessStorage, planner: Planner) -> Compactor:
        world = self.world
        dispatcher = SimulatedDispatcher(
            world,
            process,
            fails=0.0 if self.peace else self.dispatch_fails,
            longest=1.0 if self.peace else self.longest,
        )
        return Compactor(
            ServicedTable.for_one_attempt(
                storage,
                "/t",
                CompactionOptions(
                    writers_stopped=False,
                    lock=self.lock,
                    wait_seconds=world.random.choice([0.0, 0.0, 10.0]),
                    state_folder=Path("/nowhere"),
                ),
                clock=SimulatedClock(world, process),
                processes=self._processes.setdefault(process.pid, SimulatedProcesses(world, process)),
            ),
            planner=planner,
            choose_dispatcher=lambda input_bytes: dispatcher,
            run_operation=partial(merge_ids, storage),
        )


def choose_nothing(*given: object) -> PlanOutcome:
    """A planner by which a run only finishes what is pending."""
    return PlanOutcome((), ())
