"""A table with a metadata table in an object store: stopped at every write, overtaken at every write, and changed by
others between what an intent says and what is published."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lakeward.base.errors import Conflict, LakewardError
from lakeward.format.file_name import parse_log_file
from lakeward.format.timeline.instant import State
from lakeward.protocol.attempts.heartbeat import find_intent
from lakeward.protocol.lock.storage_lock import StorageLockOptions
from lakeward.services.metadata.run.removal import remove_metadata
from tests.clocks import SkippingClock
from tests.crash.compacting import everything
from tests.crash.metadata_compacting import SERVICES as OF_METADATA
from tests.crash.metadata_compacting import check_finished, check_readable
from tests.faults import Fault, FaultKind, Killed
from tests.golden_tables import expected_rows
from tests.memory_objects import MemoryObjects, Objects
from tests.metadata_golden import DATA_TIMELINE, GOLDEN, METADATA, METADATA_TIMELINE, timeline
from tests.object_lake import BASE, KINDS, Lake, RemoteLake, Service, carry_out, overtaken, survive
from tests.our_reader import read_rows
from tests.processes import ScriptedProcesses

SERVICES = [
    Service(each.name, each.planner, check_readable, partial(check_finished, service=each)) for each in OF_METADATA
]
FULL, LOG = SERVICES


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, GOLDEN)


def publishing(writes: list[str]) -> range:
    """From the first log file that is prepared for the metadata table to the first of what is tidied up."""
    first = next(n for n, write in enumerate(writes) if "/.files-0000" in write)
    return range(first, 1 + next(n for n, write in enumerate(writes) if write.startswith("delete")))


def intent_of(writes: list[str]) -> int:
    return next(n for n, write in enumerate(writes) if write.startswith("replace") and "/.heartbeat/" in write)


class Unreadable(MemoryObjects):
    """Its n-th call fails before anything is done, and only that."""

    def __init__(self, objects: Objects, fails: int | None = None) -> None:
        super().__init__(objects)
        self.calls: list[int] = []
        """How many writes there were before each."""
        self._fails = fails

    def _live(self) -> None:
        self.calls.append(len(self.writes))
        if len(self.calls) - 1 == self._fails:
            raise OSError("injected before a call")


@pytest.mark.wide
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_publishing_survives_every_failing_call(service: Service, lake: Lake) -> None:
    """A check that fails is no harm either: a process that wrote its commit intent rolls forward, or is rolled
    forward."""
    clean = Unreadable(lake.copy().objects)
    carry_out(clean, ScriptedProcesses(), service.planner)
    wanted = publishing(clean.writes)
    for fails in [n for n, writes in enumerate(clean.calls) if writes in wanted]:
        table, processes = lake.copy(), ScriptedProcesses()
        with suppress(LakewardError, OSError):
            carry_out(Unreadable(table.objects, fails), processes, service.planner)
        check_readable(table.fetched())
        processes.kill_all()
        carry_out(table.store(), processes, service.planner)
        service.check_finished(table.fetched())


@pytest.mark.wide
@pytest.mark.services
@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_service_survives_every_fault_in_s3(kind: FaultKind, service: Service, bucket: str, tmp_path: Path) -> None:
    """The same against a real server, from the first write to the last."""
    survive(kind, service, RemoteLake(tmp_path, bucket, GOLDEN))


def writes_of(lake: Lake, service: Service) -> list[str]:
    store = lake.copy().store()
    carry_out(store, ScriptedProcesses(), service.planner)
    return store.writes


# ------------------------------------------------------------------------------------------- two that believe in it


@pytest.mark.parametrize("service", [FULL, pytest.param(LOG, marks=pytest.mark.wide)], ids=lambda service: service.name)
def test_who_is_overtaken_does_no_harm(service: Service, lake: Lake) -> None:
    """Stopped at whatever write from the last that prepares, taken for dead, the work done by another, and then awake
    again: there is one commit on each timeline, and each file group of the metadata table has one log of it."""
    writes = writes_of(lake, service)
    given = intent_of(writes)
    for number in range(given - 1, publishing(writes).stop):
        table = lake.copy()
        _, error = overtaken(table, partial(is_nth, iter(range(len(writes))), number), service.planner)
        try:
            # What its intent said it may find done; else it lost.
            assert error is not None or number > given
            check_readable(table.fetched())
            carry_out(table.store(), ScriptedProcesses(), service.planner)  # tidies up after it
            service.check_finished(table.fetched())
        except BaseException as failed:
            failed.add_note(f"stopped at write {number} (intent stated at {given}): {writes[number]}")
            raise


def is_nth(numbers: Iterable[int], number: int, write: str) -> bool:
    return next(iter(numbers)) == number


def test_before_its_intent_is_written_nothing_is_in_the_metadata_table(lake: Lake) -> None:
    """Nothing is created on either timeline but by its one name."""
    writes = writes_of(lake, FULL)
    given = intent_of(writes)
    before, after = writes[:given], writes[given:]
    assert [write for write in before if f"/{METADATA}/" in write] == []
    created = [write.removeprefix("create ") for write in after if write.startswith("create ")]
    logs = [path for path in created if parse_log_file(path.rpartition("/")[2]) is not None]
    timelines = [path.rpartition(".hoodie/")[2] for path in created if "/timeline/" in path]
    assert len(created) == len(logs) + len(timelines) and len(logs) == 5
    assert [name.partition(".")[2] for name in timelines[:2]] == ["deltacommit.requested", "deltacommit.inflight"]
    assert [name.rpartition(".")[2] for name in timelines[2:]] == ["deltacommit", "commit"]
    assert created[:2] + logs == [path for path in created if f"/{METADATA}/" in path][:7]


# ------------------------------------------------------------------------------------- what others did in between


def died_with_intent(lake: Lake, processes: ScriptedProcesses) -> tuple[str, str]:
    """Its process died right after it stated its intent. Returns the instant and the metadata table's completion
    time."""
    with pytest.raises(Killed):
        carry_out(lake.store(Fault(FaultKind.KILL, intent_of(writes_of(lake, FULL)))), processes)
    processes.kill_all()
    table = lake.fetched()
    (instant,) = {i.time for i in timeline(table, DATA_TIMELINE) if i.action == "compaction"}
    found = find_intent(lake.store(), BASE, instant)
    assert found is not None and found.metadata is not None
    return instant, found.metadata.partition("_")[2].partition(".")[0]


def test_a_table_whose_metadata_table_was_compacted_since_waits(lake: Lake) -> None:
    """Readers would not see the records behind the new base files. Without a metadata table it is rolled forward."""
    processes = ScriptedProcesses()
    _, completed = died_with_intent(lake, processes)
    compacted = f"{BASE}/{METADATA_TIMELINE}/{int(completed) + 1}.compaction.requested"
    lake.store().create(compacted, b"plan")
    before = everything(lake.fetched())
    for _ in range(2):
        with pytest.raises(Conflict, match="does not fit the metadata table any more") as caught:
            carry_out(lake.store(), processes)
        assert "compacted" in str(caught.value.why) and "metadata disable" in str(caught.value.remedy)
        assert [path for path in everything(lake.fetched()) if "/.locks/" not in path] == [
            path for path in before if "/.locks/" not in path
        ]
        check_rows(lake)

    lock = StorageLockOptions(wait_seconds=0.0)
    removed = remove_metadata(lake.store(), BASE, None, lock=lock, clock=SkippingClock(), processes=processes)
    assert "files" in removed.named
    carry_out(lake.store(), processes)
    table = lake.fetched()
    assert [i.state for i in timeline(table, DATA_TIMELINE) if i.action == "commit"][-1] is State.COMPLETED
    assert not (table / METADATA).exists()
    check_rows(lake)


def check_rows(lake: Lake) -> None:
    assert read_rows(lake.fetched()) == expected_rows(GOLDEN)
