"""Every service in any order, beside writers that are late, fail, delete and overwrite, and with processes that die
anywhere; on tables of every kind.

`LAKEWARD_SEED=7` draws other histories than CI's, `LAKEWARD_RUNS=2000` more of them (`make simulate`); a failure prints
the history, the seed that it is of, and Hypothesis' own blob.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, Phase, event, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakeward.base.errors import Conflict, LakewardError, LockHeld, Refused, TryLater
from lakeward.services.archive.plan.hudi_archiver_keys import ArchiveOptions
from lakeward.services.archive.run.archiver import ArchiveReport
from lakeward.services.clean.plan.policy import CleanPolicy, CleanPolicyKind
from lakeward.services.clean.run.cleaner import CleanReport
from lakeward.services.clean.run.orphans import OrphanReport
from lakeward.services.clustering.run.clusterer import ClusteringReport
from lakeward.services.compaction.plan.compaction_type import CompactionType
from lakeward.services.ttl.plan.ttl_plan import TtlReport
from lakeward.storage.storage import Storage
from tests.faults import Fault, FaultKind, Killed
from tests.life import small_table
from tests.life.model import Life
from tests.life.small_table import Kind, SmallTable, Write, without_threads
from tests.runs import runs

SEED = int(os.environ.get("LAKEWARD_SEED", "0"))
EXAMPLES = 5
"""For each kind of table."""
STEPS = 50
LIVE_MAX = 2
KEEP_SECONDS = 7 * 86400.0

KEYS = st.sets(st.integers(0, 7), min_size=1, max_size=4)
KINDS = st.sampled_from(list(CompactionType))
POLICIES = st.sampled_from(
    [
        CleanPolicy(CleanPolicyKind.COMMITS, 1),
        CleanPolicy(CleanPolicyKind.COMMITS, 3),
        CleanPolicy(CleanPolicyKind.VERSIONS, 1),
        CleanPolicy(CleanPolicyKind.VERSIONS, 2),
        CleanPolicy(CleanPolicyKind.HOURS, 1),
    ]
)
ARCHIVES = st.sampled_from(
    [
        ArchiveOptions(
            commits_min=1, commits_max=2, commits_cleaned=1, delta_commits=1, level_files=2, manifests_kept=1
        ),
        ArchiveOptions(commits_min=3, commits_max=5, commits_cleaned=3, delta_commits=2, level_files=3),
    ]
)
WINDOWS = st.sampled_from([0.0, 0.0, 5.0, 7200.0])
CLEANS = st.tuples(POLICIES, WINDOWS)
AGES = st.sampled_from([30.0, 1800.0])
SERVICES = st.one_of(
    KINDS.map(lambda kind: ("compact", kind)),
    CLEANS.map(lambda clean: ("clean", clean)),
    CLEANS.map(lambda clean: ("clean for a while", clean)),
    ARCHIVES.map(lambda options: ("archive", options)),
    AGES.map(lambda age: ("set orphans aside", age)),
    st.just(("roll back", None)),
    st.just(("savepoint", None)),
    st.just(("cluster", None)),
    st.just(("cluster as Hudi plans", None)),
    st.just(("expire", None)),
    st.just(("service metadata", None)),
)
Service = tuple[str, object]

LEFT_ALONE = (Refused, TryLater, LockHeld)
"""What a service may say instead of doing anything."""


class TableUnderService(RuleBasedStateMachine):
    kind = Kind.MERGE_ON_READ

    def __init__(self) -> None:
        super().__init__()
        self._threads = without_threads()
        self._threads.__enter__()

    def teardown(self) -> None:
        self._threads.__exit__(None, None, None)

    @property
    def live(self) -> list[Write]:
        return self.life.table.live

    @initialize()
    def load(self) -> None:
        self.life = Life(SmallTable(self.kind))
        self.life.write(range(self.life.table.keys))
        for key in range(3):  # so that there is something to clean and to archive soon
            self.life.write({key, key + 4})

    # Writers

    @rule(keys=KEYS, deletes=st.booleans())
    def write(self, keys: set[int], deletes: bool) -> None:
        self.life.write(keys, deletes=deletes)

    @precondition(lambda self: len(self.live) < LIVE_MAX)
    @rule(keys=KEYS, deletes=st.booleans())
    def begin(self, keys: set[int], deletes: bool) -> None:
        self.life.begin(keys, deletes=deletes)

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, LIVE_MAX - 1))
    def complete_late(self, number: int) -> None:
        self.life.complete(self.live[number % len(self.live)])

    @precondition(lambda self: self.live)
    @rule(number=st.integers(0, LIVE_MAX - 1))
    def fail(self, number: int) -> None:
        self.life.table.die(self.live[number % len(self.live)])

    @precondition(lambda self: not self.live)
    @rule(number=st.integers(0, 1))
    def overwrite(self, number: int) -> None:
        self.life.overwrite(self.life.table.partitions[number])

    # Hudi takes the timeline to begin with the first commit that has no savepoint. A stray file that is older than
    # that one counts as committed then, whatever is before it, so the two do not come together here.
    @precondition(lambda self: not self.life.saved)
    @rule(key=st.integers(0, 7))
    def stray(self, key: int) -> None:
        self.life.table.stray(key)

    @precondition(lambda self: not self.life.table.kind.copies)
    @rule(every=st.integers(1, 2))
    def hudi_plans_a_compaction(self, every: int) -> None:
        planned = self._planned()
        self.life.table.plan_by_hudi(
            lambda group: group not in planned and int(group[1].partition("-")[0][1:]) % every == 0
        )

    # Services

    @precondition(lambda self: not self.life.table.kind.copies)
    @rule(kind=KINDS)
    def compact(self, kind: CompactionType) -> None:
        self._run(("compact", kind))

    @precondition(lambda self: not self.life.table.kind.copies)
    @rule(key=st.integers(0, 7))
    def compact_logs_with_a_delete(self, key: int) -> None:
        """A LOG of a row that was deleted, which chance alone hardly ever plans."""
        self.life.write({key})
        self.life.write({key}, deletes=True)
        self._run(("compact", CompactionType.LOG))

    @rule(clean=CLEANS)
    def clean(self, clean: tuple[CleanPolicy, float]) -> None:
        """A clean that looks only at what was written since an earlier one takes what a look at all would."""
        report, (policy, window) = self._run(("clean", clean)), clean
        if isinstance(report, CleanReport) and policy.kind is not CleanPolicyKind.HOURS and not window:
            event("clean held against a look at all")
            self.life.check_cleaned(policy)

    @precondition(lambda self: self.life.table.kind.has_metadata)
    @rule()
    def service_metadata(self) -> None:
        self._run(("service metadata", None))

    @rule(age=AGES, looks=st.integers(1, 2))
    def set_orphans_aside(self, age: float, looks: int) -> None:
        """A file goes at the second look that finds it, and both are rare by chance alone."""
        for _ in range(looks - 1):
            self._run(("set orphans aside", age))
            self.life.table.clock.sleep(age + 1.0)
        report = self._run(("set orphans aside", age))
        if isinstance(report, OrphanReport) and report.run is not None:
            event("an orphan file set aside")

    @rule(options=ARCHIVES)
    def archive(self, options: ArchiveOptions) -> None:
        report = self._run(("archive", options))
        if isinstance(report, ArchiveReport) and report.archived:
            event("something archived")

    @rule(clean=CLEANS)
    def clean_for_a_while(self, clean: tuple[CleanPolicy, float]) -> None:
        report = self._run(("clean for a while", clean))
        if isinstance(report, CleanReport) and len(report.cleans) == 1 and not report.cleans[0].recovered:
            self.life.undoable = report.cleans[0].instant

    @precondition(lambda self: self.life.undoable)
    @rule()
    def undo(self) -> None:
        try:
            self.life.table.undo(self.life.undoable)
        except Refused as error:  # what was replaced and archived since may not come back
            note(str(error))
            self.life.undoable = ""
        else:
            event("undo done")
            self.life.undone()
            self.life.learn()
            if self.life.table.metadata.is_there:
                # Where the next clean deletes the same files again, the three log records of a file (gone, back, gone)
                # merge to none, as Hudi merges them, and what the metadata table's base file says of it counts again.
                self._run(("service metadata", None))

    @rule()
    def roll_back(self) -> None:
        self._run(("roll back", None))

    @precondition(lambda self: not self.life.table.has_strays)
    @rule(back=st.integers(0, 3))
    def savepoint(self, back: int) -> None:
        retained = self.life.retained
        self._run(("savepoint", retained[max(0, len(retained) - 1 - back)]))

    @precondition(lambda self: self.life.saved)
    @rule(number=st.integers(0, 3))
    def delete_savepoint(self, number: int) -> None:
        instant = sorted(self.life.saved)[number % len(self.life.saved)]
        self.life.unsave(instant)
        self.life.table.delete_savepoint(instant)

    @precondition(lambda self: not self.live and not self.life.table.has_strays)
    @rule(back=st.integers(0, 5), call=st.none() | st.integers(0, 150))
    def restore(self, back: int, call: int | None) -> None:
        """Back to a commit; by a process that dies right after one of its calls, and another one that ends it."""
        life, table = self.life, self.life.table
        retained = sorted({*life.retained, *life.saved & life.then.keys()})
        instant = retained[max(0, len(retained) - 1 - back)]
        before = dict(life.rows), table.storage.watch
        life.will_restore(instant)
        try:
            if call is not None:
                with suppress(Killed):
                    table.restore(instant, table.process(Fault(FaultKind.KILL, call)))
                table.processes.kill_all()
                event("restore dies")
            table.restore(instant)
        except LEFT_ALONE as error:
            note(str(error))
            event(f"restore {type(error).__name__}")
            life.rows, table.storage.watch = before
        else:
            event("restore done")
            life.restored()

    @rule(service=SERVICES, call=st.integers(0, 90))
    def crash(self, service: Service, call: int) -> None:
        """A process dies right after one of its calls, and the others can see it."""
        if self.life.table.kind.copies and service[0] == "compact":
            return
        if self.life.table.has_strays and service[0] == "savepoint":
            return
        storage = self.life.table.process(Fault(FaultKind.KILL, call))
        with suppress(Killed):
            self._run(service, storage)
        if len(storage.calls) > call:
            event(f"{service[0]} dies")
        self.life.table.processes.kill_all()
        self.life.note_savepoints()
        self.life.learn()

    @rule(as_hudi=st.booleans())
    def cluster(self, as_hudi: bool) -> None:
        report = self._run(("cluster as Hudi plans" if as_hudi else "cluster", None))
        if isinstance(report, ClusteringReport) and report.instant is not None:
            event("something clustered")

    @rule(keys=KEYS)
    def expire(self, keys: set[int]) -> None:
        """Partitions seldom have nothing written to them for long by chance alone."""
        self.life.table.clock.sleep(3600.0)
        self.life.write(keys)
        report = self._run(("expire", None))
        if isinstance(report, TtlReport) and report.instant is not None:
            event("something expired")

    @rule()
    def an_hour_passes(self) -> None:
        self.life.table.clock.sleep(3600.0)

    @invariant()
    def readers_find_what_was_promised(self) -> None:
        self.life.check()

    def _run(self, service: Service, storage: Storage | None = None) -> object:
        name, what = service
        life, table = self.life, self.life.table
        act: Callable[[], object]
        if isinstance(what, CompactionType):
            kind = what
            act = lambda: table.compact(kind, storage)  # noqa: E731
        elif isinstance(what, tuple):
            policy, window = what
            life.will_clean(policy, window)
            keep_seconds = KEEP_SECONDS if "while" in name else 0.0
            act = lambda: table.clean(policy, storage, keep_seconds=keep_seconds, window=window)  # noqa: E731
        elif isinstance(what, ArchiveOptions):
            options = what
            act = lambda: table.archive(options, storage)  # noqa: E731
        elif isinstance(what, float):
            age = what
            act = lambda: table.set_orphans_aside(age, storage)  # noqa: E731
        elif name == "service metadata":
            if not table.metadata.is_there:
                return None
            act = lambda: table.service_metadata(storage)  # noqa: E731
        elif name == "savepoint":
            instant = what if isinstance(what, str) else life.retained[-1]
            if instant in life.saved:
                return None
            act = lambda: table.savepoint(instant, storage)  # noqa: E731
        elif "cluster" in name:
            act = lambda: table.cluster(storage, as_hudi="Hudi" in name)  # noqa: E731
        elif name == "expire":
            act = lambda: table.expire(storage)  # noqa: E731
        else:
            act = lambda: table.roll_back(storage)  # noqa: E731
        done: object = None
        try:
            done = act()
            event(f"{name} done")
        except LakewardError as error:
            note(f"{type(error).__name__}: {error}")
            if isinstance(error, Conflict) and name == "compact":
                # A plan of a group that was overwritten since; the error says what an operator does about it.
                table.unschedule()
                life.learn(late="")
            elif not isinstance(error, LEFT_ALONE):
                raise
            event(f"{name} {type(error).__name__}")
        life.note_savepoints()
        life.learn()
        return done

    def _planned(self) -> set[tuple[str, str]]:
        snapshot = self.life.table.snapshot()
        return {*snapshot.pending_compactions, *snapshot.pending_log_compactions}


@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
def test_any_order_of_services(kind: Kind) -> None:
    """Each of the *Keeps* of tests/life/model.py."""
    machine = seed(SEED)(type(f"Table{kind.name.title()}", (TableUnderService,), {"kind": kind}))

    def run() -> None:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            machine,
            settings=settings(
                max_examples=runs(EXAMPLES),
                stateful_step_count=STEPS,
                suppress_health_check=list(HealthCheck),
                deadline=None,
                phases=(Phase.generate, Phase.shrink),  # to explain costs three times as much, found or not
                print_blob=True,
            ),
        )

    try:
        run()
    except BaseException as error:
        error.add_note(f"LAKEWARD_SEED={SEED} LAKEWARD_RUNS={runs(EXAMPLES)} repeats this run")
        raise


def test_commits_without_a_schema_are_no_matter_to_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metadata table that lists files alone asks for no schema: cleans, rollbacks and restores report them to it."""
    monkeypatch.setattr(small_table, "SCHEMA", "")
    life = Life(SmallTable(Kind.COPY_ON_WRITE_WITH_METADATA))
    one_version = CleanPolicy(CleanPolicyKind.VERSIONS, 1)
    with without_threads():
        for _ in range(2):
            life.write(range(8))
        life.will_clean(one_version)
        (done,) = life.table.clean(one_version).cleans
        life.learn()
        life.table.die(life.begin({1, 2}))
        (rolled_back,) = life.table.roll_back().rolled_back
        life.check()
        saved = life.table.savepoint(None)
        life.note_savepoints()
        life.write(range(4))
        life.will_restore(saved)
        life.table.restore(saved)
        life.restored()
        life.check()
    assert (done.files, bool(rolled_back)) == (4, True)
