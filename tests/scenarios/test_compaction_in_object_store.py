"""A plan carried out in an object store, where nothing can be renamed: stopped at every write, and overtaken by others.

In memory, so that every write can be stopped; once against a real S3-compatible server, through everything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lakeward.base.errors import AlreadyExists, AttemptLost, LakewardError, LockLost
from lakeward.engine.task.operation_output import open_operation_output, output_path
from lakeward.engine.task.operation_spec import OperationSpec
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat import Heartbeat
from lakeward.protocol.attempts.heartbeat_line import heartbeat_path
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.storage.object_store import ObjectStore
from lakeward.storage.object_url import parse_object_url
from tests.crash.compacting import (
    FULL,
    LOG,
    check_finished,
    check_log_compacted,
    check_readable,
    compact,
    compactor,
    everything,
    instants,
)
from tests.faults import Fault, FaultKind, Killed
from tests.golden_tables import copy_golden
from tests.memory_objects import MemoryObjects
from tests.object_lake import BASE, KINDS, Lake, RemoteLake, Service, carry_out, overtaken, survive
from tests.object_tables import bring, fetch
from tests.processes import ScriptedProcesses

SERVICES = (
    Service("full", FULL, check_readable, check_finished),
    Service("log", LOG, check_readable, check_log_compacted),
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


# ------------------------------------------------------------------------------------------------------------ faults


@pytest.mark.wide
@pytest.mark.services
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_survives_every_fault_in_s3(kind: FaultKind, service: Service, bucket: str, tmp_path: Path) -> None:
    """It does so against a real server."""
    survive(kind, service, RemoteLake(tmp_path, bucket))


def test_a_plan_is_unscheduled(lake: Lake) -> None:
    """Nothing is left of it and of a dead attempt at it, wherever that died before it stated its intent. After that it
    is rolled forward."""
    store = lake.copy().store()
    carry_out(store, ScriptedProcesses())
    before = everything(lake.fetched())
    given = next(n for n, write in enumerate(store.writes) if write.startswith("replace") and "heartbeat" in write)
    for number in range(given - 3, given + 1):
        table, processes = lake.copy(), ScriptedProcesses()
        with pytest.raises(Killed):
            carry_out(table.store(Fault(FaultKind.KILL, number)), processes)
        processes.kill_all()
        (instant,) = {i.time for i in instants(table.fetched()) if i.action == "compaction"}
        options = {"lock": StorageLockOptions(wait_seconds=0.0)}
        again = compactor(BASE, table.store(), processes, **options)  # type: ignore[arg-type]
        if number < given:
            again.unschedule(instant)
            assert [path for path in everything(table.fetched()) if "/.locks/" not in path] == before
        else:
            with pytest.raises(AttemptLost):
                again.unschedule(instant)
            check_readable(table.fetched())
            assert [i.state for i in instants(table.fetched()) if i.time == instant][-1] is State.COMPLETED


# ------------------------------------------------------------------------------------------- two that believe in it


def states_intent(write: str) -> bool:
    return write.startswith("replace") and "/.heartbeat/" in write


def publishes(write: str) -> bool:
    return write.startswith("create") and write.endswith(".commit")


def stages(write: str) -> bool:
    return write.endswith("/commit")


@pytest.mark.parametrize("at", [stages, states_intent])
def test_an_attempt_overtaken_before_its_intent_publishes_nothing(lake: Lake, at: Callable[[str], bool]) -> None:
    """t0 A is about to state its intent and is stopped; t1 B takes its heartbeat, rolls it back and publishes; t2 A
    wakes."""
    writes, error = overtaken(lake, at)
    assert isinstance(error, AttemptLost | LockLost)
    assert not any(publishes(write) for write in writes)
    carry_out(lake.store(), ScriptedProcesses())  # nothing is left to do but to tidy up after A
    check_finished(lake.fetched())


def test_an_attempt_overtaken_after_its_intent_finds_it_done(lake: Lake) -> None:
    """t0 A has stated its intent and is stopped; t1 B creates the file that A named; t2 A wakes and finds its own
    commit."""
    _, error = overtaken(lake, publishes)
    assert error is None
    check_finished(lake.fetched())


def test_a_result_that_another_process_deleted_is_not_published(lake: Lake) -> None:
    """Another engine that rolls our attempt back deletes it so; the plan stays."""
    store, processes = lake.store(), ScriptedProcesses()

    def delete(write: str) -> None:
        if stages(write) and write.startswith("create"):
            (output,) = [path for path in lake.objects.data if "-1000-0_" in path and path.endswith(".parquet")]
            del lake.objects.data[output]

    store.before = delete
    with pytest.raises(AttemptLost, match="no longer there"):
        carry_out(store, processes)
    assert not any(publishes(write) for write in store.writes)
    carry_out(lake.store(), processes)
    check_finished(lake.fetched())


def test_a_task_that_wakes_too_late_leaves_nothing(lake: Lake) -> None:
    """Its upload is broken off when the heartbeat is not its attempt's any more."""
    kept: list[OperationSpec] = []
    processes, store = ScriptedProcesses(), lake.store()

    def run(spec: OperationSpec, task_attempt: int) -> None:
        kept.append(spec)
        raise LakewardError("stopped")

    late = compactor(BASE, store, processes, lock=StorageLockOptions(wait_seconds=0.0))  # type: ignore[arg-type]
    late._run_operation = run  # type: ignore[assignment]
    with suppress(LakewardError):
        late.compact()
    (spec,) = kept
    owner = processes.owners[-1]

    def written() -> bool:
        return store.stat(output_path(store, spec.place, spec.file_name(0))) is not None

    def attempt_to_write(meanwhile: Callable[[], None]) -> None:
        with open_operation_output(store, spec.place, spec.file_name(0), replaces_base_file=True) as sink:
            sink.write(b"rows")
            meanwhile()

    with pytest.raises(AttemptLost):  # rolled back before it began
        attempt_to_write(lambda: None)
    alive = Heartbeat(store, BASE, spec.slice.instant, owner)
    for change in (alive.end, lambda: alive.state_intent("1_2.commit"), lambda: become_another(store, spec, processes)):
        alive.start()
        with pytest.raises(AttemptLost):
            attempt_to_write(change)
        assert not written()
        store.delete(heartbeat_path(BASE, spec.slice.instant))
        store.delete_folder(spec.attempt_folder.rpartition("/")[0])
    alive = Heartbeat(store, BASE, spec.slice.instant, owner)
    alive.start()
    attempt_to_write(alive.beat)
    assert written()
    marker, file = store.writes[-3], store.writes[-1]  # between them the beat
    assert marker == f"create {BASE}/.hoodie/.temp/{spec.slice.instant}/p/{spec.file_name(0)}.marker.MERGE"
    assert file == f"close {output_path(store, spec.place, spec.file_name(0))}"


def become_another(store: MemoryObjects, spec: OperationSpec, processes: ScriptedProcesses) -> None:
    store.delete(heartbeat_path(BASE, spec.slice.instant))
    Heartbeat(store, BASE, spec.slice.instant, processes.new_owner()).start()


class StoppedPublishing(MemoryObjects):
    """A process that dies as it creates the commit; its request may arrive later."""

    request: tuple[str, bytes] | None = None

    def create(self, path: str, data: bytes) -> None:
        if publishes(f"create {path}"):
            self.request = path, data
            self._dead = True
        super().create(path, data)

    def arrive(self) -> None:
        """The request reaches the store after all."""
        assert self.request is not None
        path, data = self.request
        with suppress(AlreadyExists):
            MemoryObjects(self._objects).create(path, data)


def test_a_late_rollback_takes_nothing_of_a_successor(lake: Lake) -> None:
    """t0 A rolls a dead attempt back, and is stopped before whatever write of that; t1 B takes over, begins at the same
    instant, states its intent, and dies as it creates the commit; t2 A wakes up, and goes on to its end; t3 C comes.
    In the end there is one commit, also when B's request arrives only now. Keeps 2 and 4 of protocol/attempts/fencing;
    Keeps 1 and 3 of protocol/attempts/intent_fencing."""
    processes = ScriptedProcesses()
    dying = lake.store()

    def die(write: str) -> None:
        if stages(write):
            dying._dead = True
            raise Killed

    dying.before = die
    with pytest.raises(Killed):
        carry_out(dying, processes)
    processes.kill_all()
    clean = lake.copy().store()
    recover(clean, processes)
    assert any(write.endswith(".inflight") for write in clean.writes)
    for number, write in enumerate(clean.writes):
        table, slept = lake.copy(), list[str]()
        late, publishing = table.store(), StoppedPublishing(table.objects)

        def sleep(
            write: str,
            late: MemoryObjects = late,
            number: int = number,
            slept: list[str] = slept,
            publishing: StoppedPublishing = publishing,
        ) -> None:
            if not slept and len(late.writes) == number:
                slept.append(write)
                processes.kill_all()
                with pytest.raises(Killed):
                    carry_out(publishing, processes)

        late.before = sleep
        try:
            with suppress(LakewardError):
                recover(late, processes)
            assert slept
            processes.kill_all()
            check_readable(table.fetched())
            for _ in range(2):
                with suppress(AttemptLost):  # it finds an intent, finishes that, and says so
                    carry_out(table.store(), processes)
            publishing.arrive()
            carry_out(table.store(), processes)
            check_finished(table.fetched())
        except BaseException as error:
            error.add_note(f"stopped before write {number}: {write}")
            raise


def recover(store: MemoryObjects, processes: ScriptedProcesses) -> None:
    compactor(BASE, store, processes, lock=StorageLockOptions(wait_seconds=0.0)).recover()  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------- a real server


@pytest.mark.services
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_in_s3(service: Service, bucket: str, tmp_path: Path) -> None:
    """Requests alone lead from the golden table to a compacted one."""
    base = f"{bucket}/a b/orders"
    store = ObjectStore(parse_object_url(bucket))
    bring(copy_golden("v9", tmp_path / "golden"), store, base)
    lock = StorageLockOptions(wait_seconds=0.0)
    report = compact(base, store, ScriptedProcesses(), service.planner, lock=lock)  # type: ignore[arg-type]
    assert len(report.plans) == 1
    service.check_finished(fetch(store, base, tmp_path / "fetched"))
